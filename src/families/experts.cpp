#include "families/experts.h"

#include "base/error.h"
#include "families/size_names.h"

namespace anemone {

ExpertSizes read_expert_sizes(const Hparams& hp, const ExpertKeys& keys, const ExpertSizes& otherwise) {
  ExpertSizes out;
  out.count = hp.integer_or(keys.count, otherwise.count, 1, kMostExperts);
  out.used = hp.integer_or(keys.used, otherwise.used, 1, kMostExperts);
  out.width = hp.integer_or(keys.width, otherwise.width, 1, 1 << 26);
  if (out.used > out.count)
    throw Error("a token uses more experts than there are")
        .at(hp.file())
        .found(fmt::format("{} ({}) of {} ({})", out.used, hp.named(keys.used), out.count,
                           hp.named(keys.count)));
  return out;
}

void note_expert_origins(const Hparams& hp, const ExpertKeys& keys, Model& model) {
  if (hp.says(keys.width)) model.origins[std::string(size_names::kMlp)] = hp.named(keys.width);
}

bool has_experts(const Model& model) {
  for (const Layer& layer : model.layers)
    for (const ResidualStep& step : layer.steps)
      if (std::holds_alternative<Experts>(step.block)) return true;
  return false;
}

void set_skip(Model& model, const std::string& what) {
  if (what != "pass" && what != "zero")
    throw errorf("there is no such skip").found("'" + what.substr(0, 40) + "'").expected("pass or zero");
  bool any = false;
  for (Layer& layer : model.layers)
    for (ResidualStep& step : layer.steps)
      if (auto* e = std::get_if<Experts>(&step.block); e && e->skip != Experts::Skip::none) {
        e->skip = what == "pass" ? Experts::Skip::pass : Experts::Skip::zero;
        any = true;
      }
  if (!any) throw errorf("no router of this model can skip its experts").hint("leave out --skip");
}

WeightRef of_stack(const std::string& tensor, size_t expert, const StackPart& part) {
  return {.tensor = tensor,
          .row_begin = part.begin,
          .row_end = part.end,
          .columns = part.columns,
          .interleaved_head = part.paired,
          .slice = static_cast<int64_t>(expert),
          .transposed = part.transposed};
}

}  // namespace anemone
