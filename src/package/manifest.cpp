#include "package/manifest.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"

namespace anemone {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 24;

const json& member(const json& object, const char* key, json::value_t type, const char* type_name) {
  const auto it = object.find(key);
  if (it == object.end()) throw errorf("'{}' is missing", key);
  if (it->type() != type) throw errorf("'{}' is not {}", key, type_name).found(it->type_name());
  return *it;
}

std::string text_member(const json& object, const char* key) {
  return member(object, key, json::value_t::string, "a string").get<std::string>();
}

// "1.0.0" or lower.
void check_version(const std::string& version) {
  unsigned parts[3];
  int used = 0;
  const bool ok =
      std::sscanf(version.c_str(), "%9u.%9u.%9u%n", &parts[0], &parts[1], &parts[2], &used) == 3 &&
      static_cast<size_t>(used) == version.size();
  if (!ok) throw Error("fileFormatVersion is not a version").found("'" + version + "'");
  if (parts[0] > 1 || (parts[0] == 1 && (parts[1] > 0 || parts[2] > 0)))
    throw Error("the package format is newer than this program supports").found(version).expected("1.0.0");
}

}  // namespace

const ManifestItem* Manifest::weights() const {
  for (const auto& [identifier, item] : items)
    if (item.name == "weights" && item.author == kManifestAuthor) return &item;
  return nullptr;
}

Manifest parse_manifest(std::string_view text) {
  if (text.size() > kMaxBytes) throw errorf("a manifest of {} bytes is too large", text.size());
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& e) {
    throw errorf("is not valid JSON near byte {}", e.byte).hint("was the file cut short?");
  } catch (const json::exception& e) {
    throw errorf("cannot be read as JSON").found(json_problem(e, text));
  }
  if (!root.is_object()) throw Error("is not a manifest").found(root.type_name()).expected("a JSON object");
  check_version(text_member(root, "fileFormatVersion"));
  Manifest out;
  out.root_identifier = text_member(root, "rootModelIdentifier");
  for (const auto& [identifier, item] :
       member(root, "itemInfoEntries", json::value_t::object, "an object").items()) {
    try {
      if (!item.is_object()) throw Error("is not an object").found(item.type_name());
      out.items[identifier] = {text_member(item, "author"), text_member(item, "description"),
                               text_member(item, "name"), text_member(item, "path")};
    } catch (Error& e) {
      e.within(fmt::format("item '{}'", identifier));
      throw;
    }
  }
  if (!out.items.contains(out.root_identifier))
    throw errorf("rootModelIdentifier names '{}', which is not an item", out.root_identifier);
  return out;
}

std::string manifest_text(const Manifest& manifest) {
  json items = json::object();
  for (const auto& [identifier, item] : manifest.items)
    items[identifier] = {
        {"author", item.author}, {"description", item.description}, {"name", item.name}, {"path", item.path}};
  const json root = {{"fileFormatVersion", "1.0.0"},
                     {"itemInfoEntries", std::move(items)},
                     {"rootModelIdentifier", manifest.root_identifier}};
  return root.dump(4) + "\n";
}

}  // namespace anemone
