// StagePass: one pass of tokens through the stages of a bundle. An input that several stages take is filled once,
// by the first of them, and lent to the others; the stream goes from output to input in place. Nothing is copied
// between stages.
//     StagePass run(*bundle, pass);
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
#include "runtime/fill.h"

namespace anemone {

// What the host keeps for a stage from one call to the next, where the functions have no states.
struct Kept {
  Role role;
  Array array;
};

class StagePass {
 public:
  StagePass(const Bundle& bundle, const Pass& pass) : bundle_(bundle), pass_(pass) {}

  // Runs a function of a stage on the stream as it stands. `kept`: for inputs that the host keeps.
  Call& stage(size_t stage, const StageFunction& function, State* state = nullptr,
              const std::vector<Kept>* kept = nullptr);
  // [1, hidden, T, 1], behind the last stage that gave one; Error before.
  const TensorView& stream() const;
  // From here on only this column of it is the stream.
  void take_column(int64_t column);
  // The first operation that left half's range.
  const std::optional<NumericFault>& fault() const { return fault_; }
  uint64_t copied_bytes() const;

 private:
  struct Given {
    Role role;
    TensorView view;
  };

  void give(Call& call, const Port& port, const std::vector<Kept>* kept);

  const Bundle& bundle_;
  Pass pass_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<Given> given_;
  std::optional<TensorView> stream_;
  std::optional<NumericFault> fault_;
};

}  // namespace anemone
