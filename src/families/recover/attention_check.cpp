// The last word about an attention: numbers of our choice go through the graph and through the formula.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

double number_at(size_t i, double shift) { return std::sin(0.731 * static_cast<double>(i) + shift) * 1.3; }

std::vector<float> gains(const Context& c, const Norm& norm) {
  std::vector<float> out(static_cast<size_t>(norm.gain.rows()));
  read_rows(c.checkpoint, norm.gain, 0, norm.gain.rows(), out);
  for (float& v : out) v += static_cast<float>(norm.offset);
  return out;
}

void normalize(double* x, const Norm& norm, const std::vector<float>& gain) {
  const auto n = gain.size();
  double mean = 0, sum = 0;
  if (norm.kind == Norm::Kind::layer)
    for (size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) sum += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + norm.eps);
  for (size_t i = 0; i < n; ++i) x[i] = (x[i] - mean) * scale * gain[i];
}

void rotate(double* head, const Rope& rope, int64_t position) {
  const int64_t half = rope.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    double f = std::pow(rope.base, -static_cast<double>(i) / static_cast<double>(half));
    if (rope.scaling == RopeScaling::divisors) f /= rope.divisors[static_cast<size_t>(i)];
    if (rope.scaling == RopeScaling::longrope) f /= rope.short_factors[static_cast<size_t>(i)];
    const double c = std::cos(f * static_cast<double>(position)) * rope.attention_factor,
                 s = std::sin(f * static_cast<double>(position)) * rope.attention_factor;
    const double a = head[i], b = head[i + half];
    head[i] = a * c - b * s;
    head[i + half] = b * c + a * s;
  }
}

// Heads of one side at all new tokens, from the rows of its projection: norm and rotation in their order.
std::vector<double> prepared(const Context& c, const Attention& a, const std::vector<double>& rows,
                             bool query, const Probe& probe) {
  std::vector<double> out = rows;
  const int64_t heads = query ? a.heads : a.kv_heads, width = heads * a.head_dim;
  std::vector<float> gain;
  if (a.qk_norm) gain = gains(c, query ? a.qk_norm->q : a.qk_norm->k);
  for (int64_t t = 0; t < probe.tokens; ++t) {
    double* token = out.data() + t * width;
    const auto norm = [&] {
      if (!a.qk_norm) return;
      const Norm& n = query ? a.qk_norm->q : a.qk_norm->k;
      if (a.qk_norm->over_width) return normalize(token, n, gain);
      for (int64_t h = 0; h < heads; ++h) normalize(token + h * a.head_dim, n, gain);
    };
    if (!a.qk_norm || !a.qk_norm->after_rope) norm();
    if (a.rope)
      for (int64_t h = 0; h < heads; ++h) rotate(token + h * a.head_dim, c.ropes[*a.rope], probe.past + t);
    if (a.qk_norm && a.qk_norm->after_rope) norm();
  }
  return out;
}

// The caches that a value reads.
std::set<ValueId> caches_behind(Context& c, ValueId value, ValueId stop) {
  std::set<ValueId> seen, out;
  std::vector<ValueId> open = {value};
  while (!open.empty() && seen.size() < 8192) {
    const ValueId v = open.back();
    open.pop_back();
    if (v == kNone || v == stop || !seen.insert(v).second || c.graph.constant(v)) continue;
    const Op* op = c.graph.producer(v);
    if (!op && role_of(c.graph, c.graph.name(v)) == InputRole::past) out.insert(v);
    if (!op || op->type == "Shape" || c.graph.bundle().weights.own(*op->node)) continue;
    if (op->type == "MatMul" && c.graph.bundle().weights.constant(c.graph.name(op->input(1)))) continue;
    for (const ValueId in : op->inputs) open.push_back(in);
  }
  return out;
}

// What the keys of the cache were multiplied with, beside the rope's own factor: all of the factor on their way but
// what comes behind the cache.
double factor_in_cache(Context& c, const AttentionSources& s, const std::vector<ValueId>& caches) {
  constexpr Probe kProbe{.tokens = 1, .past = 3};
  Evaluator e = evaluator(c, kProbe);
  e.set(s.k.linear.output, Array::filled({1, kProbe.tokens, s.k.linear.rows()}, 0));
  for (const ValueId cache : caches) e.set(cache, Array::filled(e.dims(cache), 1));
  double behind = 0;
  for (const double v : e.value(s.k.operand).data) behind = std::max(behind, v);
  return s.k.factor / s.counted / (behind > 0 ? behind : 1);  // 0: the cache joins later
}

// What rounding explains. Tables of rotations in fp16 are off by up to 5e-4, and a score sums over a head.
double allowed(const Context& c) {
  for (const OnnxValueInfo& input : c.graph.model().graph().inputs)
    if (input.type == OnnxType::float16) return 2e-2;
  return 5e-3;
}

// Rows of the projections by token, and the cache by head and token.
struct Given {
  Probe probe;
  std::vector<double> q, k, v, past_k, past_v;
};

