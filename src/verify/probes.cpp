// Probes: single calls of every function at near and far positions, over a cache that holds the same known numbers in
// the packages and in the reference, so that no text must be computed to get there.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "verify/cache_rows.h"
#include "verify/climber.h"

namespace anemone {
namespace {

// More memory than this for the caches of one tier is taken with --deep alone.
constexpr double kMostBytes = 2e9;
// Of one cached number: here twice, in the state, and in the reference.
constexpr double kBytesEach = 14;
constexpr int64_t kFewTokens = 3;

struct Probe {
  const CallShape* shape;
  int64_t position, tokens, width;
  Padding padding;
  int64_t row = 0;  // of the truth

  std::string text() const {
    std::string out = fmt::format("function '{}', position {}", shape->function, position);
    if (tokens > 1) out += fmt::format(", {} tokens", tokens);
    if (width > tokens) out += fmt::format(", padding: {}", padding_name(padding));
    return out;
  }
};

// The smallest window of the model; 0: none.
int64_t smallest_window(const Model& model) {
  int64_t least = 0;
  for (const Layer& layer : model.layers)
    if (const Attention* a = find_attention(layer); a && a->reach.size > 0)
      least = least == 0 ? a->reach.size : std::min(least, a->reach.size);
  return least;
}

// The edges: the first positions, a power of two, the middle, where a shorter tier ends, the last one. Where layers see
// a window alone, as many more as it takes until every row of the cache is seen.
std::set<int64_t> edges(int64_t context, const std::vector<int64_t>& tiers, int64_t window, bool deep) {
  constexpr int64_t kMostWindows = 32;
  std::set<int64_t> out = {0, 1, 63, 64, 65, context / 2, context - 1};
  if (window > 0 && (deep || context <= kMostWindows * window))
    for (int64_t p = context - 1; p > 0; p -= window) out.insert(p);
  for (const int64_t tier : tiers)
    if (tier < context) out.insert({tier - 1, tier, tier + 1});
  if (deep)
    for (int64_t p = 2; p < context; p *= 2) out.insert({p - 1, p, p + p / 3});
  while (!out.empty() && *out.rbegin() >= context) out.erase(std::prev(out.end()));
  return out;
}

class Prober {
 public:
  Prober(Climber& c, Arithmetic arithmetic, int64_t context)
      : c_(c),
        how_{arithmetic, arithmetic != Arithmetic::fp32},
        context_(context),
        stepper_(c.stepper(arithmetic, true, context)) {
    for (const CallShape& shape : stepper_.shapes())
      if (shape.context == context) plan(shape);
  }

  size_t probes() const { return probes_.size(); }

  std::string run() {
    if (probes_.empty()) return "";
    Caches caches = stepper_.empty_caches(*probes_.front().shape);
    known(caches);
    const std::vector<TokenRun> runs = place_rows();
    if (!how_.range_only) compute_truth(caches, runs);
    for (size_t begin = 0; begin < probes_.size();) {
      size_t end = begin;
      while (end < probes_.size() && probes_[end].shape == probes_[begin].shape) ++end;
      const std::string problem = run_function(std::span(probes_).subspan(begin, end - begin));
      if (!problem.empty()) return problem;
      begin = end;
    }
    return "";
  }

 private:
  // The probes of one function, the farthest first: what they write lies behind what the next ones see.
  void plan(const CallShape& shape) {
    const std::set<int64_t> all =
        edges(context_, c_.bundle->tiers(), smallest_window(c_.model), c_.options.deep);
    const bool slices = stepper_.info().kv_write == "slice";
    const bool brief = how_.arithmetic != Arithmetic::fp32 && !c_.options.deep;
    constexpr Padding kKinds[] = {Padding::zeros, Padding::repeat, Padding::noise};
    size_t kind = 0;
    std::vector<Probe> out;
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
      // Where a function takes any number up to some, every other probe is padded.
      const bool padded = shape.least_tokens > 1 || (shape.most_tokens > 1 && kind % 2 == 1);
      const int64_t tokens = padded ? std::max<int64_t>(1, std::min(kFewTokens, shape.most_tokens - 1)) : 1;
      Probe p{&shape, *at, tokens, padded ? shape.most_tokens : 1,
              kKinds[kind / (shape.least_tokens > 1 ? 1 : 2) % 3]};
      const int64_t taken = slices ? p.width : p.tokens;
      p.position = std::min(p.position, context_ - taken);
      if (p.position < 0 || (!out.empty() && out.back().position - p.position < taken)) continue;
      // In half only what half can break: far away, and what padding holds.
      if (brief && !out.empty() && (p.width == p.tokens || kind >= 6)) continue;
      out.push_back(p);
      ++kind;
      // The last positions of all, in a call without padding. It begins no later, so it sees nothing of the first.
      if (out.size() == 1 && !brief && shape.most_tokens > 1 && shape.most_tokens <= context_)
        out.push_back(
            {&shape, context_ - shape.most_tokens, shape.most_tokens, shape.most_tokens, Padding::zeros});
    }
    probes_.insert(probes_.end(), out.begin(), out.end());
  }

