// Operators that are a block of a decoder, or most of one: norms, rotations, attention. One sequence (batch 1).
#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "families/recover/evaluate.h"

namespace anemone::recover {
namespace {

using Arrays = std::vector<Array>;

template <class F>
Arrays norm(const Call& c, F of_row) {
  Array out = c.at(0);
  const auto width = static_cast<size_t>(out.dims.empty() ? 0 : out.dims.back());
  const auto rank = static_cast<int64_t>(out.dims.size());
  if (rank == 0 || wrapped(c.op.node->integer("axis", -1), rank) != rank - 1)
    throw Error("a norm of another axis");
  if (c.at(1).size() != static_cast<int64_t>(width)) throw Error("a gain that does not fit");
  for (size_t row = 0; width > 0 && row < out.data.size(); row += width) of_row(out.data.data() + row, width);
  return {std::move(out)};
}

Arrays rms_norm(const Call& c) {
  const double eps = c.op.node->number("epsilon", 1e-5f);
  const Array& gain = c.at(1);
  return norm(c, [&](double* x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
    for (size_t i = 0; i < n; ++i) x[i] *= scale * gain.data[i];
  });
}

Arrays layer_norm(const Call& c) {
  const double eps = c.op.node->number("epsilon", 1e-5f);
  const Array& gain = c.at(1);
  const Array* bias = c.find(2);
  return norm(c, [&](double* x, size_t n) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i)
      x[i] = (x[i] - mean) / std::sqrt(variance + eps) * gain.data[i] + (bias ? bias->data.at(i) : 0);
  });
}

// [1, T, heads * D] or [1, heads, T, D]; where an element of a head lies.
struct Heads {
  int64_t heads = 0, tokens = 0, dim = 0;
  bool flat = false;

  static Heads of(const Array& x, int64_t heads) {
    if (x.dims.size() == 4 && x.dims[0] == 1) return {x.dims[1], x.dims[2], x.dims[3], false};
    if (x.dims.size() != 3 || x.dims[0] != 1 || heads < 1 || x.dims[2] % heads != 0)
      throw errorf("heads that do not fit")
          .found(shape_text(x.dims))
          .expected(fmt::format("{} heads", heads));
    return {heads, x.dims[1], x.dims[2] / heads, true};
  }
  size_t at(int64_t head, int64_t token, int64_t d) const {
    return static_cast<size_t>(flat ? (token * heads + head) * dim + d : (head * tokens + token) * dim + d);
  }
};

// cos and sin have a row for each token already (Evaluator::run): [1, T, r/2].
Arrays rotary(const Call& c) {
  const bool ms = c.op.type.starts_with("ms.");
  const OnnxNode& node = *c.op.node;
  const Array &cos = c.at(ms ? 2 : 1), &sin = c.at(ms ? 3 : 2);
  Array out = c.at(0);
  const int64_t half = cos.dims.empty() ? 0 : cos.dims.back();
  int64_t heads = node.integer("num_heads", 0);
  const int64_t dims = node.integer("rotary_embedding_dim", 0);
  if (heads == 0 && out.dims.size() == 3) {
    const int64_t dim = dims > 0 ? 0 : 2 * half;
    if (dim == 0) throw Error("RotaryEmbedding does not say the number of heads");
    heads = out.dims[2] / dim;
  }
  const Heads h = Heads::of(out, heads);
  const bool turns = node.integer("interleaved", 0) != 0;
  if (2 * half > h.dim || cos.size() != h.tokens * half || sin.size() != cos.size())
    throw Error("tables of a rotation that do not fit").found(shape_text(cos.dims));
  const Array x = out;
  for (int64_t n = 0; n < h.heads; ++n)
    for (int64_t t = 0; t < h.tokens; ++t)
      for (int64_t i = 0; i < half; ++i) {
        const size_t a = h.at(n, t, turns ? 2 * i : i), b = h.at(n, t, turns ? 2 * i + 1 : i + half);
        const double cs = cos.data[static_cast<size_t>(t * half + i)],
                     sn = sin.data[static_cast<size_t>(t * half + i)];
        out.data[a] = x.data[a] * cs - x.data[b] * sn;
        out.data[b] = x.data[b] * cs + x.data[a] * sn;
      }
  return {std::move(out)};
}

struct Attend {
  double scale = 0, softcap = 0;
  bool causal = false;
  const Array* bias = nullptr;  // broadcast to [1, heads, T, S]
};

