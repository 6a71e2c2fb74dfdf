// The state of a climb, shared by the files that hold the rungs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "families/model.h"
#include "predict/arithmetic.h"
#include "reference/reference.h"
#include "text/tokenizer.h"
#include "verify/ladder.h"
#include "verify/stepper.h"

namespace anemone {

// How values are judged.
struct Judging {
  Arithmetic arithmetic = Arithmetic::fp32;
  // By their range alone. A cache of made-up numbers is no text: what half rounds grows there without bound, and the
  // same graph was held to its bars in fp32.
  bool range_only = false;
  bool of_text = true;        // what a text gives: a router's near tie may have made it another one's
  bool ties_settled = false;  // the truth has taken the bundle's choice at near ties: no other is excused
};

struct Climber {
  const VerifyOptions& options;
  std::filesystem::path path;
  std::vector<std::shared_ptr<const Bundle>> ways = {};  // the bundle's variants, in fp32 arithmetic
  size_t way = 0;                                        // the one that is being climbed
  std::shared_ptr<const Bundle> bundle = {};             // it
  std::shared_ptr<const Checkpoint> checkpoint;          // with a source
  Model model;                                           // with a source; as the checkpoint describes it
  std::unique_ptr<Reference> full;       // with a source: the bundle's layers over the checkpoint's weights
  std::unique_ptr<Reference> reference;  // the same over the stored weights, from rung 2 on: the truth
  std::shared_ptr<const Tokenizer> tokenizer;  // may be absent
  Golden truth;
  int64_t tokens = 0;   // of the truth that are looked at
  int64_t context = 0;  // of the tier in use
  int least_bits = 16;  // of the packages' weights and the tables
  int64_t first_layer = 0;
  mutable bool cancelled = false;
  // Arithmetics in which a router was seen to choose other experts at a near tie. What comes behind is another text's,
  // and is judged by its range alone.
  mutable std::set<Arithmetic> router_ties;
  VerifyReport report;

  // The truth has the very weights of the packages, so that only the graph can differ.
  bool exact() const { return !options.source.empty(); }
  bool half_weights() const { return least_bits >= 16; }
  const GraphBars& graph_bars(Arithmetic arithmetic) const {
    return arithmetic == Arithmetic::fp32 ? kGraphBars : kHalfGraphBars;
  }
  // What is wrong with a value of the stream, or of one inside a layer; empty when it is fine. `slack`: how many times
  // the bar it may reach.
  std::string value_problem(const Figures& f, const Judging& how, bool stream, double slack = 1) const;
  // The bars for the stream and logits, and for what stands inside a layer, against a golden.
  double stream_bar(Arithmetic arithmetic) const;
  double piece_bar(Arithmetic arithmetic) const;
  // The width of a head by layer, where there is a source; 0 for a layer without attention.
  std::vector<int64_t> heads() const;
  void say(const std::string& what) const;
  // The variant that is being climbed, in another arithmetic.
  std::shared_ptr<const Bundle> open(Arithmetic arithmetic) const;
  // A stepper over it; `positions` in use in all, 0: those of the truth.
  Stepper stepper(Arithmetic arithmetic, bool taps, int64_t positions = 0) const;
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

// Notes the first operation that left the range of fp16, once.
void note_fault(const std::optional<NumericFault>& fault, Rung& rung);
// The rung of the layers fails; says so where half alone is to blame.
void fail_layers(const Climber& c, std::string problem, Arithmetic arithmetic, Rung& rung);
// How large the values inside became, and what a residual scale would do about it.
void measure_magnitudes(Climber& c, int64_t layers, const Magnitudes& largest, Rung& rung);
// What is wrong first inside a function, and in which layer, counted from the bundle's first.
struct Drift {
  std::string problem;  // empty: nothing
  int64_t layer = -1;
  std::string part;  // "attn_out"
};
// The layers of a step against rows of a truth, from row `first` on, as many as the step has. Figures go into `figures`
// where it is given.
Drift compare_layers(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                     int64_t layers, const Judging& how, std::vector<LayerFigures>* figures = nullptr);

// Where rounding made a router choose other experts: two scores of the truth lie so close that either choice is right.
struct RouterTie {
  int64_t layer = 0, token = 0;  // the token of the truth
  std::vector<size_t> taken;     // what the bundle chose
};
// Those of the first layer, up to `last`, that has some; what later layers choose hangs on them. `settled`: where the
// truth has taken the bundle's choice.
std::vector<RouterTie> near_ties(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                                 int64_t last, Arithmetic arithmetic,
                                 const decltype(ReferenceOptions::taken)& settled = {});
// Whether two rows of shares belong to the same experts.
bool same_choice(std::span<const float> have, std::span<const float> want);
// The experts that a layer chose and those of the truth, where they differ, as the beginning of a sentence. `shown` is
// the layer's number in the model.
std::string choice_text(const StepResult& r, const Golden& truth, int64_t first, int64_t layer,
                        int64_t shown);
// Whether every expert computes what the model's does, also those that the text does not use: the first that does not,
// by its number.
Drift experts_problem(const Climber& c, Arithmetic arithmetic);
// Of two that were found, the one that comes first in the computation.
Drift earlier(Drift layers, Drift experts);
// Why attention drifts, where a known mistake gives the very same values, as the end of a sentence; or nothing. `ids`
// is the text from its start, and `first` the place of the step in it.
std::string attention_suspect(const Climber& c, const StepResult& r, std::span<const int32_t> ids,
                              int64_t first, const Drift& drift, const Judging& how);

// The same for what a shared expert adds.
std::string shared_suspect(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                           const Drift& drift, const Judging& how);

// What bundle.json says against what the checkpoint does; the first that differs, with both, or nothing.
std::string claim_problem(const Climber& c);
// The values inside the packages that bundle.json knows: where some are missing, less would be compared than is said. A
// bundle without any says so elsewhere.
std::string tap_problem(const Climber& c);
// Files against their hashes, and the packages' descriptions against their programs; or nothing.
std::string file_problem(const Climber& c);
// What the tokenizer of the bundle does, its chat template and special tokens, against the source's; or nothing.
std::string tokenizer_problem(const Climber& c);
// What the functions compute at near and far positions over a cache of known numbers, and with every padding; what is
// wrong first, or nothing. `note` hears what was looked at.
std::string probe_problem(Climber& c, Arithmetic arithmetic, std::string& note);
// Whether each row of the vocabulary, where it is the best, is the one that the bundle picks; or nothing.
std::string choice_problem(const Climber& c);
// What storing the weights cost: fills the report, and says when it is more than the user's bar.
std::string storage_problem(Climber& c, Rung& rung);

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
