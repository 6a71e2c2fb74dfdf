// Rung 4: the whole text through the packages, over a cache that is full of known numbers at first.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "families/experts.h"
#include "verify/cache_rows.h"
#include "verify/climber.h"

namespace anemone {
namespace {

struct Run {
  std::vector<float> logits;  // [tokens, vocab], where the bundle gives them
  std::vector<int64_t> best;
  std::string problem;
};

// Runs the text through functions and looks at what the layers remember afterwards.
class TextRuns {
 public:
  TextRuns(Climber& c, const Stepper& stepper, Arithmetic arithmetic)
      : c_(c), stepper_(stepper), arithmetic_(arithmetic) {}

  int64_t rows() const { return rows_; }

  // The first `count` tokens by calls of `width`, over a cache of known numbers.
  Run run(const CallShape& shape, int64_t width, int64_t count) {
    Caches caches = stepper_.empty_caches(shape);
    fill_with_known(caches, c_.heads());
    const std::vector<LayerCache> before = caches.layers;
    const bool slices = stepper_.info().kv_write == "slice";
    Run out;
    Drift drift;
    int64_t at = 0, free = 0;  // rows up to `free` may have changed
    while (at < count) {
      const int64_t tokens = std::min(width, count - at), taken = std::max(tokens, shape.least_tokens);
      if (slices && at + taken > shape.context) break;  // padding would not fit
      const StepResult r = stepper_.step(
          shape, std::span(c_.truth.ids).subspan(static_cast<size_t>(at), static_cast<size_t>(tokens)), at,
          caches);
      out.logits.insert(out.logits.end(), r.logits.begin(), r.logits.end());
      out.best.insert(out.best.end(), r.best.begin(), r.best.end());
      if (c_.exact()) drift = compare_layers(c_, r, c_.truth, at, stepper_.layers(), {arithmetic_});
      at += tokens;
      drift.problem += attention_suspect(c_, r, std::span(c_.truth.ids).first(static_cast<size_t>(at)),
                                         at - tokens, drift, {arithmetic_});
      // A slice takes the padding's rows along; they are written again before they are seen.
      free = std::max(at, slices ? at - tokens + taken : 0);
      if (drift.problem.empty()) out.problem = recurrent_problem(caches, at - 1);
      if (!drift.problem.empty() || !out.problem.empty()) break;
    }
    stepper_.refresh(caches);
    CacheRows rows(c_, {arithmetic_}, c_.truth);
    for (int64_t t = 0; t < at; ++t) rows.expect(t, t);
    for (int64_t row = at; row < free; ++row) rows.allow(row);
    // What a layer gives is wrong where its cache is.
    if (!drift.problem.empty()) out.problem = rows.problem(before, caches, drift.layer);
    if (out.problem.empty()) out.problem = drift.problem;
    if (out.problem.empty()) out.problem = rows.problem(before, caches);
    rows_ += rows.compared();
    if (!out.problem.empty()) out.problem = fmt::format("{} (function '{}')", out.problem, shape.function);
    return out;
  }

 private:
  // What recurrent layers remember after a token: padding must not have gone into it.
  std::string recurrent_problem(const Caches& caches, int64_t token) {
    for (size_t i = 0; i < caches.layers.size(); ++i) {
      const LayerCache& layer = caches.layers[i];
      const Golden::Rows* rows = c_.truth.find("recurrent", static_cast<int64_t>(i));
      if (layer.recurrent.empty() || !rows || !rows->has(token)) continue;
      ++rows_;
      const std::string wrong =
          c_.value_problem(compare(layer.recurrent, rows->row(token)), {arithmetic_}, false);
      if (!wrong.empty())
        return fmt::format("layer {}: what it remembers after token {} is wrong: {}",
                           c_.first_layer + static_cast<int64_t>(i), token, wrong);
    }
    return "";
  }

