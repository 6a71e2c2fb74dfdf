// The rungs of a bundle that sees a text whole: hidden states, the vector of the text, classes.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "reference/head.h"
#include "runtime/encoder.h"
#include "verify/climber.h"
#include "verify/stored_weights.h"

namespace anemone {
namespace {

using Rows = std::vector<float>;

// What the reference says of a text; `classes` where the model has some.
struct TextTruth {
  Rows hidden, pooled, classes;
};

TextTruth truth_of(const Reference& reference, std::span<const int32_t> ids, const ReferenceTap& tap = {},
                   ReferenceOptions options = {}) {
  TextTruth out;
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

// Keeps the values inside a text of so many tokens.
ReferenceTap keep_in(Golden& truth, int64_t tokens) {
  return [&truth, tokens](std::string_view name, int64_t layer, std::span<const float> values) {
    Golden::Rows& rows = truth.inner[{std::string(name), layer}];
    rows.values.assign(values.begin(), values.end());
    rows.rows = tokens;
    rows.width = static_cast<int64_t>(values.size()) / tokens;
  };
}

// The truth of a text that went through the packages. Where a router was in a near tie, either choice is right, and
// what comes behind it differs: so the truth takes the choice that the packages took, and all else is held to its bars.
TextTruth settled_truth(const Climber& c, std::span<const int32_t> ids, const StepResult& r,
                        Arithmetic arithmetic, Golden& inner, size_t& ties) {
  const auto layers = static_cast<int64_t>(c.reference->model().layers.size());
  ReferenceOptions options;
  TextTruth truth;
  for (int64_t round = 0; round <= layers; ++round) {  // each settles one layer at least
    inner.inner.clear();
    truth = truth_of(*c.reference, ids, keep_in(inner, static_cast<int64_t>(ids.size())), options);
    const std::vector<RouterTie> found = near_ties(c, r, inner, 0, layers - 1, arithmetic, options.taken);
    if (found.empty()) break;
    for (const RouterTie& tie : found) options.taken[{static_cast<size_t>(tie.layer), tie.token}] = tie.taken;
  }
  ties += options.taken.size();
  return truth;
}

void note_ties(size_t ties, Arithmetic arithmetic, Rung& rung) {
  if (ties)
    rung.notes.push_back(fmt::format(
        "in {} arithmetic routers chose another expert at {} near tie{}; the truth took the same ones",
        arithmetic_name(arithmetic), ties, ties == 1 ? "" : "s"));
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
    const double bar = c_.graph_bars(arithmetic_).error;
    if (!(row.worst_error <= bar))
      problem_ = fmt::format("{}: an error of {:.2g}% in {} arithmetic (bar {:.2g}%)", what,
                             100 * row.worst_error, arithmetic_name(arithmetic_), 100 * bar);
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

// What storing the weights cost; what is more than the user's bar, or nothing.
std::string encoder_cost(Climber& c, const TextTruth& stored, Rung& rung) {
  c.say("computing what storing the weights cost");
  const TextTruth own = truth_of(*c.full, c.truth.ids);
  StorageCost cost;
  cost.positions = c.truth.prompt;
  const auto error = [](const Rows& got, const Rows& expected) {
    return expected.empty() ? 0.0 : compare(got, expected).relative;
  };
  cost.error = own.classes.empty()
                   ? std::max(error(stored.hidden, own.hidden), error(stored.pooled, own.pooled))
                   : error(stored.classes, own.classes);
  const int64_t rows = c.bundle->info().pooling ? 1 : c.truth.prompt;
  if (!own.classes.empty()) {
    const size_t width = own.classes.size() / static_cast<size_t>(rows);
    for (size_t at = 0; at < own.classes.size(); at += width) {
      const double d =
          divergence(std::span(stored.classes).subspan(at, width), std::span(own.classes).subspan(at, width));
      cost.divergence += d / static_cast<double>(rows);
      cost.worst_divergence = std::max(cost.worst_divergence, d);
    }
  }
  c.report.cost = cost;
  rung.notes.push_back(
      fmt::format("storing the weights cost an error of {:.2g}% in what the model gives ({})",
                  100 * cost.error, cost.grade()));
  const auto& most = c.options.max_divergence;
  const double loss = std::max(cost.divergence, cost.error * cost.error / 2);
  if (most && !(loss <= *most))
    return fmt::format("storing the weights cost {:.3g} nats, and at most {:.3g} was asked for", loss, *most);
  return "";
}

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
  c.reference = std::make_unique<Reference>(std::make_shared<const StoredWeights>(*c.bundle, c.model),
                                            as_stored(c.full->model()), c.options.threads);
  const TextTruth truth = truth_of(*c.reference, c.truth.ids, keep_in(c.truth, c.truth.prompt));
  c.tokens = c.truth.prompt;
  for (const Rows* rows : {&truth.hidden, &truth.pooled, &truth.classes})
    if (!std::all_of(rows->begin(), rows->end(), [](float v) { return std::isfinite(v); })) {
      rung.verdict = Verdict::failed;
      rung.summary = fmt::format("{} gives values that are not finite", c.truth.origin);
      return rung;
    }
  rung.summary = fmt::format("{} tokens, finite", c.truth.prompt);
  if (std::string problem = encoder_cost(c, truth, rung); !problem.empty()) {
    rung.verdict = Verdict::failed;
    rung.summary = std::move(problem);
    return rung;
  }
  if (c.truth.prompt < 3) {
    rung.verdict = Verdict::warned;
    rung.notes.push_back("so short a text hardly exercises attention");
  }
  return rung;
}

namespace {

// One text by one function.
struct TextCall {
  const CallShape* shape;
  int64_t tokens;
  Padding padding;
};

// The prompt where it fits best; then every length full, and short with every padding.
std::vector<TextCall> calls_of(const Stepper& stepper, int64_t prompt) {
  std::vector<TextCall> out = {{&stepper.shape_for(prompt), prompt, Padding::zeros}};
  for (const CallShape& shape : stepper.shapes()) {
    out.push_back({&shape, shape.most_tokens, Padding::zeros});
    if (shape.most_tokens < 3) continue;
    int64_t tokens = std::max<int64_t>(1, shape.most_tokens / 3);
    for (const Padding padding : {Padding::zeros, Padding::repeat, Padding::noise})
      out.push_back({&shape, tokens++, padding});
  }
  return out;
}

}  // namespace

Rung check_encoder_layers(Climber& c) {
  Rung rung;
  int64_t layers = 0;
  bool inside = false;
  size_t texts = 0;
  for (const Arithmetic a : c.options.arithmetics) {
    const Stepper stepper = c.stepper(a, true);
    layers = stepper.layers();
    const std::vector<TextCall> calls = calls_of(stepper, c.tokens);
    Drift experts = experts_problem(c, a);
    texts = calls.size();
    size_t ties = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const TextCall& call = calls[i];
      c.say(fmt::format("{} tokens through '{}', layer by layer, {} arithmetic", call.tokens,
                        call.shape->function, arithmetic_name(a)));
      const std::vector<int32_t> ids = text_of(c, call.tokens);
      Caches none = stepper.empty_caches(*call.shape);
      const StepResult r = stepper.step(*call.shape, ids, 0, none, call.padding, call.shape->most_tokens);
      Golden inner;
      const TextTruth truth = settled_truth(c, ids, r, a, inner, ties);
      const Judging how{.arithmetic = a, .ties_settled = true};
      if (c.report.magnitudes.empty()) measure_magnitudes(c, layers, r.magnitudes, rung);
      Drift drift =
          compare_layers(c, r, inner, 0, layers, how, i == 0 ? &c.report.layer_figures[a] : nullptr);
      drift.problem += attention_suspect(c, r, ids, 0, drift, how);
      std::string problem = earlier(std::move(drift), experts).problem;
      for (const LayerFigures& l : c.report.layer_figures[a]) inside = inside || !l.parts.empty();
      Rung scratch;
      Comparison all(c, i == 0 ? rung : scratch, a);
      all.add("", r.hidden, r.pooled, r.classes, truth, call.tokens);
      if (problem.empty() && !all.problem().empty())
        problem = "the layers agree, but what comes behind does not: " + all.problem();
      note_fault(r.fault, rung);
      if (problem.empty()) continue;
      fail_layers(c,
                  fmt::format("{} (function '{}', {} tokens, padding: {})", problem, call.shape->function,
                              call.tokens, padding_name(call.padding)),
                  a, rung);
      return rung;
    }
    note_ties(ties, a, rung);
  }
  if (!inside)
    rung.notes.push_back("the packages do not name the values inside: only the results were compared");
  rung.summary = fmt::format("{} texts in every length, full and padded, {} layers{}, and the head", texts,
                             layers, inside ? " compared inside" : "");
  return rung;
}

namespace {

// The truth of a text that went through the runtime in a function of that width; nothing where no near tie changes it.
std::optional<TextTruth> truth_behind_ties(const Climber& c, std::span<const int32_t> ids, int64_t width,
                                           Arithmetic arithmetic) {
  const Stepper stepper = c.stepper(arithmetic, true);
  for (const CallShape& shape : stepper.shapes()) {
    if (shape.most_tokens != width) continue;
    Caches none = stepper.empty_caches(shape);
    const StepResult r = stepper.step(shape, ids, 0, none, Padding::zeros, width);
    Golden inner;
    size_t ties = 0;
    TextTruth truth = settled_truth(c, ids, r, arithmetic, inner, ties);
    if (ties) return truth;
  }
  return std::nullopt;
}

// A text for the runtime, and the function that it should go to.
struct RuntimeText {
  std::vector<int32_t> ids;
  int64_t width;
  TextTruth truth;
};

// What the runtime made of it against the truth; what is wrong, or nothing.
std::string runtime_problem(Climber& c, const RuntimeText& text, const EncodedText& e, Arithmetic a,
                            Rung& rung) {
  if (e.width != text.width)
    return fmt::format("{} tokens went to the length {} instead of {}", e.tokens, e.width, text.width);
  const auto judge = [&](const TextTruth& truth, Rung& to) {
    Comparison all(c, to, a);
    all.add(fmt::format(", {} in {}", text.ids.size(), text.width), e.hidden,
            truth.pooled.empty() ? Rows() : e.pooled, e.classes, truth, e.tokens);
    return all.problem();
  };
  Rung plain, behind;
  std::string problem = judge(text.truth, plain);
  const auto settled = problem.empty() ? std::nullopt : truth_behind_ties(c, text.ids, text.width, a);
  if (settled) problem = judge(*settled, behind);
  const std::vector<FigureRow>& rows = settled ? behind.rows : plain.rows;
  rung.rows.insert(rung.rows.end(), rows.begin(), rows.end());
  return problem;
}

}  // namespace

Rung check_encoder_runtime(Climber& c) {
  Rung rung;
  // Every length full, and not full.
  std::vector<RuntimeText> texts;
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
    const Encoder encoder(c.open(a));
    for (const RuntimeText& text : texts) {
      c.say(fmt::format("{} tokens, {} arithmetic", text.ids.size(), arithmetic_name(a)));
      const EncodedText e = encoder.encode({.ids = text.ids});
      note_fault(e.fault, rung);
      std::string problem = runtime_problem(c, text, e, a, rung);
      if (problem.empty()) continue;
      rung.verdict = Verdict::failed;
      rung.summary = std::move(problem);
      return rung;
    }
  }
  rung.summary =
      fmt::format("{} texts in {} length{}, full and padded, as the reference computes them", texts.size(),
                  c.bundle->tiers().size(), c.bundle->tiers().size() == 1 ? "" : "s");
  return rung;
}

}  // namespace anemone
