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
};
// In the order of the computation: the first that drifts is where to look.
constexpr Part kParts[] = {
    {"q", "the query heads (projection, norm, rotation)", false},
    {"k", "the key heads (projection, norm, rotation)", false},
    {"v", "the value heads (projection)", false},
    {"attn_out", "what attention gives (scores, mask, softmax, kv heads, output projection)", false},
    {"mlp_out", "what the MLP gives", false},
    {"layer_out", "the residual stream", true},
};

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

// The tokens [0, count) through the packages, as many at once as they take; keeps the largest magnitudes.
void feed(const Climber& c, const Stepper& stepper, int64_t context, int64_t count, Caches& caches,
          std::map<std::string, double>& largest) {
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
    for (const auto& [name, value] : r.magnitude) largest[name] = std::max(largest[name], value);
    at += tokens;
  }
}

std::vector<LayerMagnitude> magnitudes_of(const Climber& c, int64_t layers,
                                          const std::map<std::string, double>& largest) {
  std::vector<LayerMagnitude> out(static_cast<size_t>(layers));
  for (size_t i = 0; i < out.size(); ++i) out[i].layer = c.first_layer + static_cast<int64_t>(i);
  for (const auto& [name, value] : largest) {
    const size_t at = name.rfind('_');
    if (at == std::string::npos || at + 1 == name.size() ||
        name.find_first_not_of("0123456789", at + 1) != std::string::npos)
      continue;
    const auto layer = static_cast<size_t>(std::stoll(name.substr(at + 1)));
    if (layer < out.size()) out[layer].value.take(value, name.substr(0, at));
  }
  return out;
}

}  // namespace