  // The numbers that both sides find in the cache; recurrent layers, too, remember some.
  void known(Caches& caches) const {
    fill_with_known(caches, c_.heads());
    uint32_t n = 7;
    for (LayerCache& layer : caches.layers)
      for (float& v : layer.recurrent) {
        n = n * 1664525u + 1013904223u;
        v = (static_cast<float>(n >> 27) - 15.5f) / 128.0f;
      }
  }

  // Gives every token of every probe its row.
  std::vector<TokenRun> place_rows() {
    std::vector<TokenRun> runs;
    for (Probe& p : probes_) {
      p.row = static_cast<int64_t>(ids_.size());
      runs.push_back({p.position, p.row, p.tokens});
      for (int64_t t = 0; t < p.tokens; ++t)
        ids_.push_back(c_.truth.ids[static_cast<size_t>((p.position + t) % c_.truth.prompt)]);
    }
    return runs;
  }

  // What left the range, of a probe that is judged by that alone; or nothing.
  std::string range_problem(const StepResult& r) const {
    const auto finite = [](std::span<const float> values) {
      return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
    };
    for (const auto& [name, values] : r.inner)
      if (!finite(values))
        return name.layer < 0
                   ? fmt::format("{} is not finite", name.name)
                   : fmt::format("layer {}, {}: not finite", c_.first_layer + name.layer, name.name);
    return finite(r.logits) ? "" : "the logits are not finite";
  }

  // All probes by the reference, in one pass over the weights.
  void compute_truth(const Caches& caches, std::vector<TokenRun> runs) {
    ReferenceOptions options;
    options.positions = context_;
    options.tap = [&](std::string_view name, int64_t layer, std::span<const float> values) {
      Golden::Rows& rows = truth_.inner[{std::string(name), layer}];
      rows.values.assign(values.begin(), values.end());
      rows.rows = static_cast<int64_t>(ids_.size());
      rows.width = static_cast<int64_t>(values.size()) / rows.rows;
    };
    ReferenceSession session(*c_.reference, options);
    const std::vector<int64_t> heads = c_.heads();
    for (size_t i = 0; i < caches.layers.size(); ++i)
      session.set_memory(i, memory_of(caches, caches.layers[i], heads[i]));
    truth_.logits.values = session.probe(ids_, std::move(runs));
    truth_.logits.rows = static_cast<int64_t>(ids_.size());
    truth_.logits.width = c_.model.vocab;
  }

  LayerMemory memory_of(const Caches& caches, const LayerCache& layer, int64_t dim) const {
    LayerMemory out;
    out.columns = layer.recurrent;
    if (layer.k.empty()) return out;
    for (int64_t p = 0; p < context_; ++p)
      for (int64_t h = 0; h < layer.kv_heads; ++h) {
        const std::span<const float> k = caches.row(layer, layer.k, h, p),
                                     v = caches.row(layer, layer.v, h, p);
        out.k.insert(out.k.end(), k.begin(), k.begin() + dim);
        out.v.insert(out.v.end(), v.begin(), v.begin() + dim);
      }
    return out;
  }