// Keys and values with the cache in front, as [1, heads, S, D].
Array with_past(const Array& x, const Heads& h, const Array* past) {
  const int64_t before = past && !past->dims.empty() ? past->dims[past->dims.size() - 2] : 0;
  const Heads all{h.heads, before + h.tokens, h.dim, false};
  Array out = Array::filled({1, h.heads, all.tokens, h.dim}, 0);
  for (int64_t n = 0; n < h.heads; ++n)
    for (int64_t t = 0; t < all.tokens; ++t)
      for (int64_t d = 0; d < h.dim; ++d)
        out.data[all.at(n, t, d)] = t < before
                                        ? past->data.at(static_cast<size_t>((n * before + t) * h.dim + d))
                                        : x.data.at(h.at(n, t - before, d));
  return out;
}

Array attend(const Array& q, const Heads& hq, const Array& k, const Array& v, const Attend& how) {
  const Heads hk = Heads::of(k, 0), hv = Heads::of(v, 0);
  if (hk.heads < 1 || hq.heads % hk.heads != 0 || hk.dim != hq.dim || hv.tokens != hk.tokens ||
      hv.heads != hk.heads)
    throw Error("queries, keys and values that do not fit");
  const int64_t group = hq.heads / hk.heads, s = hk.tokens, past = s - hq.tokens;
  const Heads ho{hq.heads, hq.tokens, hv.dim, hq.flat};
  Array out = Array::filled(hq.flat ? std::vector<int64_t>{1, hq.tokens, hq.heads * hv.dim}
                                    : std::vector<int64_t>{1, hq.heads, hq.tokens, hv.dim},
                            0);
  const Array bias = how.bias ? broadcast(*how.bias, {1, hq.heads, hq.tokens, s}) : Array{};
  std::vector<double> p(static_cast<size_t>(s));
  for (int64_t n = 0; n < hq.heads; ++n)
    for (int64_t t = 0; t < hq.tokens; ++t) {
      double most = -INFINITY, sum = 0;
      for (int64_t j = 0; j < s; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < hq.dim; ++d) dot += q.data[hq.at(n, t, d)] * k.data[hk.at(n / group, j, d)];
        dot *= how.scale;
        if (how.softcap > 0) dot = how.softcap * std::tanh(dot / how.softcap);
        if (how.bias) {
          const double b = bias.data[static_cast<size_t>((n * hq.tokens + t) * s + j)];
          dot = bias.whole ? (b != 0 ? dot : -INFINITY) : dot + b;
        }
        if (how.causal && j > t + past) dot = -INFINITY;
        p[static_cast<size_t>(j)] = dot;
        most = std::max(most, dot);
      }
      for (double& x : p) sum += x = most == -INFINITY ? 0 : std::exp(x - most);
      for (int64_t j = 0; j < s && sum > 0; ++j)
        for (int64_t d = 0; d < hv.dim; ++d)
          out.data[ho.at(n, t, d)] += p[static_cast<size_t>(j)] / sum * v.data[hv.at(n / group, j, d)];
    }
  return out;
}

// query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
Arrays multi_head(const Call& c) {
  const OnnxNode& node = *c.op.node;
  if (c.find(3) || c.find(4)) throw Error("MultiHeadAttention with a bias or a padding mask of its own");
  const int64_t heads = node.integer("num_heads", 0);
  const Heads hq = Heads::of(c.at(0), heads);
  const Array k = with_past(c.at(1), Heads::of(c.at(1), heads), c.find(6));
  const Array v = with_past(c.at(2), Heads::of(c.at(2), heads), c.find(7));
  const double scale = node.number("scale", 0);
  const Attend how{scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(hq.dim)), 0,
                   node.integer("unidirectional", 0) != 0, c.find(5)};
  Array out = attend(c.at(0), hq, k, v, how);
  return {std::move(out), k, v};
}

// ONNX 23: Q, K, V, mask, past_key, past_value.
Arrays attention(const Call& c) {
  const OnnxNode& node = *c.op.node;
  const Heads hq = Heads::of(c.at(0), node.integer("q_num_heads", 0));
  const int64_t kv = node.integer("kv_num_heads", 0);
  const Array k = with_past(c.at(1), Heads::of(c.at(1), kv), c.find(4));
  const Array v = with_past(c.at(2), Heads::of(c.at(2), kv), c.find(5));
  const double scale = node.number("scale", 0);
  const Attend how{scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(hq.dim)), node.number("softcap", 0),
                   node.integer("is_causal", 0) != 0, c.find(3)};
  Array out = attend(c.at(0), hq, k, v, how);
  return {std::move(out), k, v};
}

}  // namespace

Compute find_block_compute(std::string_view type) {
  static const std::map<std::string_view, Compute> table = {
      {"SimplifiedLayerNormalization", rms_norm},
      {"RMSNormalization", rms_norm},
      {"LayerNormalization", layer_norm},
      {"ms.RotaryEmbedding", rotary},
      {"RotaryEmbedding", rotary},
      {"ms.MultiHeadAttention", multi_head},
      {"Attention", attention},
  };
  const auto at = table.find(type);
  return at == table.end() ? nullptr : at->second;
}

}  // namespace anemone::recover
