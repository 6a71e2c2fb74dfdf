// What a bundle is made for: a chip or a device, a system, or both, as --target says it.
//     ConvertTarget t = parse_target("iPhone 15 Pro, ios18");
//     t.phone();                                    // packed states by default
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "target/chips.h"

namespace anemone {

struct ConvertTarget {
  Target hardware;
  std::string name;  // as bundle.json keeps it: "a17-pro, ios18"

  bool phone() const { return hardware.phone(); }
};

// Up to two names, separated by a comma: "m4", "macos15", "a17-pro, ios18". Error for names that are not known, for two
// that do not go together, and for systems that cannot run what we write.
ConvertTarget parse_target(const std::string& text);

// Reasons against packages of `largest_package` bytes of weights and caches of `context` rows on that target, one
// sentence each.
std::vector<std::string> target_notes(const ConvertTarget& target, uint64_t largest_package, int64_t context);

}  // namespace anemone
