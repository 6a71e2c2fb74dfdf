// The rungs of a bundle that sees a text whole: hidden states, the vector of the text, classes.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "reference/head.h"
#include "runtime/encoder.h"
#include "verify/climber.h"

namespace anemone {
namespace {

using Rows = std::vector<float>;

// "label 2 is 'B-LOC' instead of 'I-ORG'"
std::string first_difference(const std::vector<std::string>& got, const std::vector<std::string>& expected) {
  if (got.size() != expected.size())
    return fmt::format("there are {} instead of {}", got.size(), expected.size());
  const auto at =
      static_cast<size_t>(std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin());
  return fmt::format("label {} is '{}' instead of '{}'", at, got[at], expected[at]);
}

// What the reference says of a text; `classes` where the model has some.
struct TextTruth {
  Rows hidden, pooled, classes;
};

TextTruth truth_of(const Reference& reference, std::span<const int32_t> ids, const ReferenceTap& tap = {}) {
  TextTruth out;
  ReferenceOptions options;
  options.tap = [&](std::string_view name, int64_t layer, std::span<const float> values) {
    if (name == "final_norm") out.hidden.assign(values.begin(), values.end());
    if (tap) tap(name, layer, values);
  };
  const Rows result = ReferenceSession(reference, options).step(ids);
  const Model& model = reference.model();
  if (std::holds_alternative<ClassHead>(model.head)) {
    out.classes = result;
  } else {
    out.pooled = pooled(out.hidden, model.hidden, std::get<PooledHead>(model.head).pooling);
  }
  return out;
}

// Rows of one kind of result against the truth's, as one row of figures.
class Comparison {
 public:
  Comparison(Climber& c, Rung& rung, Arithmetic arithmetic) : c_(c), rung_(rung), arithmetic_(arithmetic) {}

  void add(const std::string& what, std::span<const float> got, std::span<const float> expected, int64_t rows,
           bool choices) {
    if (expected.empty() || !problem_.empty()) return;
    if (got.size() != expected.size()) {
      problem_ = fmt::format("{}: {} numbers, and the truth has {}", what, got.size(), expected.size());
      return;
    }
    LogitTally tally(what, arithmetic_);
    const size_t width = expected.size() / static_cast<size_t>(rows);
    for (size_t at = 0; at < expected.size(); at += width)
      tally.add(got.subspan(at, width), expected.subspan(at, width));
    FigureRow row = tally.row();
    row.choices = choices;
    rung_.rows.push_back(row);
    const double bar = c_.stream_bar(arithmetic_), cosine = c_.half_weights() ? row.worst_cosine : row.cosine;
    if (!(cosine >= bar))
      problem_ = fmt::format("{}: cosine {:.5f} in {} arithmetic, below {}", what, cosine,
                             arithmetic_name(arithmetic_), bar);
  }

  void add(const std::string& what, std::span<const float> hidden, std::span<const float> pooled,
           std::span<const float> classes, const TextTruth& truth, int64_t tokens) {
    add("hidden states" + what, hidden, truth.hidden, tokens, false);
    add("pooled" + what, pooled, truth.pooled, 1, false);
    add("classes" + what, classes, truth.classes, c_.bundle->info().pooling ? 1 : tokens, true);
  }

  const std::string& problem() const { return problem_; }