  Climber& c_;
  const Stepper& stepper_;
  Arithmetic arithmetic_;
  int64_t rows_ = 0;
};

// Chunks against one by one; what differs first, or nothing.
std::string compare_runs(const Climber& c, const Run& one, const Run& chunked, Arithmetic a, int64_t width) {
  if (c.router_ties.contains(a)) return "";
  double bar = a == Arithmetic::fp32 ? kChunkError : kChunkErrorHalf;
  // A router in a near tie may choose by how its sums are rounded.
  if (a != Arithmetic::fp32 && has_experts(c.model)) bar = std::max(bar, c.graph_bars(a).error);
  const auto vocab = static_cast<size_t>(c.bundle->info().vocab);
  for (size_t t = 0; (t + 1) * vocab <= std::min(one.logits.size(), chunked.logits.size()); ++t) {
    const Figures f = compare(std::span(chunked.logits).subspan(t * vocab, vocab),
                              std::span(one.logits).subspan(t * vocab, vocab));
    if (!f.finite || f.relative > bar)
      return fmt::format(
          "chunks of {} differ from one by one, first at token {} (row {} of its chunk): {} (bar: error "
          "{:.2g}%)",
          width, t, t % static_cast<size_t>(width), text(f), 100 * bar);
  }
  return "";
}

// The run's logits, or its choices, against the truth's.
LogitTally tally_of(const Climber& c, const Run& run, const CallShape& shape, int64_t count, Arithmetic a) {
  const char* few = shape.least_tokens == 1 ? "one" : "few";
  LogitTally tally(fmt::format("{} by {}, context {}", few, few, shape.context), a);
  const auto vocab = static_cast<size_t>(c.bundle->info().vocab);
  // Against a golden the first token, which stands alone, misleads.
  for (int64_t t = count > 1 && !c.exact() ? 1 : 0; t < count; ++t) {
    if (!c.truth.logits.has(t)) continue;
    const auto at = static_cast<size_t>(t);
    if ((at + 1) * vocab <= run.logits.size())
      tally.add(std::span(run.logits).subspan(at * vocab, vocab), c.truth.logits.row(t));
    else if (at < run.best.size())
      tally.add_best(run.best[at], c.truth.logits.row(t));
  }
  return tally;
}

// Every row of a cache by each function, where that takes no longer than a moment: a row that is not written shows by
// itself. What is wrong first, or nothing.
std::string sweep_problem(Climber& c) {
  constexpr double kMoment = 1e10;  // multiplications
  const Stepper stepper = c.stepper(c.options.arithmetics.front(), false, c.bundle->tiers().back());
  double weights = 0;
  for (const WeightFigures& w : c.report.weights) weights += static_cast<double>(w.count);
  const Golden unknown;
  for (const CallShape& shape : stepper.shapes()) {
    if (!c.options.deep && weights * static_cast<double>(shape.context) > kMoment) continue;
    c.say(fmt::format("every row of the cache by '{}'", shape.function));
    Caches caches = stepper.empty_caches(shape);
    fill_with_known(caches, c.heads());
    const std::vector<LayerCache> before = caches.layers;
    CacheRows rows(c, {c.options.arithmetics.front()}, unknown);
    const bool slices = stepper.info().kv_write == "slice";
    for (int64_t at = 0; at < shape.context;) {
      const int64_t tokens = std::min(shape.most_tokens, shape.context - at);
      if (slices && at + std::max(tokens, shape.least_tokens) > shape.context) break;
      std::vector<int32_t> ids;
      for (int64_t t = 0; t < tokens; ++t) {
        ids.push_back(c.truth.ids[static_cast<size_t>((at + t) % c.truth.prompt)]);
        rows.expect(at + t, -1);
      }
      stepper.step(shape, ids, at, caches);
      at += tokens;
    }
    stepper.refresh(caches);
    const std::string problem = rows.problem(before, caches);
    if (!problem.empty()) return fmt::format("{} (function '{}')", problem, shape.function);
  }
  return "";
}

// The text through every function of every tier; what is wrong first, or nothing.
std::string text_problem(Climber& c, Arithmetic a, Rung& rung, int64_t& rows, int64_t& chunked_runs) {
  const Stepper stepper = c.stepper(a, c.exact());
  TextRuns runs(c, stepper, a);
  int64_t tier = -1;
  Run one;
  for (const CallShape& shape : stepper.shapes()) {
    const int64_t count = std::min(c.tokens, shape.context);
    const bool first = shape.context != tier;
    c.say(fmt::format("{} tokens through '{}', {} arithmetic", count, shape.function, arithmetic_name(a)));
    if (first) {
      tier = shape.context;
      one = runs.run(shape, shape.least_tokens, count);
      if (!one.problem.empty()) return one.problem;
      const LogitTally tally = tally_of(c, one, shape, count, a);
      if (!tally.empty()) {
        rung.rows.push_back(tally.row());
        const std::string problem = c.logit_problem(rung.rows.back());
        if (!problem.empty())
          return fmt::format("after the steps {} (function '{}')", problem, shape.function);
      }
    }
    if (shape.most_tokens == 1 || (first && shape.most_tokens == shape.least_tokens)) continue;
    const Run chunked = runs.run(shape, shape.most_tokens, count);
    if (!chunked.problem.empty()) return chunked.problem;
    const std::string problem = compare_runs(c, one, chunked, a, shape.most_tokens);
    if (!problem.empty()) return fmt::format("{} (function '{}')", problem, shape.function);
    ++chunked_runs;
  }
  rows += runs.rows();
  return "";
}

}  // namespace

Rung check_stateful(Climber& c) {
  Rung rung;
  int64_t rows = 0, chunked_runs = 0;
  bool keys_known = false;
  for (int64_t i = 0; i < c.bundle->info().layers; ++i)
    keys_known = keys_known || c.truth.find("k", i) || c.truth.find("recurrent", i);
  std::string probed;
  for (const Arithmetic a : c.options.arithmetics) {
    std::string problem = text_problem(c, a, rung, rows, chunked_runs);
    if (problem.empty() && c.exact()) problem = probe_problem(c, a, probed);
    if (problem.empty()) continue;
    rung.verdict = Verdict::failed;
    rung.summary = fmt::format("{} in {} arithmetic", problem, arithmetic_name(a));
    return rung;
  }
  std::string problem = c.exact() ? sweep_problem(c) : "";
  if (problem.empty() && c.exact() && c.bundle->info().argmax) problem = choice_problem(c);
  if (!problem.empty()) {
    rung.verdict = Verdict::failed;
    rung.summary = std::move(problem);
    return rung;
  }
  rung.summary = fmt::format("{} tokens; {} cache rows written, {}, no other changed", c.tokens, rows,
                             keys_known ? "each right" : "none compared (no k_i, v_i in the golden)");
  if (chunked_runs) rung.summary += fmt::format("; chunks equal one by one in {} runs", chunked_runs);
  if (!probed.empty()) rung.summary += "; " + probed;
  return rung;
}

}  // namespace anemone
