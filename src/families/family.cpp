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

bool has_name(const Family& family, std::string_view architecture) {
  return std::find(family.architectures.begin(), family.architectures.end(), architecture) !=
         family.architectures.end();
}

Error unknown(const Checkpoint& c, std::span<const Family* const> families) {
  const std::vector<std::string> names = c.names();
  std::string known;
  for (const Family* family : families)
    if (!family->architectures.empty())
      known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", family->name,
                           fmt::join(family->architectures, ", "));
  return Error("the architecture is not known")
      .at(c.path().string())
      .found(names.empty() ? "no name at all" : printable(fmt::format("{}", fmt::join(names, ", "))))
      .expected("one of: " + known);
}

Error ambiguous(const Checkpoint& c, const std::vector<const Family*>& claimants) {
  std::vector<std::string_view> names;
  for (const Family* family : claimants) names.push_back(family->name);
  return Error("may be a model of more than one family")
      .at(c.path().string())
      .found(fmt::format("{}", fmt::join(names, " and ")))
      .expected("one family that knows it");
}

}  // namespace

const Family& choose_family(const Checkpoint& checkpoint, std::span<const Family* const> families) {
  std::vector<const Family*> claimants;
  for (const Family* family : families)
    if (family->claims && family->claims(checkpoint)) claimants.push_back(family);
  // An architecture that is named but unknown is not taken for another one of the same type.
  const std::vector<std::string> names = checkpoint.names();
  if (claimants.empty() && checkpoint.naming() && !names.empty())
    for (const Family* family : families)
      if (!family->claims && has_name(*family, names.front())) claimants.push_back(family);
  if (claimants.empty()) throw unknown(checkpoint, families);
  if (claimants.size() > 1) throw ambiguous(checkpoint, claimants);
  return *claimants.front();
}

Model describe(const Checkpoint& checkpoint) {
  const Family& family = choose_family(checkpoint, all_families());
  Model model = family.build(checkpoint);
  model.family = family.name;
  if (!checkpoint.config_only()) check_model(checkpoint, model);
  return model;
}

}  // namespace anemone
