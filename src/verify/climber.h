// The state of a climb, shared by the files that hold the rungs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "families/model.h"
#include "predict/arithmetic.h"
#include "reference/reference.h"
#include "text/tokenizer.h"
#include "verify/ladder.h"
#include "verify/stepper.h"

namespace anemone {

struct Climber {
  const VerifyOptions& options;
  std::filesystem::path path;
  std::shared_ptr<const Bundle> bundle;          // in fp32 arithmetic
  std::shared_ptr<const Checkpoint> checkpoint;  // with a source
  Model model;                                   // with a source; as the checkpoint describes it
  std::unique_ptr<Reference> reference;          // with a source; of the bundle's layers alone
  std::shared_ptr<const Tokenizer> tokenizer;    // may be absent
  Golden truth;
  int64_t tokens = 0;   // of the truth that are looked at
  int64_t context = 0;  // of the tier in use
  int least_bits = 16;  // of the packages' weights and the tables
  int64_t first_layer = 0;
  mutable bool cancelled = false;
  VerifyReport report;

  bool half_weights() const { return least_bits >= 16; }
  // The bars for the stream and logits, and for what stands inside a layer.
  double stream_bar(Arithmetic arithmetic) const;
  double piece_bar(Arithmetic arithmetic) const;
  void say(const std::string& what) const;
  // A stepper over the bundle for the tokens of the truth.
  Stepper stepper(Arithmetic arithmetic, bool taps) const;
  // What a row of logits is held to; empty when it is fine.
  std::string logit_problem(const FigureRow& row) const;
};

// Logits of several positions as one row of figures.
class LogitTally {
 public:
  LogitTally(std::string what, Arithmetic arithmetic);
  void add(std::span<const float> got, std::span<const float> expected);
  void add_best(int64_t got, std::span<const float> expected);  // where only the choice is known
  bool empty() const { return row_.positions == 0; }
  FigureRow row() const;

 private:
  FigureRow row_;  // sums, until row() divides them
};

// Notes the first operation that left half's range, once.
void note_fault(const std::optional<NumericFault>& fault, Rung& rung);
// The rung of the layers fails; says so where half alone is to blame.
void fail_layers(const Climber& c, std::string problem, Arithmetic arithmetic, Rung& rung);
// How large the values inside became, and what a residual scale would do about it.
void measure_magnitudes(Climber& c, int64_t layers, const Magnitudes& largest, Rung& rung);
// The layers of a step against the truth, of one token or of all that the step took; what is wrong first, or nothing.
std::string compare_layers(Climber& c, const StepResult& r, std::optional<int64_t> token, int64_t layers,
                           Arithmetic arithmetic);

Rung check_weights_rung(Climber& c);
Rung check_reference(Climber& c);
Rung check_stateless(Climber& c);
Rung check_stateful(Climber& c);
Rung check_runtime(Climber& c, std::map<Arithmetic, std::vector<int32_t>>& made);
Rung check_text(Climber& c, const std::map<Arithmetic, std::vector<int32_t>>& made);
// The same for a bundle that sees a text whole: encoder_check.cpp.
Rung check_encoder_reference(Climber& c);
Rung check_encoder_layers(Climber& c);
Rung check_encoder_runtime(Climber& c);

}  // namespace anemone
