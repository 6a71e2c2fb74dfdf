#include "coreml/device_memory.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/sha256.h"

namespace anemone {
namespace {

constexpr const char* kFormat = "anemone-findings";

}  // namespace

std::filesystem::path DeviceMemory::file_for(std::span<const std::filesystem::path> packages) const {
  Sha256 hash;
  hash.add(std::string(compute_units_name(units_)));
  for (const std::filesystem::path& package : packages) hash.add("\n" + cache_.key(package));
  return cache_.folder() / cache_.build() / (hash.hex().substr(0, 16) + ".findings.json");
}

std::optional<Remembered> DeviceMemory::recall(std::span<const std::filesystem::path> packages) const {
  std::error_code error;
  if (!std::filesystem::is_directory(cache_.folder() / cache_.build(), error)) return std::nullopt;
  std::ifstream in(file_for(packages), std::ios::binary);
  if (!in) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(in);
    if (json.at("format") != kFormat || json.at("version") != 1) return std::nullopt;
    Remembered out{.variant = json.value("variant", std::string()), .functions = {}};
    for (const auto& f : json.at("functions"))
      out.functions.push_back({f.at("package"), f.at("name"), f.at("ms")});
    return out;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void DeviceMemory::remember(std::span<const std::filesystem::path> packages, const Remembered& known) const {
  nlohmann::ordered_json json = {
      {"format", kFormat}, {"version", 1}, {"compute_units", compute_units_name(units_)}};
  if (!known.variant.empty()) json["variant"] = known.variant;
  json["functions"] = nlohmann::ordered_json::array();
  for (const Remembered::Function& f : known.functions)
    json["functions"].push_back({{"package", f.package}, {"name", f.name}, {"ms", f.ms}});
  const std::filesystem::path path = file_for(packages);
  if (!write_beside(path, json_text(json, 2) + "\n"))
    throw errorf("what was found cannot be remembered: the cache cannot be written").at(path.string());
}

}  // namespace anemone
