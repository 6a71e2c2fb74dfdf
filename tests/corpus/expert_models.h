// The models with experts in the folders of ANEMONE_DATA, and the ways to convert them.
//     for (const GoldenModel& model : models_with_experts())
//       for (const Way& way : ways()) convert(model.checkpoint, folder, options_of(model, way, is_text_model(model)));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "families/experts.h"
#include "support/golden_models.h"

namespace anemone::test {

inline constexpr int64_t kContext = 96;

struct Way {
  std::string name;
  ExpertWay way;
  std::optional<int64_t> group;
};

// Groups that do not divide the experts, too.
inline const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"all", ExpertWay::all, {}}, {"host", ExpertWay::host, {}}, {"groups of 3", ExpertWay::groups, 3}};
  return all;
}

inline ConvertOptions options_of(const GoldenModel& model, const Way& way, bool decoder) {
  ConvertOptions o;
  if (decoder) {
    o.context = {kContext};
    o.tokens = {{1, 1}, {16, 16}};
  } else {
    o.tokens = {{64, 64}, {96, 96}};
  }
  o.precision = Precision::fp16;
  o.experts = way.way;
  o.expert_group = way.group;
  o.skip = model.skip();
  o.overwrite = true;
  return o;
}

inline std::vector<GoldenModel> models_with_experts() {
  std::vector<GoldenModel> out;
  for (const GoldenModel& model : golden_models()) {
    const Checkpoint checkpoint = Checkpoint::open(model.checkpoint);
    if (is_known(checkpoint) && has_experts(describe(checkpoint))) out.push_back(model);
  }
  return out;
}

inline bool is_text_model(const GoldenModel& model) {
  return describe(Checkpoint::open(model.checkpoint)).generates();
}

}  // namespace anemone::test
