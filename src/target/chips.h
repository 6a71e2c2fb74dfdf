// Chips: what is known of the Apple chips that have a Neural Engine, and the names people use for them.
//     Target t = find_target("iPhone 15 Pro");      // chip a17-pro, device iphone
//     t.chip->limits().spatial;                      // 65536
//     t.chip->weight_read.mid();                     // GB/s, with where it comes from
// Numbers are public measurements (sources in docs/plan.md) where `measured` is set, otherwise assumed from a
// relative that is named. A name that is not known is an Error that lists what exists.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace anemone {

enum class DeviceClass { iphone, ipad, mac };
std::string_view device_name(DeviceClass device);  // "iPhone"

// A figure with its range and where it comes from.
struct Figure {
  double low = 0, high = 0;  // both 0: not published
  bool measured = false;
  std::string_view origin;  // who measured it, or what it is assumed from

  bool known() const { return high > 0; }
  double mid() const { return (low + high) / 2; }
};

// The largest sizes that an op may have on the engine (rules S05, S06, S07).
struct AneLimits {
  int64_t batch = 65536, channels = 65536;
  int64_t spatial = 65536;  // depth, height and width
  int64_t inner = 32768;    // the contracted dimension of a matmul
};

// Which stored forms the engine reads as they are, so that fewer bytes mean less time (rule Q10); the others are
// unfolded to fp16 when the package is compiled.
struct AneStreams {
  bool palettes = true, int8 = true, blocks = true;
};

struct Chip {
  std::string_view id;             // "m4-max"
  std::string_view name;           // "M4 Max"
  std::string_view aliases;        // devices, lower case, separated by '|': "iphone 15 pro|iphone 15 pro max"
  DeviceClass device;              // what it is mostly found in
  int generation = 13;             // of the engine: 13 … 18
  std::string_view platform;       // as the compiler calls it: "h16g"
  int engines = 1;                 // of 16 cores each
  Figure weight_read;              // GB/s of weights streamed from memory
  Figure activation;               // GB/s of inputs, outputs and caches
  Figure call_us;                  // µs that an empty call costs at least
  std::span<const int> memory_gb;  // sizes on sale
  int oldest_os = 0;               // major version that the chip's first device came with, of its own system

  AneLimits limits() const;
  AneStreams streams() const;
  bool phone() const { return device != DeviceClass::mac; }
};

// All chips, phones first, oldest first.
std::span<const Chip> all_chips();

// What a package is made for: a chip in a kind of device, perhaps with the version of its system.
struct Target {
  const Chip* chip = nullptr;
  DeviceClass device = DeviceClass::mac;
  int os = 0;           // major version of iOS or macOS; 0: not said
  bool oldest = false;  // a system was named and no chip: `chip` is the oldest one that has it

  bool phone() const { return device != DeviceClass::mac; }
};

// "m4", "M4 Max", "m4-max", "a17pro", "iPhone 15 Pro", "ipad pro m4", "macos15", "ios18", "mac", "iphone", "phone"; or
// a chip and a system, separated by a comma: "a17-pro, ios18". Error for two that do not go together.
Target find_target(std::string_view text);
// "ios18", of a target that says it.
std::string system_name(const Target& target);

// Weights of one package (rule Z01): what is safe everywhere, and the most that was seen to stay on the engine.
inline constexpr uint64_t kSafeShardBytes = 250'000'000;
uint64_t most_shard_bytes(DeviceClass device);

}  // namespace anemone
