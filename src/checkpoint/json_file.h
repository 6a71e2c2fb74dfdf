// Reads a JSON file of bounded size, depth and width; whatever is wrong with it is an Error that names the
// file.
//     nlohmann::ordered_json config = read_json_file(folder / "config.json");
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace anemone {

// Keeps the order of keys. At most 8 MiB, 64 levels and 20,000 keys in one object: looking keys up is linear
// there.
nlohmann::ordered_json read_json_file(const std::filesystem::path& path);
nlohmann::ordered_json parse_json(std::string_view text, const std::string& name);

}  // namespace anemone
