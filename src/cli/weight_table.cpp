#include "cli/weight_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace anemone::cli {

void print_weight_table(const std::vector<WeightLine>& lines) {
  constexpr size_t kColumns = 100;
  size_t name = 0, shape = 0, form = 0;
  for (const WeightLine& line : lines) {
    name = std::max(name, line.name.size());
    shape = std::max(shape, line.shape.size());
    form = std::max(form, line.form.size());
  }
  const size_t rest = 2 + 2 + shape + 2 + 8 + 2 + 5 + 2 + form;
  name = std::min(name, rest + 20 < kColumns ? kColumns - rest : 20);
  fmt::print("\n");
  for (const WeightLine& line : lines) {
    const bool fits = line.name.size() <= name;
    if (!fits) fmt::print("  {}\n", line.name);
    fmt::print("  {:<{}}  {:<{}}  {:>8}  {:>5}{}\n", fits ? line.name : "", name, line.shape, shape,
               line.size, line.bits, line.form.empty() ? "" : "  " + line.form);
  }
}

}  // namespace anemone::cli
