// The ladder: proves a bundle against what it was made from, rung by rung, and stops with a reason at the first
// one that breaks.
//     VerifyReport r = verify("bundle", {.source = "model.gguf", .backend = cpu_backend});
//     std::cout << report_text(r);                           // verify/report.h
//   1 weights    files and descriptions are whole; what bundle.json says is the model's; every element of every weight
//                is as near to its source as its storage form allows
//   2 reference  the truth: the model over the weights as they are stored, by the fp32 reference; and what storing
//                them cost against the model itself
//   3 stateless  one token through the packages, layer by layer, over a cache that holds the truth's own rows
//   4 stateful   the whole text one by one and in chunks, then every function at near and far positions, with every
//                kind of padding: every row that was written is right, and no other row changed
//   5 runtime    the runtime's own Session computes the truth's logits
//   6 text       tokenizer, template and special tokens are the source's; the text is the truth's greedy text
// Two questions are kept apart. Does the graph compute the model with the numbers that it holds? That is asked with
// tight bars, whatever the storage. What did storing cost? That is a figure with a grade, and a bar that the user sets.
// Against a golden, which knows no stored weights, both are one question and the bars are wide.
// Of a bundle that sees a text whole, rung 3 looks at all tokens of a text, hidden states and head included; rung 5
// is the runtime's Encoder in every length, with padding and without; 4 is skipped.
// Rungs 3 to 6 are climbed in fp32 arithmetic (is the graph right?) and in fp16 (does it survive half?).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "predict/backend.h"
#include "reference/ranges.h"
#include "verify/figures.h"
#include "verify/golden.h"
#include "verify/weights_check.h"

namespace anemone {

// The bars of the graph, as errors relative to what was expected: the same weights on both sides, and in fp32
// arithmetic only the order of sums, a cache in half and constants in half lie between them. docs/verify.md says what
// clean bundles reach.
struct GraphBars {
  double error = 0;       // of every value inside, of cache rows and of logits
  double divergence = 0;  // of the next token's distribution, in nats
};
inline constexpr GraphBars kGraphBars{.error = 0.01, .divergence = 2e-4};
inline constexpr GraphBars kHalfGraphBars{.error = 0.25, .divergence = 0.05};
// Chunks against one by one, in fp32 and in fp16 arithmetic.
inline constexpr double kChunkError = 0.002, kChunkErrorHalf = 0.05;
inline constexpr double kTieMargin =
    0.05;  // in standard deviations of the logits: below it is a tie, not an error

// The bars against a golden: the weights' own loss is in them.
inline constexpr double kMinCosine = 0.97;  // stream and logits: to pass at all
inline constexpr double kHalfWeightCosine = 0.999;
inline constexpr double kPieceCosine = 0.9;  // q, k, v and what the blocks give, compressed weights
inline constexpr double kWideMargin = 0.5;   // of a divergence, in standard deviations of the logits

struct VerifyOptions {
  std::filesystem::path source;          // the checkpoint, or
  std::filesystem::path golden;          // an .npz; one of the two
  std::vector<int32_t> ids;              // the prompt; empty: ordinary text (or the golden's own)
  int64_t steps = 16;                    // tokens to decode after it
  double min_cosine = kMinCosine;        // against a golden
  std::optional<double> max_divergence;  // that storing the weights may cost, mean over the text; none: any
  bool hashes = true;                    // compare the files with bundle.json's hashes
  bool deep = false;                     // every position class in every arithmetic, every row of the choice
  std::vector<Arithmetic> arithmetics = {Arithmetic::fp32, Arithmetic::fp16};
  int threads = 0;
  MakeBackend backend;  // what runs the packages
  // What is being done, for people; false cancels (an Error).
  std::function<bool(const std::string& what)> progress;
};

enum class Verdict { passed, warned, failed, skipped };
std::string_view verdict_name(Verdict verdict);

// One line of figures of a rung.
struct FigureRow {
  std::string what;  // "logits, one by one"
  Arithmetic arithmetic = Arithmetic::fp32;
  int64_t positions = 0;                // tokens that were compared
  double same_best = 1;                 // the part of them whose best token is the truth's
  double overlap = 1;                   // of the five best: mean
  double cosine = 1, worst_cosine = 1;  // mean, and of the worst token
  double mean_abs = 0, max_abs = 0;
  double error = 0, worst_error = 0;            // relative: mean, and of the worst token
  double divergence = 0, worst_divergence = 0;  // of the next token's distribution, in nats
  double worst_margin = 0;                      // of a choice below the truth's best, in standard deviations
  double psnr = 0;                              // mean
  bool values = true;                           // false: only the best token is known
  bool choices = true;                          // false: vectors, of which none is the best
};

struct Rung {
  int number = 0;
  std::string name;
  Verdict verdict = Verdict::passed;
  std::string summary;             // one sentence: what was found, or why it broke
  std::vector<std::string> notes;  // what else a reader should know, a sentence each
  std::vector<FigureRow> rows;
  double seconds = 0;
};

// One layer in one arithmetic, at the token that rung 3 looks at.
struct LayerFigures {
  int64_t layer = 0;
  std::map<std::string, Figures> parts;  // q, k, v, attn_out, mlp_out, layer_out, where both sides have them
};

// How large a layer's values become in the package over the whole text, and its sums in the reference.
struct LayerMagnitude {
  int64_t layer = 0;
  Peak value;
  Peak sum;  // of the accumulator, the bundle's residual scale included; empty without a source
  double half_headroom() const;
  double accumulator_headroom() const;  // by the sums, or by the values where there are none
};

// What storing the weights cost: the model over the stored weights against the model itself, on the same text.
struct StorageCost {
  int64_t positions = 0;
  double divergence = 0, worst_divergence = 0;  // of a next token, in nats
  double same_best = 1;
  double perplexity = 0, stored_perplexity = 0;  // of the text
  double error = 0;  // of a bundle that sees a text whole: relative, of what it gives

  // "excellent", "good", "fair" or "poor".
  std::string_view grade() const;
};

struct VerifyReport {
  std::string bundle, source, precision, form, name;
  bool generates = true;  // false: it sees a text whole
  int64_t layers = 0, prompt = 0, steps = 0;
  double residual_scale = 1, min_cosine = kMinCosine;
  std::vector<Rung> rungs;
  std::vector<WeightFigures> weights;  // worst first
  std::map<Arithmetic, std::vector<LayerFigures>> layer_figures;
  std::vector<LayerMagnitude> magnitudes;
  std::optional<StorageCost> cost;  // with a source
  double proposed_scale = 1;        // of the residual stream, instead of the bundle's; 0: no proposal
  std::string text, expected_text;  // rung 6, where there is a tokenizer

  bool passed() const;
};

// Error for what cannot be judged (no such file, another model); a bundle that is wrong is a report that says so.
VerifyReport verify(const std::filesystem::path& bundle, const VerifyOptions& options);

}  // namespace anemone
