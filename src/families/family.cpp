#include "families/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/check.h"

namespace anemone {
namespace {

// What the checkpoint says of itself: the architecture, then the broader model type.
std::vector<std::string> names_of(const Checkpoint& c) {
  std::vector<std::string> names;
  if (!c.architecture().empty()) names.push_back(c.architecture());
  if (c.format() == CheckpointFormat::safetensors)
    if (const auto at = c.config().find("model_type"); at != c.config().end() && at->is_string())
      names.push_back(at->get<std::string>());
  return names;
}

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
  const std::vector<std::string> names = names_of(checkpoint);
  // An architecture that is named but unknown is not taken for another one of the same type.
  const Family* family = names.empty() ? nullptr : find_family(names.front());
  if (!family) throw unknown(checkpoint, names);
  Model model = family->describe(checkpoint);
  model.family = family->name;
  if (!checkpoint.config_only()) check_model(checkpoint, model);
  return model;
}

}  // namespace anemone