std::vector<double> expected_heads(const Context& c, const Attention& a, const Given& g) {
  const Probe& probe = g.probe;
  const int64_t s = probe.past + probe.tokens, group = a.heads / a.kv_heads, d = a.head_dim;
  const std::vector<double> keys = prepared(c, a, g.k, false, probe),
                            queries = prepared(c, a, g.q, true, probe);
  const auto row = [&](const std::vector<double>& fresh, const std::vector<double>& past, int64_t n,
                       int64_t j) {
    return j < probe.past ? past.data() + (n * probe.past + j) * d
                          : fresh.data() + ((j - probe.past) * a.kv_heads + n) * d;
  };
  std::vector<double> out(static_cast<size_t>(probe.tokens * a.query_width()), 0), p(static_cast<size_t>(s));
  for (int64_t t = 0; t < probe.tokens; ++t)
    for (int64_t h = 0; h < a.heads; ++h) {
      double sum = 0;
      for (int64_t j = 0; j < s; ++j) {
        const double* key = row(keys, g.past_k, h / group, j);
        double dot = 0;
        for (int64_t i = 0; i < d; ++i)
          dot += queries[static_cast<size_t>((t * a.heads + h) * d + i)] * key[i];
        dot *= a.scale;
        if (a.softcap > 0) dot = a.softcap * std::tanh(dot / a.softcap);
        p[static_cast<size_t>(j)] = a.reach.sees(probe.past + t, j) ? std::exp(dot) : 0;
        sum += p[static_cast<size_t>(j)];
      }
      for (int64_t j = 0; j < s; ++j)
        for (int64_t i = 0; i < d; ++i)
          out[static_cast<size_t>((t * a.heads + h) * d + i)] +=
              p[static_cast<size_t>(j)] / sum * row(g.v, g.past_v, h / group, j)[i];
    }
  return out;
}

// How far graph and formula are apart for one probe.
double distance(Context& c, const Attention& a, const AttentionSources& s, const std::vector<ValueId>& caches,
                Probe probe) {
  Given given{probe, {}, {}, {}, {}, {}};
  Evaluator e = evaluator(c, probe);
  // A fused projection is one value with the rows of all three.
  const auto rows = [&](const HeadSource& source, int64_t width) {
    const int64_t all = source.linear.rows(), begin = source.channels[0];
    Array in = Array::filled({1, probe.tokens, all}, 0);
    for (size_t i = 0; i < in.data.size(); ++i)
      in.data[i] = number_at(i, 0.1 * static_cast<double>(source.linear.output));
    std::vector<double> out;
    for (int64_t t = 0; t < probe.tokens; ++t)
      for (int64_t i = 0; i < width; ++i) out.push_back(in.data[static_cast<size_t>(t * all + begin + i)]);
    e.set(source.linear.output, std::move(in));
    return out;
  };
  given.q = rows(s.q, a.query_width());
  given.k = rows(s.k, a.key_width());
  given.v = rows(s.v, a.key_width());
  for (int64_t n = 0; n < a.key_width() * probe.past; ++n) {
    given.past_k.push_back(number_at(static_cast<size_t>(n), 3.3));
    given.past_v.push_back(number_at(static_cast<size_t>(n), 4.3));
  }
  const std::vector<double> wanted = expected_heads(c, a, given);
  const double cached = caches.size() == 2 ? factor_in_cache(c, s, caches) : 1;
  // Which cache is which is not said by the order of the inputs: both ways are tried.
  double least = INFINITY;
  for (const bool swapped : {false, true}) {
    Evaluator run = e;
    const std::vector<int64_t> dims = {1, a.kv_heads, probe.past, a.head_dim};
    if (caches.size() == 2) {
      std::vector<double> keys = given.past_k;
      for (double& v : keys) v *= cached;
      run.set(caches[swapped ? 1 : 0], {dims, keys, false});
      run.set(caches[swapped ? 0 : 1], {dims, given.past_v, false});
    }
    const Array& found = run.value(s.out);
    double worst = found.data.size() == wanted.size() ? 0 : INFINITY;
    for (size_t i = 0; i < wanted.size() && i < found.data.size(); ++i)
      worst = std::max(worst, std::abs(found.data[i] - wanted[i]));
    least = std::min(least, worst);
    if (worst > allowed(c)) continue;
    run.claim(c.graph);
    break;
  }
  return least;
}

}  // namespace

void check_attention(Context& c, const Attention& a, const AttentionSources& s) {
  const std::set<ValueId> found = caches_behind(c, s.out, s.q.linear.output);
  if (found.size() > 2) throw c.graph.unexpected(s.out, "one cache of keys and one of values");
  const std::vector<ValueId> caches(found.begin(), found.end());
  std::vector<Probe> probes = {{.tokens = 4, .past = 3}};
  if (caches.size() != 2) {
    probes = {{.tokens = 4, .past = 0}};
  } else {
    try {  // some graphs take several tokens only where the cache is empty
      if (distance(c, a, s, caches, probes[0]) <= allowed(c)) return;
    } catch (const Error&) {
      probes = {{.tokens = 4, .past = 0}, {.tokens = 1, .past = 3}};
    }
  }
  for (const Probe& probe : probes)
    if (const double apart = distance(c, a, s, caches, probe); !(apart <= allowed(c)))
      throw c.graph.unexpected(
          s.out,
          fmt::format("an attention that computes what its parts say; with numbers of a test its results "
                      "differ by {:.2g}",
                      apart));
}

}  // namespace anemone::recover
