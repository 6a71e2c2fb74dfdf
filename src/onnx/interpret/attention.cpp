// Attention and rotary embeddings, token by token.
#include <algorithm>
#include <limits>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// [batch, tokens, heads * size] as [batch, heads, tokens, size].
OnnxArray by_heads(const OnnxArray& x, int64_t heads) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3 || heads < 1 || x.dims[2] % heads)
    throw errorf("{} heads do not fit the shape {}", heads, shape_text(x.dims));
  const int64_t tokens = x.dims[1], size = x.dims[2] / heads;
  OnnxArray y = made(x.type, {x.dims[0], heads, tokens, size});
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k++] = x.data[static_cast<size_t>(((at[0] * tokens + at[2]) * heads + at[1]) * size + at[3])];
  });
  return y;
}

OnnxArray behind(const OnnxArray& past, const OnnxArray& now) {
  std::vector<int64_t> dims = now.dims;
  if (past.rank() != 4 || past.dims[0] != dims[0] || past.dims[1] != dims[1] || past.dims[3] != dims[3])
    throw errorf("{} does not fit {}", shape_text(past.dims), shape_text(dims));
  dims[2] += past.dims[2];
  OnnxArray y = made(now.type, dims);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    const bool old = at[2] < past.dims[2];
    const OnnxArray& from = old ? past : now;
    const int64_t token = old ? at[2] : at[2] - past.dims[2];
    y.data[k++] =
        from.data[static_cast<size_t>(((at[0] * dims[1] + at[1]) * from.dims[2] + token) * dims[3] + at[3])];
  });
  return y;
}

// What is added to the score of a query and a key.
class Bias {
 public:
  Bias(const Context& c, int64_t queries) : c_(c), queries_(queries) {
    causal_ = c.node.integer("is_causal", 0) != 0;
    left_ = c.node.integer("left_window_size", -1);
    right_ = c.node.integer("right_window_size", -1);
    past_ = c.has(4) ? c[4].dims.at(2) : 0;
  }

  double at(const std::vector<int64_t>& place) const {  // batch, head, query, key
    const int64_t key = place[3];
    int64_t offset = past_;
    if (c_.has(6)) {
      const auto length = whole(c_[6].data.at(static_cast<size_t>(place[0])));
      if (key >= length) return kNever;
      if (!c_.has(4)) offset = length - queries_;
    }
    const int64_t distance = place[2] + offset - key;
    if ((causal_ && distance < 0) || (left_ >= 0 && distance > left_) || (right_ >= 0 && -distance > right_))
      return kNever;
    return c_.has(3) ? mask(place) : 0;
  }

 private:
  double mask(std::vector<int64_t> place) const {
    const OnnxArray& m = c_[3];
    if (m.rank() < 1 || m.rank() > 4) throw errorf("a mask of shape {}", shape_text(m.dims));
    if (place[3] >= m.dims.back() && m.dims.back() != 1) return kNever;  // a short mask
    const double v = m.data.at(static_cast<size_t>(broadcast_at(place, m.dims)));
    if (m.type != OnnxType::boolean) return v;
    return v != 0 ? 0 : kNever;
  }

  const Context& c_;
  int64_t queries_, left_ = -1, right_ = -1, past_ = 0;
  bool causal_ = false;
};

// Scores of all queries and keys, [batch, heads, queries, keys].
OnnxArray scores_of(const Context& c, const OnnxArray& q, const OnnxArray& k) {
  const int64_t heads = q.dims[1], size = q.dims[3], group = heads / k.dims[1];
  const double scale = c.node.attribute("scale") ? static_cast<double>(c.node.number("scale", 1))
                                                 : 1 / std::sqrt(static_cast<double>(size));
  OnnxArray s = made(q.type, {q.dims[0], heads, q.dims[2], k.dims[2]});
  size_t e = 0;
  each_place(s.dims, [&](const std::vector<int64_t>& at) {
    const double* x = q.data.data() + ((at[0] * heads + at[1]) * q.dims[2] + at[2]) * size;
    const double* y = k.data.data() + ((at[0] * k.dims[1] + at[1] / group) * k.dims[2] + at[3]) * size;
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += x[i] * y[i];
    s.data[e++] = sum * scale;
  });
  return s;
}

// Rows that may look nowhere give zeros.
void to_probabilities(OnnxArray& s) {
  const int64_t keys = s.dims.back();
  for (int64_t row = 0; row < s.size(); row += keys) {
    const auto begin = s.data.begin() + row, end = begin + keys;
    const double best = keys ? *std::max_element(begin, end) : 0;
    double sum = 0;
    for (auto v = begin; v != end; ++v) {
      *v = best == kNever ? 0 : std::exp(*v - best);
      sum += *v;
    }
    for (auto v = begin; v != end && sum != 0; ++v) *v /= sum;
  }
}

