// InnerName: which value inside a model: what it is, and of which layer. verify/golden.h lists them.
//     InnerName name{"layer_out", 3};
//     name.text();                      // "layer_out_3", as a golden's arrays are called
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <string>

namespace anemone {

struct InnerName {
  std::string name;
  int64_t layer = -1;  // counted from the bundle's first; -1: of no layer

  std::string text() const { return layer < 0 ? name : fmt::format("{}_{}", name, layer); }
  auto operator<=>(const InnerName&) const = default;
};

}  // namespace anemone
