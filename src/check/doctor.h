// Doctor: what an error message of Core ML means and what to try first; and a look at a bundle, the disk and the
// system.
//     for (const ErrorMeaning* m : decode_error("error code: -14")) fmt::print("{}\n", m->first);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

struct ErrorMeaning {
  std::string_view patterns;  // texts that show it, in any case of letters, separated by '|'
  std::string_view meaning;
  std::string_view first;  // to try
  std::string_view rules;  // "K02, Q05"; empty where none is about it
  std::string_view sources;
  bool wrapper = false;  // stands around other messages; counts only where nothing else does
};

// Everything that the text may be, the most particular first.
std::vector<const ErrorMeaning*> decode_error(std::string_view text);

// One thing that was looked at.
struct Health {
  std::string what, found;
  bool good = true;
  std::string advice;  // where it is not good
};

struct DoctorOptions {
  std::optional<std::filesystem::path> bundle;
  bool hashes = true;          // compare its files with bundle.json's hashes
  std::filesystem::path home;  // whose caches are measured; empty: the environment's HOME
};

std::vector<Health> examine(const DoctorOptions& options);

}  // namespace anemone