OnnxArray weighted(const OnnxArray& p, const OnnxArray& v, bool flat) {
  const int64_t heads = p.dims[1], tokens = p.dims[2], keys = p.dims[3], size = v.dims[3],
                group = heads / v.dims[1];
  OnnxArray y =
      flat ? made(v.type, {p.dims[0], tokens, heads * size}) : made(v.type, {p.dims[0], heads, tokens, size});
  for (int64_t row = 0; row < p.dims[0] * heads * tokens; ++row) {
    const int64_t batch = row / (heads * tokens), head = row / tokens % heads, token = row % tokens;
    double* out = y.data.data() + (flat ? ((batch * tokens + token) * heads + head) * size : row * size);
    const double* from = v.data.data() + (batch * v.dims[1] + head / group) * keys * size;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < size; ++i)
        out[i] += p.data[static_cast<size_t>(row * keys + j)] * from[j * size + i];
  }
  return y;
}

Arrays attention(const Context& c) {
  const bool flat = c[0].rank() == 3;
  const OnnxArray q = by_heads(c[0], c.node.integer("q_num_heads", 0));
  OnnxArray k = by_heads(c[1], c.node.integer("kv_num_heads", 0)),
            v = by_heads(c[2], c.node.integer("kv_num_heads", 0));
  if (c.has(4)) {
    k = behind(c[4], k);
    v = behind(c[5], v);
  }
  if (k.dims[1] < 1 || q.dims[1] % k.dims[1] || v.dims[1] != k.dims[1] || v.dims[2] != k.dims[2] ||
      q.dims[3] != k.dims[3] || q.dims[0] != k.dims[0] || q.dims[0] != v.dims[0])
    throw errorf("queries {}, keys {} and values {} do not fit", shape_text(q.dims), shape_text(k.dims),
                 shape_text(v.dims));
  OnnxArray s = scores_of(c, q, k), shown = s;
  const int64_t mode = c.node.integer("qk_matmul_output_mode", 0);
  if (const auto cap = static_cast<double>(c.node.number("softcap", 0)); cap > 0)
    for (double& each : s.data) each = cap * std::tanh(each / cap);
  if (mode == 1) shown = s;
  const Bias bias(c, q.dims[2]);
  size_t e = 0;
  each_place(s.dims, [&](const std::vector<int64_t>& at) { s.data[e++] += bias.at(at); });
  if (mode == 2) shown = s;
  to_probabilities(s);
  if (mode == 3) shown = s;
  return {weighted(s, v, flat), k, v, shown};
}

// Pairs of each head turned by the angles of the caches.
Arrays rotary(const Context& c, size_t cos_at, size_t sin_at, size_t position_at) {
  const OnnxArray &x = c[0], &cos = c[cos_at], &sin = c[sin_at];
  const bool four = x.rank() == 4;
  if ((!four && x.rank() != 3) || cos.rank() < 1) throw errorf("rank {} is not supported here", x.rank());
  const int64_t tokens = x.dims[four ? 2 : 1], half = cos.dims.back();
  int64_t heads = four ? x.dims[1] : c.node.integer("num_heads", 0);
  if (heads == 0 && half > 0) heads = x.dims[2] / (2 * half);
  if (heads < 1 || (!four && x.dims[2] % heads)) throw errorf("num_heads is {}", heads);
  const int64_t size = four ? x.dims[3] : x.dims[2] / heads;
  if (half < 1 || 2 * half > size || sin.dims != cos.dims)
    throw errorf("the caches {} and {} do not fit heads of {}", shape_text(cos.dims), shape_text(sin.dims),
                 size);
  const bool pairs = c.node.integer("interleaved", 0) != 0;
  OnnxArray y = x;
  for (int64_t row = 0; row < x.size() / size; ++row) {
    const int64_t batch = row / (heads * tokens), token = four ? row % tokens : row / heads % tokens;
    int64_t at = batch * tokens + token;  // the caches have a row for every token, or one for every position
    if (c.has(position_at)) {
      const OnnxArray& p = c[position_at];
      at = whole(p.data.at(static_cast<size_t>(p.size() == 1 ? 0 : at)));
      if (p.size() == 1 && p.rank() < 2) at += token;
    }
    for (int64_t k = 0; k < half; ++k) {
      const auto a = static_cast<size_t>(row * size + (pairs ? 2 * k : k)),
                 b = static_cast<size_t>(row * size + (pairs ? 2 * k + 1 : k + half)),
                 angle = static_cast<size_t>(at * half + k);
      y.data[a] = x.data[a] * cos.data.at(angle) - x.data[b] * sin.data.at(angle);
      y.data[b] = x.data[a] * sin.data.at(angle) + x.data[b] * cos.data.at(angle);
    }
  }
  return {y};
}

Arrays rotary_embedding(const Context& c) { return rotary(c, 1, 2, 3); }
Arrays rotary_microsoft(const Context& c) { return rotary(c, 2, 3, 1); }

}  // namespace

void add_attention(Table& t) {
  t["Attention"] = attention;
  t["RotaryEmbedding"] = rotary_embedding;
  t.microsoft("RotaryEmbedding") = rotary_microsoft;
}

}  // namespace anemone::interpret
