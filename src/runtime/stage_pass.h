// StagePass: one pass of tokens through the stages of a bundle. An input that several stages take is filled once,
// by the first of them, and lent to the others; the stream goes from output to input in place. Nothing is copied
// between stages.
//     StagePass run(*bundle, calls, pass);
//     run.stage(0, function, state.get());
//     Call& head = run.stage(1, head_function);
//     head.output("logits_0");                       // stays readable while `run` lives
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "anemone/predictor.h"
#include "bundle/bundle_info.h"
#include "runtime/bundle.h"
#include "runtime/expert_pass.h"
#include "runtime/fill.h"
#include "runtime/stage_calls.h"

namespace anemone {

// What the host keeps for a stage from one call to the next, where the functions have no states.
struct Kept {
  Role role;
  Array array;
};

class StagePass {
 public:
  // Borrows calls from `calls`, which only one pass at a time uses.
  StagePass(const Bundle& bundle, StageCalls& calls, const Pass& pass)
      : bundle_(bundle), calls_(calls), pass_(pass), ran_(bundle.info().stages.size()) {}
  ~StagePass();
  StagePass(const StagePass&) = delete;
  StagePass& operator=(const StagePass&) = delete;

  // Runs a function of a stage on the stream as it stands. `kept`: for inputs that the host keeps.
  Call& stage(size_t stage, const StageFunction& function, State* state = nullptr,
              const std::vector<Kept>* kept = nullptr);
  // Runs the functions of a stage of experts that some token chose; behind the route that chose them.
  void experts(size_t stage);
  // The same in two parts, for passes that go side by side: the call, ready to run; and what follows its run.
  Call& begin(size_t stage, const StageFunction& function, const std::vector<Kept>* kept = nullptr);
  Call& end(size_t stage, const StageFunction& function);
  // The call that ran for a stage; null before.
  Call* ran(size_t stage) const { return ran_[stage]; }
  // [1, hidden, T, 1], behind the last stage that gave one; Error before.
  TensorView stream() const;
  // From here on only this column of it is the stream.
  void take_column(int64_t column);
  // The first operation that left the range of fp16.
  const std::optional<NumericFault>& fault() const { return fault_; }
  // What the calls could not read where it lay, in this pass.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  // An input that was filled, in the memory of the call that took it first.
  struct Given {
    Role role;
    TensorView view;
    Call* owner;
    const std::string* input;  // whose input this is
  };

  void give(Call& call, const Port& port, const std::vector<Kept>* kept);

  const Bundle& bundle_;
  StageCalls& calls_;
  Pass pass_;
  std::vector<Call*> ran_;  // by stage
  std::vector<Given> given_;
  Call* streaming_ = nullptr;          // whose output the stream is
  const Port* stream_port_ = nullptr;  // which one
  Call* carrying_ = nullptr;           // likewise
  const Port* carried_port_ = nullptr;
  std::vector<std::unique_ptr<ExpertPass>> experts_;  // one for each route that ran; sums are lent from them
  std::optional<TensorView> column_;                  // instead, behind take_column()
  std::optional<NumericFault> fault_;
  uint64_t copied_before_ = 0;  // by the call that begin() gave
  uint64_t copied_bytes_ = 0;
};

}  // namespace anemone
