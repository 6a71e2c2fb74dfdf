#include "families/experts.h"

#include "base/error.h"
#include "families/size_names.h"

namespace anemone {

ExpertSizes read_expert_sizes(const Hparams& hp, const ExpertKeys& keys, const ExpertSizes& otherwise) {
  constexpr int64_t kMostExperts = 2048;  // their numbers are exact in fp16
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
