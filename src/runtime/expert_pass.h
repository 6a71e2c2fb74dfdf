// ExpertPass: the experts of one layer for the tokens of a pass. It begins when a route has run, calls the functions of
// the stages of experts that follow, and holds the sum that the next stage begins with.
//     ExpertPass experts(bundle, calls, route, function, routed, tokens);
//     experts.stage(s);                                   // only the functions whose experts some token chose
//     next.lend("mixed", experts.sum(width));
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "anemone/predictor.h"
#include "bundle/bundle_info.h"
#include "runtime/bundle.h"
#include "runtime/expert_choice.h"
#include "runtime/stage_calls.h"

namespace anemone {

class ExpertPass {
 public:
  // `routed` is the call of `route` that ran; its outputs are read while this lives.
  ExpertPass(const Bundle& bundle, StageCalls& calls, const Stage& route, const StageFunction& function,
             Call& routed, int64_t tokens);

  // Runs a stage of experts. Tokens go to a function in as many calls as it takes; what is left of a call is padding
  // with a share of 0.
  void stage(size_t index);
  // What the experts add, [1, hidden, width, 1]; columns behind the tokens repeat the last one.
  TensorView sum(int64_t width);

  const std::optional<NumericFault>& fault() const { return fault_; }
  // What went from the memory of one call to another's.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  // Tokens that use some of a function's experts, ascending.
  std::vector<int64_t> tokens_of(const Role& shares) const;
  // One call for tokens [begin, begin + count) of `tokens`.
  void run(size_t stage, const StageFunction& function, const std::vector<int64_t>& tokens, size_t begin,
           size_t count);
  void fill(Call& call, const StageFunction& function, const std::vector<int64_t>& tokens, size_t begin,
            size_t count);

  const Bundle& bundle_;
  StageCalls& calls_;
  Call& routed_;
  const Port* normed_port_;
  int64_t tokens_, hidden_;
  std::vector<float> normed_;  // [tokens, hidden]; read when first needed
  ExpertChoice choice_;
  std::vector<float> sums_;  // [tokens, hidden]
  Array sum_;
  std::optional<NumericFault> fault_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace anemone
