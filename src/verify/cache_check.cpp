// Rung 4: the whole text through the packages, over a cache that is full of known numbers at first.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "verify/climber.h"

namespace anemone {
namespace {

// Of a row of the cache when weights have fewer than 8 bits: single rows are noisier than a layer as a whole, and
// where they stand is judged apart.
constexpr double kFewBitsRowCosine = 0.7;

// Small numbers that half holds exactly, different for neighbours. What recurrent layers remember stays zero: it is
// seen from the first token on.
void fill_with_known(Caches& caches) {
  uint32_t n = 1;
  for (LayerCache& layer : caches.layers)
    for (std::vector<float>* side : {&layer.k, &layer.v})
      for (float& v : *side) {
        n = n * 1664525u + 1013904223u;
        v = (static_cast<float>(n >> 27) - 15.5f) / 128.0f;
      }
  caches.changed = true;
}

bool same(std::span<const float> a, std::span<const float> b) {
  return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct Run {
  std::vector<float> logits;  // [tokens, vocab], where the bundle gives them
  std::vector<int64_t> best;
  std::string problem;
};

class CacheCheck {
 public:
  CacheCheck(Climber& c, const Stepper& stepper, Arithmetic arithmetic)
      : c_(c), stepper_(stepper), arithmetic_(arithmetic) {}

  int64_t rows() const { return rows_; }

  // The first `count` tokens by calls of `width`, over a cache of known numbers.
  Run run(const CallShape& shape, int64_t width, int64_t count, Caches& caches) {
    caches = stepper_.empty_caches(shape);
    fill_with_known(caches);
    before_ = caches.layers;
    Run out;
    for (int64_t at = 0; at < count && out.problem.empty();) {
      const int64_t tokens = std::min(width, count - at);
      const int64_t taken = std::max(tokens, shape.least_tokens);
      const bool slices = stepper_.info().kv_write == "slice";
      if (slices && at + taken > shape.context) break;  // padding would not fit
      const StepResult r = stepper_.step(
          shape, std::span(c_.truth.ids).subspan(static_cast<size_t>(at), static_cast<size_t>(tokens)), at,
          caches);
      out.logits.insert(out.logits.end(), r.logits.begin(), r.logits.end());
      out.best.insert(out.best.end(), r.best.begin(), r.best.end());
      // A slice takes the padding's rows along; they are written again before they are seen.
      check_memory(caches, at, tokens, slices ? taken : tokens, out);
      if (!out.problem.empty()) out.problem = fmt::format("{} (function '{}')", out.problem, shape.function);
      at += tokens;
    }
    return out;
  }

 private:
  std::span<const float> truth_row(const char* side, size_t layer, int64_t token) const {
    const Golden::Rows* rows = c_.truth.find(side, static_cast<int64_t>(layer));
    return rows && rows->has(token) ? rows->row(token) : std::span<const float>();
  }

  // All heads of a row, without the padding of their width.
  std::vector<float> row_of(const Caches& caches, const LayerCache& layer, const std::vector<float>& side,
                            int64_t position, int64_t dim) const {
    std::vector<float> out;
    for (int64_t h = 0; h < layer.kv_heads; ++h) {
      const std::span<const float> row = caches.row(layer, side, h, position);
      out.insert(out.end(), row.begin(), row.begin() + dim);
    }
    return out;
  }

  bool row_changed(const Caches& caches, const LayerCache& layer, const std::vector<float>& now,
                   const std::vector<float>& old, int64_t position) const {
    for (int64_t h = 0; h < layer.kv_heads; ++h)
      if (!same(caches.row(layer, now, h, position), caches.row(layer, old, h, position))) return true;
    return false;
  }

  // Every layer's memory after the tokens [at, at + tokens); rows up to at + free may have changed.
  void check_memory(const Caches& caches, int64_t at, int64_t tokens, int64_t free, Run& out) {
    for (size_t i = 0; i < caches.layers.size(); ++i) {
      const LayerCache& layer = caches.layers[i];
      out.problem = check_recurrent(layer, i, at + tokens - 1);
      for (const char* side : {"k", "v"}) {
        const bool keys = side[0] == 'k';
        const std::vector<float>& now = keys ? layer.k : layer.v;
        std::vector<float>& old = keys ? before_[i].k : before_[i].v;
        if (now.empty() || !out.problem.empty()) continue;
        out.problem = check_side(caches, side, i, now, old, at, tokens, free);
        for (int64_t h = 0; h < layer.kv_heads; ++h) {
          const size_t begin = static_cast<size_t>((h * caches.context + at) * layer.width);
          std::copy_n(now.begin() + static_cast<ptrdiff_t>(begin), free * layer.width,
                      old.begin() + static_cast<ptrdiff_t>(begin));
        }
      }
      if (!out.problem.empty()) return;
    }
  }

  // What a recurrent layer remembers after a token, against the truth: padding must not have gone into it.
  std::string check_recurrent(const LayerCache& layer, size_t index, int64_t token) {
    const std::span<const float> expected = truth_row("recurrent", index, token);
    if (layer.recurrent.empty() || expected.empty()) return "";
    ++rows_;
    const Figures f = compare(layer.recurrent, expected);
    if (f.within(row_bar())) return "";
    return fmt::format("layer {}: what it remembers after token {} is wrong: {}",
                       c_.first_layer + static_cast<int64_t>(index), token, text(f));
  }

  double row_bar() const {
    const double bar = c_.piece_bar(arithmetic_);
    return c_.least_bits < 8 ? std::min(bar, kFewBitsRowCosine) : bar;
  }

  std::string check_side(const Caches& caches, const char* side, size_t index, const std::vector<float>& now,
                         const std::vector<float>& old, int64_t at, int64_t tokens, int64_t free) {
    const LayerCache& layer = caches.layers[index];
    const std::string what = fmt::format("layer {}, {} cache", c_.first_layer + static_cast<int64_t>(index),
                                         side[0] == 'k' ? "key" : "value");
    int64_t stray = -1;
    for (int64_t p = 0; p < caches.context; ++p)
      if ((p < at || p >= at + free) && row_changed(caches, layer, now, old, p)) {
        stray = p;
        break;
      }
    for (int64_t t = at; t < at + tokens; ++t, ++rows_) {
      const std::span<const float> expected = truth_row(side, index, t);
      const int64_t dim =
          expected.empty() ? layer.width : static_cast<int64_t>(expected.size()) / layer.kv_heads;
      if (dim > layer.width ||
          (!expected.empty() && dim * layer.kv_heads != static_cast<int64_t>(expected.size())))
        throw errorf("'{}_{}' of the golden has rows of another size", side, index)
            .found(fmt::format("{}", expected.size()))
            .expected(fmt::format("at most {} x {}", layer.kv_heads, layer.width));
      const bool untouched = !row_changed(caches, layer, now, old, t);
      if (untouched && stray >= 0)
        return fmt::format("{}: token {} was written to row {} instead of row {}", what, t, stray, t);
      if (untouched) return fmt::format("{}: row {} was not written", what, t);
      for (int64_t h = 0; h < layer.kv_heads; ++h) {
        const std::span<const float> row = caches.row(layer, now, h, t);
        if (std::any_of(row.begin() + dim, row.end(), [](float v) { return v != 0; }))
          return fmt::format("{}: the padding of row {} is not zero", what, t);
      }
      // Values of a first token are near zero as a rule, and mostly noise in fewer bits.
      if (expected.empty() || (t == 0 && c_.least_bits < 8)) continue;
      const Figures f = compare(row_of(caches, layer, now, t, dim), expected);
      if (!f.within(row_bar())) return fmt::format("{}: row {} is wrong: {}", what, t, text(f));
    }
    if (stray >= 0) return fmt::format("{}: row {} changed though token {} was written", what, stray, at);
    return "";
  }

  Climber& c_;
  const Stepper& stepper_;
  Arithmetic arithmetic_;
  int64_t rows_ = 0;
  std::vector<LayerCache> before_;
};

// Chunks against one by one; what differs first, or nothing.
std::string compare_runs(const Climber& c, const Run& one, const Run& chunked, Arithmetic a, int64_t width) {
  const double bar = a == Arithmetic::fp16 ? kChunkCosineHalf : kChunkCosine;
  const auto vocab = static_cast<size_t>(c.bundle->info().vocab);
  for (size_t t = 0; (t + 1) * vocab <= std::min(one.logits.size(), chunked.logits.size()); ++t) {
    const Figures f = compare(std::span(chunked.logits).subspan(t * vocab, vocab),
                              std::span(one.logits).subspan(t * vocab, vocab));
    if (!f.within(bar))
      return fmt::format("chunks of {} differ from one by one, first at token {} (row {} of its chunk): {}",
                         width, t, t % static_cast<size_t>(width), text(f));
  }
  return "";
}

// The run's logits, or its choices, against the truth's.
LogitTally tally_of(const Climber& c, const Run& run, const CallShape& shape, int64_t count, Arithmetic a) {
  const char* few = shape.least_tokens == 1 ? "one" : "few";
  LogitTally tally(fmt::format("{} by {}, context {}", few, few, shape.context), a);
  const auto vocab = static_cast<size_t>(c.bundle->info().vocab);
  // The first token stands alone and misleads.
  for (int64_t t = count > 1 ? 1 : 0; t < count; ++t) {
    if (!c.truth.logits.has(t)) continue;
    const auto at = static_cast<size_t>(t);
    if ((at + 1) * vocab <= run.logits.size())
      tally.add(std::span(run.logits).subspan(at * vocab, vocab), c.truth.logits.row(t));
    else if (at < run.best.size())
      tally.add_best(run.best[at], c.truth.logits.row(t));
  }
  return tally;
}

}  // namespace

Rung check_stateful(Climber& c) {
  Rung rung;
  int64_t rows = 0, chunked_runs = 0;
  std::string sizes;
  bool keys_known = false;
  for (int64_t i = 0; i < c.bundle->info().layers; ++i)
    keys_known = keys_known || c.truth.find("k", i) || c.truth.find("recurrent", i);
  for (const Arithmetic a : c.options.arithmetics) {
    const Stepper stepper = c.stepper(a, false);
    CacheCheck check(c, stepper, a);
    const auto fail = [&](const std::string& problem) {
      rung.verdict = Verdict::failed;
      rung.summary = fmt::format("{} in {} arithmetic", problem, arithmetic_name(a));
      return rung;
    };
    int64_t tier = -1;
    Run one;
    for (const CallShape& shape : stepper.shapes()) {
      const int64_t count = std::min(c.tokens, shape.context);
      Caches caches;
      const bool first = shape.context != tier;
      c.say(fmt::format("{} tokens through '{}', {} arithmetic", count, shape.function, arithmetic_name(a)));
      if (first) {
        tier = shape.context;
        one = check.run(shape, shape.least_tokens, count, caches);
        if (!one.problem.empty()) return fail(one.problem);
        const LogitTally tally = tally_of(c, one, shape, count, a);
        if (!tally.empty()) {
          rung.rows.push_back(tally.row());
          const std::string problem = c.logit_problem(rung.rows.back());
          if (!problem.empty())
            return fail(fmt::format("after the steps {} (function '{}')", problem, shape.function));
        }
      }
      if (shape.most_tokens == 1 || (first && shape.most_tokens == shape.least_tokens)) continue;
      const Run chunked = check.run(shape, shape.most_tokens, count, caches);
      if (!chunked.problem.empty()) return fail(chunked.problem);
      const std::string problem = compare_runs(c, one, chunked, a, shape.most_tokens);
      if (!problem.empty()) return fail(fmt::format("{} (function '{}')", problem, shape.function));
      ++chunked_runs;
    }
    rows += check.rows();
  }
  rung.summary = fmt::format("{} tokens; {} cache rows written, {}, no other changed", c.tokens, rows,
                             keys_known ? "each right" : "none compared (no k_i, v_i in the golden)");
  if (chunked_runs) rung.summary += fmt::format("; chunks equal one by one in {} runs", chunked_runs);
  return rung;
}

}  // namespace anemone
