// Rung 3: one token through the packages, layer by layer; and how large the values inside become.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "verify/climber.h"
#include "verify/prompt.h"

namespace anemone {
namespace {

struct Part {
  const char* name;
  const char* meaning;
  bool stream;
  double slack = 1;
};
// In the order of the computation: the first that drifts is where to look.
constexpr Part kParts[] = {
    {"q", "the query heads (the norm before them, projection, norm, rotation)", false},
    {"k", "the key heads (the norm before them, projection, norm, rotation)", false},
    {"v", "the value heads (the norm before them, projection)", false},
    {"attn_out", "what attention gives (scores, mask, softmax, kv heads, output projection)", false},
    {"attn_residual", "the residual stream behind attention (the sum, a norm before it)", true},
    {"router", "what the router chooses experts by (the norm before it, its projections)", false,
     3},  // small differences of large sums
    {"shares", "by how much each expert counts (the choice of experts, their softmax)", false},
    {"chosen_out", "what the chosen experts give together", false},
    {"shared_share", "by how much the shared expert counts (its share)", false},
    {"shared_out", "what the shared expert gives", false},
    {"gate", "what the MLP's gate projection gives (and the norm before it)", false},
    {"up", "what the MLP's up projection gives (and the norm before it)", false},
    {"gated", "what goes into the MLP's down projection (activation, product)", false},
    {"mlp_out", "what the MLP gives (down projection)", false},
    {"layer_out", "the residual stream behind the MLP (the sum, a norm before it)", true},
};

// A layer whose mixer is no attention has no queries.
std::string meaning_of(const Golden& truth, const Part& part, int64_t layer) {
  const bool other_mixer = std::string_view(part.name) == "attn_out" && truth.find("layer_out", layer) &&
                           !truth.find("q", layer) && truth.find("recurrent", layer);
  return other_mixer ? "what the layer's convolution gives" : part.meaning;
}

// The last ordinary token of the prompt, not the first one where there is a choice.
int64_t token_to_look_at(const Climber& c) {
  const BundleInfo& info = c.bundle->info();
  const Ordinary ordinary(info.vocab, info.hidden, [&](int64_t id, std::span<float> row) {
    c.bundle->embedding().read_token(id, row);
  });
  for (int64_t t = c.truth.prompt - 1; t > 0 && t > c.truth.prompt - 9; --t)
    if (ordinary(c.truth.ids[static_cast<size_t>(t)]) && c.truth.logits.has(t)) return t;
  return c.truth.prompt - 1;
}

// Whether the truth knows what the layers remember of the tokens [0, count).
bool knows_cache(const Climber& c, const Caches& caches, int64_t count) {
  for (size_t i = 0; i < caches.layers.size(); ++i) {
    const auto knows = [&](const char* name, int64_t first) {
      const Golden::Rows* rows = c.truth.find(name, static_cast<int64_t>(i));
      return rows && rows->has(first) && rows->has(count - 1);
    };
    if (!caches.layers[i].k.empty() && !(knows("k", 0) && knows("v", 0))) return false;
    if (!caches.layers[i].recurrent.empty() && !knows("recurrent", count - 1)) return false;
  }
  return true;
}

// Keys and values of the tokens [0, count), and what recurrent layers remember before the last of them.
void fill_cache(const Climber& c, int64_t count, Caches& caches) {
  for (size_t i = 0; i < caches.layers.size(); ++i) {
    LayerCache& layer = caches.layers[i];
    const auto index = static_cast<int64_t>(i);
    if (!layer.recurrent.empty()) {
      std::fill(layer.recurrent.begin(), layer.recurrent.end(), 0.0f);
      if (count > 1) {
        const std::span<const float> row = c.truth.find("recurrent", index)->row(count - 2);
        std::copy_n(row.begin(), std::min(row.size(), layer.recurrent.size()), layer.recurrent.begin());
      }
    }
    if (layer.k.empty()) continue;
    for (const char* side : {"k", "v"})
      for (int64_t t = 0; t < count; ++t) {
        const std::span<const float> row = c.truth.find(side, index)->row(t);
        const int64_t dim = static_cast<int64_t>(row.size()) / layer.kv_heads;
        if (dim > layer.width || dim * layer.kv_heads != static_cast<int64_t>(row.size()))
          throw errorf("'{}_{}' of the golden has rows of another size", side, i)
              .found(fmt::format("{}", row.size()))
              .expected(fmt::format("{} heads of at most {}", layer.kv_heads, layer.width));
        for (int64_t h = 0; h < layer.kv_heads; ++h)
          std::copy_n(row.begin() + h * dim, dim,
                      caches.row(layer, side[0] == 'k' ? layer.k : layer.v, h, t).begin());
      }
  }
  caches.changed = true;
}

void keep_largest(const Magnitudes& magnitudes, Magnitudes& largest) {
  for (const auto& [name, value] : magnitudes) largest[name] = std::max(largest[name], value);
}

// The tokens [0, count) through the packages, as many at once as they take; keeps the largest magnitudes.
void feed(const Climber& c, const Stepper& stepper, int64_t context, int64_t count, Caches& caches,
          Magnitudes& largest) {
  for (int64_t at = 0; at < count;) {
    const CallShape* best = nullptr;
    for (const CallShape& shape : stepper.shapes())
      if (shape.context == context &&
          (!best || (shape.least_tokens <= count - at && at + shape.most_tokens <= context)))
        best = &shape;
    const int64_t tokens = std::min(best->most_tokens, count - at);
    const StepResult r = stepper.step(
        *best, std::span(c.truth.ids).subspan(static_cast<size_t>(at), static_cast<size_t>(tokens)), at,
        caches);
    keep_largest(r.magnitudes, largest);
    at += tokens;
  }
}

std::vector<LayerMagnitude> magnitudes_of(const Climber& c, int64_t layers, const Magnitudes& largest) {
  std::vector<LayerMagnitude> out(static_cast<size_t>(layers));
  for (size_t i = 0; i < out.size(); ++i) out[i].layer = c.first_layer + static_cast<int64_t>(i);
  for (const auto& [name, value] : largest)
    if (name.layer >= 0 && name.layer < layers)
      out[static_cast<size_t>(name.layer)].value.take(value, name.name);
  return out;
}

// Measures the model itself: its sums go into the report, and the scale that it needs comes back.
double scale_for_model(Climber& c) {
  constexpr size_t kTokens = 16;  // the first is the largest as a rule, and sums take their time
  c.say("measuring ranges");
  const auto ids = std::span(c.truth.ids).first(std::min(kTokens, static_cast<size_t>(c.truth.prompt)));
  const std::vector<LayerRange> ranges = measure_ranges(*c.full, ids);
  for (size_t i = 0; i < ranges.size() && i < c.report.magnitudes.size(); ++i) {
    Peak& sum = c.report.magnitudes[i].sum;
    sum.take(ranges[i].stream_sum.value * c.report.residual_scale, ranges[i].stream_sum.where);
    sum.take(ranges[i].inner_sum.value, ranges[i].inner_sum.where);
  }
  return proposed_residual_scale(ranges);
}

// The same by the packages' values alone: what a block gives stands for the sums that end there.
double scale_for_values(const Magnitudes& largest, double scale) {
  LayerRange range;
  for (const auto& [name, value] : largest) {
    const bool block = name.name == "attn_out" || name.name == "mlp_out";
    if (block) range.stream_sum.take(value / scale, name.name);
    if (block || name.name == "attn_residual" || name.name == "layer_out")
      range.stream.take(value / scale, name.name);
  }
  return proposed_residual_scale(std::span(&range, 1));
}

double least_headroom(const LayerMagnitude& m) {
  return std::min(m.half_headroom(), m.accumulator_headroom());
}

// What the head gives for the token against the truth; what is wrong, or nothing.
std::string compare_head(const Climber& c, const StepResult& r, int64_t token, Arithmetic a, Rung& rung) {
  const std::span<const float> expected = c.truth.logits.row(token);
  LogitTally tally("one token", a);
  if (!r.logits.empty()) tally.add(r.logits, expected);
  if (r.logits.empty() && !r.best.empty()) tally.add_best(r.best[0], expected);
  rung.rows.push_back(tally.row());
  if (const std::string logits = c.logit_problem(rung.rows.back()); !logits.empty())
    return "the layers agree, but the head does not: " + logits;
  if (!r.best.empty() && !r.logits.empty() && r.best[0] != best_of(r.logits))
    return fmt::format("the head picks token {}, though {} has its largest logit", r.best[0],
                       best_of(r.logits));
  return "";
}

// Shares within their bar that belong to other experts. Half adds up roundings until a choice falls to the other side;
// in fp32 only a near tie does.
std::string other_choice(const Climber& c, std::span<const float> have, std::span<const float> want,
                         const Judging& how) {
  const bool exact =
      how.arithmetic == Arithmetic::fp32 && !how.range_only && !c.router_ties.contains(how.arithmetic);
  return exact && !same_choice(have, want) ? text(compare(have, want)) : "";
}

// The first token whose values have a problem. Each is judged by itself: a large one must not hide the others.
template <class Judge>
std::string first_problem(std::span<const float> values, const Golden::Rows& rows, int64_t first,
                          const Judge& judge) {
  const auto width = static_cast<size_t>(rows.width);
  std::string problem;
  for (size_t t = 0; (t + 1) * width <= values.size() && problem.empty(); ++t)
    problem = judge(values.subspan(t * width, width), rows.row(first + static_cast<int64_t>(t)));
  return problem;
}

}  // namespace

void note_fault(const std::optional<NumericFault>& fault, Rung& rung) {
  if (!fault) return;
  std::string note =
      fmt::format("{} in fp16 arithmetic, first in op '{}'", fault->nan ? "NaN" : "overflow", fault->op);
  if (std::find(rung.notes.begin(), rung.notes.end(), note) == rung.notes.end())
    rung.notes.push_back(std::move(note));
}

void fail_layers(const Climber& c, std::string problem, Arithmetic a, Rung& rung) {
  rung.verdict = Verdict::failed;
  rung.summary = std::move(problem);
  if (a == Arithmetic::fp16 && c.options.arithmetics.front() == Arithmetic::fp32)
    rung.notes.push_back(
        "in fp32 arithmetic it is right: the graph computes the model, and half cannot hold it");
}

void measure_magnitudes(Climber& c, int64_t layers, const Magnitudes& largest, Rung& rung) {
  std::vector<LayerMagnitude>& magnitudes = c.report.magnitudes;
  magnitudes = magnitudes_of(c, layers, largest);
  const double scale = c.report.residual_scale;
  const double proposed = c.full ? scale_for_model(c) : scale_for_values(largest, scale);
  c.report.proposed_scale = 0;
  const auto tight = std::min_element(
      magnitudes.begin(), magnitudes.end(),
      [](const LayerMagnitude& a, const LayerMagnitude& b) { return least_headroom(a) < least_headroom(b); });
  if (tight == magnitudes.end() || least_headroom(*tight) >= kSmallHeadroom) return;
  std::string note = fmt::format(
      "layer {} comes near a limit: values to {:.0f} ({:.1f}x below the fp16 limit), sums to {:.0f} ({:.1f}x "
      "below "
      "the accumulator's)",
      tight->layer, tight->value.value, tight->half_headroom(),
      tight->sum.where.empty() ? tight->value.value : tight->sum.value, tight->accumulator_headroom());
  if (proposed < scale) {
    c.report.proposed_scale = proposed;
    note += fmt::format("; convert with --residual-scale {}", proposed);
  } else {
    note += "; a residual scale does not reach it";
  }
  rung.notes.push_back(note);
}

Drift compare_layers(const Climber& c, const StepResult& r, const Golden& truth, int64_t first,
                     int64_t layers, const Judging& how, std::vector<LayerFigures>* figures) {
  const Arithmetic a = how.arithmetic;
  Drift drift;
  std::string& problem = drift.problem;
  // What nothing uses cannot be compared, and is the likely cause of what drifts behind it.
  std::vector<InnerName> lost;
  const auto look = [&](const InnerName& name, bool stream, const std::string& what,
                        double slack = 1) -> std::optional<Figures> {
    const Golden::Rows* rows = truth.find(name.name, name.layer);
    const auto it = r.inner.find(name);
    if (!rows || it == r.inner.end()) {
      if (rows && std::ranges::find(r.unused, name) != r.unused.end()) lost.push_back(name);
      return std::nullopt;
    }
    const auto count = static_cast<int64_t>(it->second.size()) / rows->width;
    if (count < 1 || !rows->has(first) || !rows->has(first + count - 1)) return std::nullopt;
    const size_t begin = static_cast<size_t>((first - rows->first) * rows->width);
    const Figures f = compare(it->second, std::span(rows->values).subspan(begin, it->second.size()));
    const auto judge = [&](std::span<const float> have, std::span<const float> want) {
      const std::string found = c.value_problem(compare(have, want), how, stream, slack);
      return found.empty() && name.name == "shares" ? other_choice(c, have, want, how) : found;
    };
    const std::string wrong = problem.empty() ? first_problem(it->second, *rows, first, judge) : "";
    if (!wrong.empty()) {
      drift.layer = name.layer;
      drift.part = name.name;
      problem = fmt::format("{} in {} arithmetic: {}", what, arithmetic_name(a), wrong);
      if (!lost.empty())
        problem = fmt::format("layer {}: nothing uses its {}; then {}", c.first_layer + lost.front().layer,
                              lost.front().name, problem);
    }
    return f;
  };
  look({"embed_out"}, true, "the embedding is wrong");
  for (int64_t i = 0; i < layers; ++i) {
    LayerFigures layer;
    layer.layer = c.first_layer + i;
    for (const Part& part : kParts) {
      std::string what =
          fmt::format("layer {} drifts first, {}: {}", layer.layer, part.name, meaning_of(truth, part, i));
      if (std::string_view(part.name) == "shares") what = choice_text(r, truth, first, i, layer.layer) + what;
      if (const auto f = look({part.name, i}, part.stream, what, part.slack))
        layer.parts.emplace(part.name, *f);
    }
    if (figures) figures->push_back(std::move(layer));
  }
  look({"final_norm"}, true,
       lost.empty() ? "the layers agree, but what goes into the head does not (final norm)"
                    : "what goes into the head drifts (final norm)");
  const int64_t last = drift.layer < 0 ? layers - 1 : drift.layer;
  if (!problem.empty() && c.full && !how.ties_settled && !near_ties(c, r, truth, first, last, a).empty()) {
    c.router_ties.insert(a);
    return {};
  }
  problem += shared_suspect(c, r, truth, first, drift, how);
  return drift;
}

Rung check_stateless(Climber& c) {
  Rung rung;
  const int64_t token = token_to_look_at(c);
  int64_t layers = 0;
  bool inside = false, known = false;
  for (const Arithmetic a : c.options.arithmetics) {
    c.say(fmt::format("one token, layer by layer, {} arithmetic", arithmetic_name(a)));
    const Stepper stepper = c.stepper(a, true);
    const CallShape& shape = stepper.shape_for(c.tokens);
    layers = stepper.layers();
    Caches caches = stepper.empty_caches(shape);
    known = knows_cache(c, caches, token + 1);
    Magnitudes largest;
    const bool measuring = c.report.magnitudes.empty();
    if (!known || measuring) feed(c, stepper, shape.context, known ? c.truth.prompt : token, caches, largest);
    if (known) fill_cache(c, token + 1, caches);
    const StepResult r =
        stepper.step(shape, std::span(c.truth.ids).subspan(static_cast<size_t>(token), 1), token, caches);
    keep_largest(r.magnitudes, largest);
    if (measuring) measure_magnitudes(c, layers, largest, rung);
    Drift experts = experts_problem(c, a);
    Drift drift = compare_layers(c, r, c.truth, token, layers, {a}, &c.report.layer_figures[a]);
    for (const LayerFigures& l : c.report.layer_figures[a]) inside = inside || !l.parts.empty();
    drift.problem += attention_suspect(c, r, std::span(c.truth.ids).first(static_cast<size_t>(token + 1)),
                                       token, drift, {a});
    std::string problem = earlier(std::move(drift), std::move(experts)).problem;
    if (c.truth.logits.has(token)) {
      const std::string head = compare_head(c, r, token, a, rung);
      if (problem.empty()) problem = head;
    }
    note_fault(r.fault, rung);
    if (!problem.empty()) {
      fail_layers(c, std::move(problem), a, rung);
      return rung;
    }
  }
  if (!inside)
    rung.notes.push_back(c.truth.inner.empty()
                             ? "the golden has no layers: only the logits were compared"
                             : "the packages do not name the values inside: only the logits "
                               "were compared");
  rung.summary = fmt::format("token {} of the prompt, {} layers{}, over the {} cache", token, layers,
                             inside ? " compared inside" : "", known ? "truth's" : "bundle's own");
  return rung;
}

}  // namespace anemone
