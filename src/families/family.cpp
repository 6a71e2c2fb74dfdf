#include "families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/check.h"

namespace anemone {
namespace {

const Family* find_family(std::string_view architecture) {
  for (const Family* family : all_families())
    if (std::find(family->architectures.begin(), family->architectures.end(), architecture) !=
        family->architectures.end())
      return family;
  return nullptr;
}

Error unknown(const Checkpoint& c, const std::vector<std::string>& names) {
  std::string known;
  for (const Family* family : all_families())
    known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", family->name,
                         fmt::join(family->architectures, ", "));
  return Error("the architecture is not known")
      .at(c.path().string())
      .found(names.empty() ? "no name at all" : printable(fmt::format("{}", fmt::join(names, ", "))))
      .expected("one of: " + known);
}

}  // namespace

Model describe(const Checkpoint& checkpoint) {
  const std::vector<std::string> names = checkpoint.names();
  // An architecture that is named but unknown is not taken for another one of the same type.
  const Family* family = names.empty() ? nullptr : find_family(names.front());
  if (!family) throw unknown(checkpoint, names);
  Model model = family->build(checkpoint);
  model.family = family->name;
  if (!checkpoint.config_only()) check_model(checkpoint, model);
  return model;
}

}  // namespace anemone
