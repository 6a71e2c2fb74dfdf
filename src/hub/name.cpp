#include "hub/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hub/url.h"

namespace anemone::hub {
namespace {

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> out(1);
  for (const char c : text)
    if (c == '/')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

std::string joined(const std::vector<std::string>& parts, size_t from) {
  std::string out;
  for (size_t i = from; i < parts.size(); ++i) out += (out.empty() ? "" : "/") + parts[i];
  return out;
}

// As the hub allows them: letters, digits, - _ and . inside; "--" parts owner and name in the cache.
bool is_id_part(std::string_view text) {
  const auto edge = [](char c) { return c == '-' || c == '.'; };
  return !text.empty() && text.size() <= 96 && !edge(text.front()) && !edge(text.back()) &&
         text.find("--") == text.npos && text.find("..") == text.npos &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

// Endings of files: "models/tiny.gguf" is a path that is missing, not a repository.
bool is_file_name(std::string_view text) {
  constexpr std::string_view kEndings[] = {
      ".gguf", ".safetensors", ".json", ".model", ".mlpackage", ".mlmodelc", ".mil", ".mlmodel", ".bin",
      ".pt",   ".pth",         ".onnx", ".npy",   ".npz",       ".bundle",   ".txt", ".html",    ".zip"};
  return std::any_of(std::begin(kEndings), std::end(kEndings), [&](auto end) { return text.ends_with(end); });
}

// "owner/repo@revision/path": the parts, without looking at what they mean.
RepoName split_name(std::string_view text, size_t id_parts) {
  std::vector<std::string> parts = parts_of(text);
  RepoName out;
  std::string& last = parts[std::min(id_parts, parts.size()) - 1];
  if (const size_t at = last.find('@'); at != last.npos) {
    out.revision = last.substr(at + 1);
    last.resize(at);
    if (out.revision.empty()) throw Error("a revision is missing behind the @").at(std::string(text));
  }
  const size_t used = std::min(id_parts, parts.size());
  for (size_t i = 0; i < used; ++i) out.id += (i ? "/" : "") + parts[i];
  out.path = joined(parts, used);
  return out;
}

bool is_id(const std::string& id, bool owner_needed) {
  const std::vector<std::string> parts = parts_of(id);
  return parts.size() <= 2 && (parts.size() == 2 || !owner_needed) &&
         std::all_of(parts.begin(), parts.end(), [](const std::string& p) { return is_id_part(p); });
}

RepoName checked(RepoName name, const std::string& text) {
  if (!is_id(name.id, false))
    throw Error("is no name of a repository")
        .at(text)
        .found("'" + name.id + "'")
        .expected("owner/repo, of letters, digits, - _ and .");
  if (!name.revision.empty()) expect_inner_path(name.revision, text);
  while (name.path.ends_with('/')) name.path.pop_back();
  if (!name.path.empty()) expect_inner_path(name.path, text);
  return name;
}

// "/owner/repo/resolve/main/file" of a hub's address.
std::optional<RepoName> of_hub_path(const std::string& path) {
  std::vector<std::string> parts = parts_of(path.substr(std::min<size_t>(1, path.size())));
  for (std::string& p : parts) p = unescape(p);
  while (!parts.empty() && parts.back().empty()) parts.pop_back();
  if (parts.size() < 2 || !is_id_part(parts[0]) || !is_id_part(parts[1])) return std::nullopt;
  if (parts[0] == "datasets" || parts[0] == "spaces" || parts[0] == "api") return std::nullopt;
  RepoName out{.id = parts[0] + "/" + parts[1], .revision = "", .path = ""};
  if (parts.size() == 2) return out;
  constexpr std::array<std::string_view, 3> kViews = {"resolve", "blob", "tree"};
  if (parts.size() < 4 || std::find(kViews.begin(), kViews.end(), parts[2]) == kViews.end())
    return std::nullopt;
  out.revision = parts[3];
  out.path = joined(parts, 4);
  return out;
}

ModelName of_url(const std::string& text, const std::string& endpoint) {
  const Url url = Url::parse(text), hub = Url::parse(endpoint);
  const bool of_hub =
      url.origin() == hub.origin() ||
      (hub.host == "huggingface.co" && (url.host == "hf.co" || url.host == "www.huggingface.co"));
  if (of_hub && url.path.starts_with(hub.path == "/" ? "" : hub.path))
    if (auto name = of_hub_path(url.path.substr(hub.path == "/" ? 0 : hub.path.size())))
      return checked(std::move(*name), text);
  expect_protected(url, endpoint);
  return FileUrl{text};
}

}  // namespace

std::optional<ModelName> parse_name(const std::string& text, const std::string& endpoint) {
  if (text.starts_with("https://") || text.starts_with("http://")) return of_url(text, endpoint);
  for (const std::string_view prefix : {"hf://", "hf:"})
    if (text.starts_with(prefix)) {
      const std::string_view rest = std::string_view(text).substr(prefix.size());
      return checked(split_name(rest, rest.find('/') == rest.npos ? 1 : 2), text);
    }
  if (text.find('/') == text.npos || text.front() == '/' || text.front() == '.' || text.front() == '~')
    return std::nullopt;
  const RepoName name = split_name(text, 2);
  if (!is_id(name.id, true) || (name.path.empty() && is_file_name(name.id))) return std::nullopt;
  std::error_code ignored;
  if (std::filesystem::is_directory(text.substr(0, text.find('/')), ignored)) return std::nullopt;
  return checked(name, text);
}

void expect_inner_path(const std::string& path, const std::string& where) {
  const auto control = [](unsigned char c) { return c < ' ' || c == 127 || c == '\\'; };
  bool good = !path.empty() && path.size() <= 1024 && std::none_of(path.begin(), path.end(), control);
  for (const std::string& part : parts_of(path))
    good = good && !part.empty() && part != "." && part != ".." && part.size() <= 255;
  if (good) return;
  std::string shown;
  for (const unsigned char c : path.substr(0, 100))
    shown += control(c) ? fmt::format("\\x{:02x}", c) : std::string(1, static_cast<char>(c));
  throw Error("a path that could leave its folder is refused").at(where).found("'" + shown + "'");
}

std::string name_text(const RepoName& name) {
  return name.id + (name.revision.empty() ? "" : "@" + name.revision) +
         (name.path.empty() ? "" : "/" + name.path);
}

}  // namespace anemone::hub
