#include "target/chips.h"

#include <array>
#include <cctype>
#include <vector>

#include "base/error.h"

namespace anemone {
namespace {

constexpr Figure measured(double low, double high, std::string_view origin) {
  return {low, high, true, origin};
}
constexpr Figure assumed(double value, std::string_view from) { return {value, value, false, from}; }

constexpr Figure kActivationM1 = measured(24, 24, "ANEForge"), kActivationM5 = measured(24, 24, "ANEForge");
constexpr Figure kNone{};

// A phone's memory is slower than the engine of the Mac of its generation could read: the M1 reads at 0.82 of its
// memory's 68.3 GB/s, so phones are taken at 0.8 of theirs.
constexpr Figure kPhone34 = assumed(27, "0.8 of the memory's 34.1 GB/s");
constexpr Figure kPhone51 = assumed(41, "0.8 of the memory's 51.2 GB/s");
constexpr Figure kPhone60 = assumed(48, "0.8 of the memory's 60 GB/s");
constexpr Figure kPhone68 = assumed(55, "0.8 of the memory's 68.3 GB/s");
constexpr Figure kPhone77 = assumed(61, "0.8 of the memory's 76.8 GB/s; published runs need 37 at least");

constexpr int k4or6[] = {4, 6}, k6[] = {6}, k8[] = {8}, k12[] = {12};
constexpr int kM1[] = {8, 16}, kM1Pro[] = {16, 32}, kM1Max[] = {32, 64}, kM1Ultra[] = {64, 128};
constexpr int kM2[] = {8, 16, 24}, kM2Max[] = {32, 64, 96}, kM2Ultra[] = {64, 128, 192};
constexpr int kM3Pro[] = {18, 36}, kM3Max[] = {36, 48, 64, 96, 128}, kM3Ultra[] = {96, 256, 512};
// Sizes of the M5 and M6 machines are taken from the M4's.
constexpr int kM4[] = {16, 24, 32}, kM4Pro[] = {24, 48, 64}, kM4Max[] = {36, 48, 64, 128};

using enum DeviceClass;

constexpr Chip kChips[] = {
    {"a14", "A14", "iphone 12|iphone 12 mini|iphone 12 pro|iphone 12 pro max|ipad air 4|ipad 10", iphone, 13,
     "h13", 1, kPhone34, assumed(24, "M1"), assumed(205, "M1"), k4or6, 14},
    {"a15", "A15",
     "iphone 13|iphone 13 mini|iphone 13 pro|iphone 13 pro max|iphone 14|iphone 14 plus|iphone se 3|ipad "
     "mini 6",
     iphone, 14, "h14", 1, kPhone34, kNone, assumed(100, "M2 Pro"), k4or6, 15},
    {"a16", "A16", "iphone 14 pro|iphone 14 pro max|iphone 15|iphone 15 plus|ipad 11", iphone, 15, "h15", 1,
     kPhone51, kNone, kNone, k6, 16},
    {"a17-pro", "A17 Pro", "a17|iphone 15 pro|iphone 15 pro max|ipad mini 7", iphone, 16, "h16", 1, kPhone51,
     kNone, assumed(90, "M4"), k8, 17},
    {"a18", "A18", "iphone 16|iphone 16 plus|iphone 16e", iphone, 17, "h17", 1, kPhone60, assumed(24, "M5"),
     assumed(90, "M5"), k8, 18},
    {"a18-pro", "A18 Pro", "iphone 16 pro|iphone 16 pro max", iphone, 17, "h17", 1, kPhone60,
     assumed(24, "M5"), assumed(90, "M5"), k8, 18},
    {"a19", "A19", "iphone 17", iphone, 18, "h18", 1, kPhone68, assumed(24, "M5"), assumed(90, "M5"), k8, 26},
    {"a19-pro", "A19 Pro", "iphone 17 pro|iphone 17 pro max|iphone air", iphone, 18, "h18", 1, kPhone77,
     assumed(24, "M5"), assumed(90, "M5"), k12, 26},
    {"m1", "M1", "ipad pro m1|ipad air 5|ipad air m1", mac, 13, "h13g", 1,
     measured(51, 61, "M6 study, anemll-bench, ANEForge"), kActivationM1, measured(190, 220, "ANEForge"), kM1,
     11},
    {"m1-pro", "M1 Pro", "", mac, 13, "h13g", 1, measured(54.6, 54.9, "anemll-bench"), assumed(24, "M1"),
     assumed(205, "M1"), kM1Pro, 12},
    {"m1-max", "M1 Max", "", mac, 13, "h13g", 1, measured(54.6, 54.9, "anemll-bench"), assumed(24, "M1"),
     assumed(205, "M1"), kM1Max, 12},
    {"m1-ultra", "M1 Ultra", "", mac, 13, "h13g", 2, measured(54.6, 54.9, "anemll-bench"), assumed(24, "M1"),
     assumed(205, "M1"), kM1Ultra, 12},
    {"m2", "M2", "ipad pro m2|ipad air m2", mac, 14, "h14g", 1, measured(60.5, 60.5, "anemll-bench"), kNone,
     assumed(100, "M2 Pro"), kM2, 12},
    {"m2-pro", "M2 Pro", "", mac, 14, "h14g", 1, assumed(60.5, "M2"), kNone, measured(100, 100, "ANEForge"),
     kM1Pro, 13},
    {"m2-max", "M2 Max", "", mac, 14, "h14g", 1, measured(62, 62, "anemll-bench"), kNone,
     assumed(100, "M2 Pro"), kM2Max, 13},
    {"m2-ultra", "M2 Ultra", "", mac, 14, "h14g", 2, measured(61.7, 61.7, "anemll-bench"), kNone,
     assumed(100, "M2 Pro"), kM2Ultra, 13},
    {"m3", "M3", "ipad air m3", mac, 15, "h15g", 1, measured(63, 63, "anemll-bench"), kNone, kNone, kM2, 14},
    {"m3-pro", "M3 Pro", "", mac, 15, "h15g", 1, assumed(63, "M3"), kNone, kNone, kM3Pro, 14},
    {"m3-max", "M3 Max", "", mac, 15, "h15g", 1, measured(120, 120, "anemll-bench"), kNone, kNone, kM3Max,
     14},
    {"m3-ultra", "M3 Ultra", "", mac, 15, "h15g", 2, assumed(120, "M3 Max"), kNone, kNone, kM3Ultra, 15},
    {"m4", "M4", "ipad pro m4|ipad air m4", mac, 16, "h16g", 1, measured(64, 67, "anemll-bench, M6 study"),
     kNone, measured(90, 90, "M6 study"), kM4, 15},
    {"m4-pro", "M4 Pro", "", mac, 16, "h16g", 1, measured(126, 126, "anemll-bench"), kNone, assumed(90, "M4"),
     kM4Pro, 15},
    {"m4-max", "M4 Max", "", mac, 16, "h16g", 1, measured(119, 119, "anemll-bench"), kNone, assumed(90, "M4"),
     kM4Max, 15},
    {"m5", "M5", "ipad pro m5", mac, 17, "h17g", 1, measured(70, 70, "anemll-bench"), kActivationM5,
     measured(70, 110, "ANEForge"), kM4, 26},
    {"m5-pro", "M5 Pro", "", mac, 17, "h17g", 1, measured(122, 145, "llms-on-apple-neural-engine, M6 study"),
     measured(21, 24, "llms-on-apple-neural-engine"), measured(70, 70, "llms-on-apple-neural-engine"), kM4Pro,
     26},
    {"m5-max", "M5 Max", "", mac, 17, "h17g", 1, assumed(133.5, "M5 Pro"), assumed(22.5, "M5 Pro"),
     assumed(70, "M5 Pro"), kM4Max, 26},
    {"m6", "M6", "", mac, 18, "h18g", 2, measured(150, 150, "M6 study, both engines"),
     measured(35, 40, "M6 study, each engine"),
     measured(160, 355, "M6 study: 30 to submit, 130 to 325 to complete"), kM4, 27},
};

// Letters and digits in lower case: "M4 Max", "m4-max" and "m4_max" are one name.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

DeviceClass device_of(std::string_view plain_name, DeviceClass otherwise) {
  if (plain_name.starts_with("iphone")) return iphone;
  return plain_name.starts_with("ipad") ? ipad : otherwise;
}

const Chip* by_alias(const Chip& chip, std::string_view name) {
  std::string_view rest = chip.aliases;
  while (!rest.empty()) {
    const size_t bar = rest.find('|');
    if (plain(rest.substr(0, bar)) == name) return &chip;
    rest = bar == std::string_view::npos ? "" : rest.substr(bar + 1);
  }
  return nullptr;
}

// "macos15", "ios18", "ipados18" or a kind of device: the oldest chip it may run on.
bool find_system(std::string_view name, Target& out) {
  struct System {
    std::string_view name;
    DeviceClass device;
    const char* oldest;
  };
  constexpr std::array kSystems = {System{"macos", mac, "m1"},     System{"mac", mac, "m1"},
                                   System{"ios", iphone, "a14"},   System{"iphone", iphone, "a14"},
                                   System{"phone", iphone, "a14"}, System{"ipados", ipad, "a14"},
                                   System{"ipad", ipad, "a14"}};
  for (const System& s : kSystems) {
    if (!name.starts_with(s.name)) continue;
    const std::string_view digits = name.substr(s.name.size());
    const bool versioned = s.name.ends_with("os");
    if (!digits.empty() && (!versioned || digits.size() > 2)) continue;
    int os = 0;
    bool number = true;
    for (const char c : digits) {
      number = number && c >= '0' && c <= '9';
      os = os * 10 + (c - '0');
    }
    if (!number) continue;
    for (const Chip& chip : kChips)
      if (chip.id == s.oldest) out = {&chip, s.device, os, true};
    return true;
  }
  return false;
}

// One name: a chip, a device or a system.
Target find_one(std::string_view text) {
  const std::string name = plain(text);
  for (const Chip& chip : kChips)
    if (plain(chip.id) == name || by_alias(chip, name))
      return {&chip, device_of(name, chip.device), 0, false};
  Target target;
  if (find_system(name, target)) return target;
  std::string known;
  for (const Chip& chip : kChips) known += (known.empty() ? "" : ", ") + std::string(chip.id);
  throw errorf("there is no such chip in the table")
      .found(text.empty() ? "nothing" : "'" + std::string(text.substr(0, 60)) + "'")
      .expected("one of: " + known)
      .hint("devices (phone, ipad, mac, \"iPhone 15 Pro\") and systems (macos15, ios18) work too");
}

}  // namespace

std::string_view device_name(DeviceClass device) {
  return device == iphone ? "iPhone" : device == ipad ? "iPad" : "Mac";
}

AneLimits Chip::limits() const {
  AneLimits limits;
  if (generation < 16) limits.spatial = limits.inner = 16384;
  return limits;
}

AneStreams Chip::streams() const {
  return {.palettes = true, .int8 = generation > 13, .blocks = generation > 14};
}

std::span<const Chip> all_chips() { return kChips; }

uint64_t most_shard_bytes(DeviceClass device) { return device == mac ? 2'000'000'000 : 1'000'000'000; }

std::string system_name(const Target& t) {
  return fmt::format("{}{}", t.device == mac ? "macos" : t.device == ipad ? "ipados" : "ios", t.os);
}

Target find_target(std::string_view text) {
  const size_t comma = text.find(',');
  Target a = find_one(text.substr(0, comma));
  if (comma == std::string_view::npos) return a;
  Target b = find_one(text.substr(comma + 1));
  if (a.oldest) std::swap(a, b);
  if (a.oldest || !b.oldest)
    throw errorf("a target is a chip or a device, a system, or one of each")
        .found("'" + std::string(text.substr(0, 60)) + "'")
        .expected("such as \"a17-pro, ios18\"");
  if (a.phone() != b.phone() && !(a.chip->id.starts_with('m') && b.device == ipad))
    throw errorf("{} does not run on the {}", system_name(b), a.chip->name).at("--target");
  a.device = b.device;
  a.os = b.os;
  return a;
}

}  // namespace anemone