  std::string run_function(std::span<const Probe> probes) {
    const CallShape& shape = *probes.front().shape;
    c_.say(fmt::format("'{}' at {} positions, {} arithmetic", shape.function, probes.size(),
                       arithmetic_name(how_.arithmetic)));
    Caches caches = stepper_.empty_caches(shape);
    known(caches);
    const std::vector<LayerCache> before = caches.layers;
    CacheRows rows(c_, how_, truth_);
    for (const Probe& p : probes) {
      if (p.row != probes.front().row) reset_recurrent(before, caches);
      const StepResult r = stepper_.step(
          shape, std::span(ids_).subspan(static_cast<size_t>(p.row), static_cast<size_t>(p.tokens)),
          p.position, caches, p.padding, p.width);
      for (int64_t t = 0; t < p.tokens; ++t) rows.expect(p.position + t, how_.range_only ? -1 : p.row + t);
      if (stepper_.info().kv_write == "slice")  // padding's rows are written, too
        for (int64_t t = p.tokens; t < p.width; ++t) rows.allow(p.position + t);
      if (how_.range_only) {
        if (const std::string problem = range_problem(r); !problem.empty())
          return fmt::format("{} in {} arithmetic ({})", problem, arithmetic_name(how_.arithmetic), p.text());
        continue;
      }
      const Drift drift = compare_layers(c_, r, truth_, p.row, stepper_.layers(), how_);
      std::string problem = drift.problem.empty() ? step_problem(p, r, caches) : "";
      if (!drift.problem.empty()) {  // what a layer gives is wrong where its cache is
        stepper_.refresh(caches);
        problem = rows.problem(before, caches, drift.layer);
        if (problem.empty()) problem = drift.problem;
      }
      if (!problem.empty()) return fmt::format("{} ({})", problem, p.text());
    }
    stepper_.refresh(caches);
    const std::string problem = rows.problem(before, caches);
    return problem.empty() ? "" : fmt::format("{} (function '{}')", problem, shape.function);
  }

  // States hold what the last probe left of them; the numbers of keys and values that were not written stay.
  void reset_recurrent(const std::vector<LayerCache>& before, Caches& caches) const {
    if (!stepper_.info().recurrent()) return;
    stepper_.refresh(caches);
    for (size_t i = 0; i < before.size(); ++i) caches.layers[i].recurrent = before[i].recurrent;
    caches.changed = true;
  }

  std::string step_problem(const Probe& p, const StepResult& r, const Caches& caches) const {
    for (size_t i = 0; i < caches.layers.size(); ++i) {
      const Golden::Rows* rows = truth_.find("recurrent", static_cast<int64_t>(i));
      if (caches.layers[i].recurrent.empty() || !rows) continue;
      const std::string wrong =
          c_.value_problem(compare(caches.layers[i].recurrent, rows->row(p.row + p.tokens - 1)), how_, false);
      if (!wrong.empty())
        return fmt::format("layer {}: what it remembers is wrong: {}",
                           c_.first_layer + static_cast<int64_t>(i), wrong);
    }
    LogitTally tally("", how_.arithmetic);
    const auto vocab = static_cast<size_t>(c_.model.vocab);
    for (int64_t t = 0; t < p.tokens; ++t) {
      const auto at = static_cast<size_t>(t);
      const std::span<const float> expected = truth_.logits.row(p.row + t);
      if ((at + 1) * vocab <= r.logits.size())
        tally.add(std::span(r.logits).subspan(at * vocab, vocab), expected);
      else if (at < r.best.size())
        tally.add_best(r.best[at], expected);
    }
    if (tally.empty()) return "";
    const FigureRow row = tally.row();
    if (how_.range_only && !(row.values && !std::isfinite(row.worst_error))) return "";
    const std::string problem = c_.logit_problem(row);
    return problem.empty() ? "" : "the layers agree, but the head does not: " + problem;
  }

  Climber& c_;
  Judging how_;
  int64_t context_;
  Stepper stepper_;
  std::vector<Probe> probes_;
  std::vector<int32_t> ids_;
  Golden truth_;  // a row for each token of each probe
};

double cache_bytes(const Climber& c, int64_t context) {
  double numbers = 0;
  for (const Layer& layer : c.full->model().layers)
    if (const Attention* a = find_attention(layer)) numbers += 2.0 * static_cast<double>(a->key_width());
  return numbers * static_cast<double>(context) * kBytesEach;
}

}  // namespace

std::string probe_problem(Climber& c, Arithmetic arithmetic, std::string& note) {
  size_t probes = 0;
  int64_t farthest = 0;
  for (const int64_t context : c.bundle->tiers()) {
    if (!c.options.deep && cache_bytes(c, context) > kMostBytes) {
      note = fmt::format(
          "the context of {} was not looked at beyond the text: its cache takes {:.1f} GB (--deep)", context,
          cache_bytes(c, context) / 1e9);
      return "";
    }
    Prober prober(c, arithmetic, context);
    probes += prober.probes();
    farthest = context - 1;
    const std::string problem = prober.run();
    if (!problem.empty()) return problem;
  }
  if (arithmetic == c.options.arithmetics.front())
    note = fmt::format("{} probes up to position {}", probes, farthest);
  return "";
}

}  // namespace anemone