void measure_magnitudes(Climber& c, int64_t layers, const std::map<std::string, double>& largest,
                        Rung& rung) {
  constexpr size_t kTokens = 16;  // the first is the largest as a rule, and sums take their time
  c.report.magnitudes = magnitudes_of(c, layers, largest);
  const double scale = c.report.residual_scale;
  double proposed = 1;
  if (c.reference) {
    c.say("measuring ranges");
    const auto ids = std::span(c.truth.ids).first(std::min(kTokens, static_cast<size_t>(c.truth.prompt)));
    const std::vector<LayerRange> ranges = measure_ranges(*c.reference, ids);
    for (size_t i = 0; i < ranges.size() && i < c.report.magnitudes.size(); ++i) {
      Peak& sum = c.report.magnitudes[i].sum;
      sum.take(ranges[i].stream_sum.value * scale, ranges[i].stream_sum.where);
      sum.take(ranges[i].inner_sum.value, ranges[i].inner_sum.where);
    }
    proposed = proposed_residual_scale(ranges);
  } else {
    std::vector<LayerRange> ranges(c.report.magnitudes.size());
    for (const auto& [name, value] : largest)
      for (const char* stream : {"attn_out_", "mlp_out_", "attn_residual_", "layer_out_"})
        if (name.starts_with(stream)) {
          ranges[0].stream.take(value / scale, name);
          if (!name.ends_with("residual_") && !name.starts_with("layer_out"))
            ranges[0].stream_sum.take(value / scale, name);
        }
    if (!ranges.empty()) proposed = proposed_residual_scale(std::span(ranges).first(1));
  }
  double least = INFINITY;
  const LayerMagnitude* tight = nullptr;
  for (const LayerMagnitude& m : c.report.magnitudes) {
    const double room = std::min(m.half_headroom(), m.accumulator_headroom());
    if (room < least) {
      least = room;
      tight = &m;
    }
  }
  c.report.proposed_scale = 0;
  if (!tight || least >= kSmallHeadroom) return;
  std::string note = fmt::format(
      "layer {} comes near a limit: values to {:.0f} ({:.1f}x below half's), sums to {:.0f} ({:.1f}x below "
      "the "
      "accumulator's)",
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

std::string compare_layers(Climber& c, const StepResult& r, std::optional<int64_t> token, int64_t layers,
                           Arithmetic a) {
  std::string problem;
  const auto look = [&](const std::string& name, double bar,
                        const std::string& what) -> std::optional<Figures> {
    const Golden::Rows* rows = c.truth.find(name);
    const auto it = r.inner.find(name);
    if (!rows || (token && !rows->has(*token)) || it == r.inner.end()) return std::nullopt;
    const Figures f = compare(it->second, token ? rows->row(*token) : std::span(rows->values));
    if (problem.empty() && !f.within(bar))
      problem = fmt::format("{} in {} arithmetic: {}", what, arithmetic_name(a), text(f));
    return f;
  };
  look("embed_out", c.stream_bar(a), "the embedding is wrong");
  std::vector<LayerFigures>& out = c.report.layer_figures[a];
  for (int64_t i = 0; i < layers; ++i) {
    LayerFigures layer;
    layer.layer = c.first_layer + i;
    for (const Part& part : kParts) {
      const auto f = look(fmt::format("{}_{}", part.name, i), part.stream ? c.stream_bar(a) : c.piece_bar(a),
                          fmt::format("layer {} drifts first, {}: {}", layer.layer, part.name, part.meaning));
      if (f) layer.parts.emplace(part.name, *f);
    }
    out.push_back(std::move(layer));
  }
  look("final_norm", c.stream_bar(a), "the layers agree, but what goes into the head does not (final norm)");
  return problem;
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
    std::map<std::string, double> largest;
    const bool measuring = c.report.magnitudes.empty();
    if (!known || measuring) feed(c, stepper, shape.context, known ? c.truth.prompt : token, caches, largest);
    if (known) fill_cache(c, token + 1, caches);
    const StepResult r =
        stepper.step(shape, std::span(c.truth.ids).subspan(static_cast<size_t>(token), 1), token, caches);
    for (const auto& [name, value] : r.magnitude) largest[name] = std::max(largest[name], value);
    if (measuring) measure_magnitudes(c, layers, largest, rung);
    std::string problem = compare_layers(c, r, token, layers, a);
    for (const LayerFigures& l : c.report.layer_figures[a]) inside = inside || !l.parts.empty();
    if (c.truth.logits.has(token)) {
      LogitTally tally("one token", a);
      if (!r.logits.empty()) tally.add(r.logits, c.truth.logits.row(token));
      if (r.logits.empty() && !r.best.empty()) tally.add_best(r.best[0], c.truth.logits.row(token));
      rung.rows.push_back(tally.row());
      const std::string logits = c.logit_problem(rung.rows.back());
      if (problem.empty() && !logits.empty()) problem = "the layers agree, but the head does not: " + logits;
      if (problem.empty() && !r.best.empty() && !r.logits.empty() && r.best[0] != best_of(r.logits))
        problem = fmt::format("the head picks token {}, though {} has its largest logit", r.best[0],
                              best_of(r.logits));
      if (problem.empty() && c.least_bits >= 8 && rung.rows.back().values &&
          rung.rows.back().cosine < kExpectedCosine) {
        rung.verdict = Verdict::warned;
        rung.notes.push_back(fmt::format("cosine {:.5f} in {} arithmetic; {} is expected of 8-bit weights",
                                         rung.rows.back().cosine, arithmetic_name(a), kExpectedCosine));
      }
    }
    if (r.fault) {
      const std::string fault = fmt::format("{} in fp16 arithmetic, first in op '{}'",
                                            r.fault->nan ? "NaN" : "overflow", r.fault->op);
      rung.notes.push_back(fault);
    }
    if (!problem.empty()) {
      rung.verdict = Verdict::failed;
      rung.summary = problem;
      if (a == Arithmetic::fp16 && c.options.arithmetics.front() == Arithmetic::fp32)
        rung.notes.push_back(
            "in fp32 arithmetic it is right: the graph computes the model, and half cannot hold it");
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