 private:
  Climber& c_;
  Rung& rung_;
  Arithmetic arithmetic_;
  std::string problem_;
};

// The prompt over and over, cut at this length.
std::vector<int32_t> text_of(const Climber& c, int64_t tokens) {
  std::vector<int32_t> out;
  for (int64_t t = 0; t < tokens; ++t) out.push_back(c.truth.ids[static_cast<size_t>(t % c.truth.prompt)]);
  return out;
}

}  // namespace

Rung check_encoder_reference(Climber& c) {
  Rung rung;
  c.say("computing the reference");
  const TextTruth truth = truth_of(*c.reference, c.truth.ids,
                                   [&](std::string_view name, int64_t layer, std::span<const float> values) {
                                     Golden::Rows& rows = c.truth.inner[{std::string(name), layer}];
                                     rows.values.assign(values.begin(), values.end());
                                     rows.rows = c.truth.prompt;
                                     rows.width = static_cast<int64_t>(values.size()) / c.truth.prompt;
                                   });
  c.tokens = c.truth.prompt;
  for (const Rows* rows : {&truth.hidden, &truth.pooled, &truth.classes})
    if (!std::all_of(rows->begin(), rows->end(), [](float v) { return std::isfinite(v); })) {
      rung.verdict = Verdict::failed;
      rung.summary = fmt::format("{} gives values that are not finite", c.truth.origin);
      return rung;
    }
  rung.summary = fmt::format("{} tokens, finite", c.truth.prompt);
  if (c.truth.prompt < 3) {
    rung.verdict = Verdict::warned;
    rung.notes.push_back("so short a text hardly exercises attention");
  }
  for (const Reach& m : c.bundle->info().masks)
    if (m.size >= c.tokens)
      rung.notes.push_back(fmt::format(
          "the band of {} tokens to either side is not reached by {} tokens; a longer --text would", m.size,
          c.tokens));
  return rung;
}

Rung check_encoder_layers(Climber& c) {
  Rung rung;
  int64_t layers = 0;
  bool inside = false;
  const TextTruth truth = truth_of(*c.reference, c.truth.ids);
  for (const Arithmetic a : c.options.arithmetics) {
    c.say(fmt::format("a text, layer by layer, {} arithmetic", arithmetic_name(a)));
    const Stepper stepper = c.stepper(a, true);
    const CallShape& shape = stepper.shape_for(c.tokens);
    layers = stepper.layers();
    Caches none = stepper.empty_caches(shape);
    const StepResult r = stepper.step(shape, c.truth.ids, 0, none);
    if (c.report.magnitudes.empty()) measure_magnitudes(c, layers, r.magnitudes, rung);
    std::string problem = compare_layers(c, r, std::nullopt, layers, a);
    for (const LayerFigures& l : c.report.layer_figures[a]) inside = inside || !l.parts.empty();
    Comparison all(c, rung, a);
    all.add("", r.hidden, r.pooled, r.classes, truth, c.tokens);
    if (problem.empty() && !all.problem().empty())
      problem = "the layers agree, but what comes behind does not: " + all.problem();
    note_fault(r.fault, rung);
    if (problem.empty()) continue;
    fail_layers(c, std::move(problem), a, rung);
    return rung;
  }
  if (!inside)
    rung.notes.push_back("the packages do not name the values inside: only the results were compared");
  rung.summary =
      fmt::format("{} tokens, {} layers{}, and the head", c.tokens, layers, inside ? " compared inside" : "");
  return rung;
}

Rung check_encoder_runtime(Climber& c) {
  Rung rung;
  const auto* classes = std::get_if<ClassHead>(&c.model.head);
  if (classes && classes->labels != c.bundle->info().labels) {
    rung.verdict = Verdict::failed;
    rung.summary = fmt::format("the labels are not the model's: {}",
                               first_difference(c.bundle->info().labels, classes->labels));
    return rung;
  }
  struct Text {
    std::vector<int32_t> ids;
    int64_t width;
    TextTruth truth;
  };
  // Every length full, and not full.
  std::vector<Text> texts;
  int64_t shorter = 0;
  for (const int64_t width : c.bundle->tiers()) {
    for (const int64_t tokens : {std::max(shorter + 1, width - width / 4), width}) {
      if (!texts.empty() && texts.back().ids.size() == static_cast<size_t>(tokens)) continue;
      c.say(fmt::format("computing the reference of {} tokens", tokens));
      texts.push_back({text_of(c, tokens), width, {}});
      texts.back().truth = truth_of(*c.reference, texts.back().ids);
    }
    shorter = width;
  }
  for (const Arithmetic a : c.options.arithmetics) {
    const Encoder encoder(
        Bundle::open(c.path, c.options.backend({.arithmetic = a, .threads = c.options.threads})));
    for (const Text& text : texts) {
      c.say(fmt::format("{} tokens, {} arithmetic", text.ids.size(), arithmetic_name(a)));
      const EncodedText e = encoder.encode({.ids = text.ids});
      note_fault(e.fault, rung);
      Comparison all(c, rung, a);
      const std::string what = fmt::format(", {} in {}", text.ids.size(), text.width);
      if (e.width == text.width)
        all.add(what, e.hidden, text.truth.pooled.empty() ? Rows() : e.pooled, e.classes, text.truth,
                e.tokens);
      if (e.width == text.width && all.problem().empty()) continue;
      rung.verdict = Verdict::failed;
      rung.summary = e.width == text.width ? all.problem()
                                           : fmt::format("{} tokens went to the length {} instead of {}",
                                                         e.tokens, e.width, text.width);
      return rung;
    }
  }
  rung.summary =
      fmt::format("{} texts in {} length{}, full and padded, as the reference computes them", texts.size(),
                  c.bundle->tiers().size(), c.bundle->tiers().size() == 1 ? "" : "s");
  return rung;
}

}  // namespace anemone
