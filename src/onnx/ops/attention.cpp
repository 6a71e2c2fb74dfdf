// Attention and rotary embeddings.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// [batch, tokens, heads * size] → [batch, heads, tokens, size].
Value* by_heads(OnnxCall& n, Value* x, int64_t heads) {
  const std::vector<int64_t> d = n.dims(x);
  if (d.size() == 4) return x;
  if (d.size() != 3 || heads < 1 || d[2] % heads)
    throw errorf("{} heads do not fit the shape {}", heads, shape_text(d));
  return n.transpose(n.reshape(x, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
}

// Fewer heads of keys than of queries: each serves a group.
Value* repeated(OnnxCall& n, Value* x, int64_t heads) {
  const std::vector<int64_t> d = n.dims(x);
  if (d[1] == heads) return x;
  if (d[1] < 1 || heads % d[1]) throw errorf("{} heads cannot share {}", heads, d[1]);
  Value* wide = n.op("tile", {{"x", n.expand(x, {2})}, {"reps", Constant::ints({1, 1, heads / d[1], 1, 1})}});
  return n.reshape(wide, {d[0], heads, d[2], d[3]});
}

struct Scores {
  int64_t queries = 0, keys = 0;
  Value* offset = nullptr;  // by batch, where the cache is outside
  int64_t past = 0;
};

// Where query i may look at key j, by the distance i + offset - j; nothing when everywhere.
Value* allowed(OnnxCall& n, const Scores& s) {
  const bool causal = n.node.integer("is_causal", 0) != 0;
  const int64_t left = n.node.integer("left_window_size", -1),
                right = n.node.integer("right_window_size", -1);
  if (!causal && left < 0 && right < 0) return nullptr;
  std::vector<int64_t> distance;
  for (int64_t i = 0; i < s.queries; ++i)
    for (int64_t j = 0; j < s.keys; ++j) distance.push_back(i + s.past - j);
  Value* d = n.int_values(distance, {s.queries, s.keys});
  if (s.offset) d = n.add(d, s.offset);
  Value* ok = nullptr;
  const auto also = [&](std::string_view kind, int64_t bound) {
    Value* here = n.op(kind, {{"x", d}, {"y", n.i(bound)}});
    ok = ok ? n.op("logical_and", {{"x", ok}, {"y", here}}) : here;
  };
  if (causal) also("greater_equal", 0);
  if (left >= 0) also("less_equal", left);
  if (right >= 0) also("greater_equal", -right);
  return ok;
}

// The mask as numbers to add, as wide as the keys.
Value* mask_numbers(OnnxCall& n, const Scores& s) {
  if (!n.has(3)) return nullptr;
  Value* mask = n.in(3);
  if (mask->type.dtype == DType::boolean) mask = n.select(mask, n.f(0), n.f(kNever));
  const std::vector<int64_t> d = n.dims(mask);
  if (d.back() < s.keys) {
    std::vector<int64_t> more = d;
    more.back() = s.keys - d.back();
    mask = n.concat({mask, n.filled(more, static_cast<double>(kNever), DType::fp32)}, mask->type.rank() - 1);
  }
  return mask;
}

Value* bias_of(OnnxCall& n, const Scores& s) {
  Value* bias = mask_numbers(n, s);
  if (Value* ok = allowed(n, s)) {
    Value* numbers = n.select(ok, n.f(0), n.f(kNever));
    bias = bias ? n.add(bias, numbers) : numbers;
  }
  // Keys behind the end of a static cache.
  if (n.has(6)) {
    std::vector<int64_t> at;
    for (int64_t j = 0; j < s.keys; ++j) at.push_back(j);
    Value* length = n.reshape(n.in(6), {n.dims(n.in(6)).at(0), 1, 1, 1});
    Value* inside = n.op("less", {{"x", n.int_values(at, {s.keys})}, {"y", length}});
    Value* numbers = n.select(inside, n.f(0), n.f(kNever));
    bias = bias ? n.add(bias, numbers) : numbers;
  }
  return bias;
}

// Rows that may look nowhere give zeros.
Value* probabilities(OnnxCall& n, Value* scores, Value* bias) {
  if (!bias) return n.op("softmax", {{"x", scores}, {"axis", n.i(-1)}});
  Value* best = n.reduce("max", bias, {bias->type.rank() - 1}, true);
  Value* nowhere = n.op("equal", {{"x", best}, {"y", n.f(kNever)}});
  Value* safe = n.select(nowhere, n.f(0), scores);
  Value* p = n.op("softmax", {{"x", safe}, {"axis", n.i(-1)}});
  return n.select(nowhere, n.f(0), p);
}

// The inputs that have a rank of their own.
void expect_ranks(OnnxCall& n) {
  const auto rank = [&](size_t i, int least, int most) {
    if (n.has(i) && (n.in(i)->type.rank() < least || n.in(i)->type.rank() > most))
      throw errorf("input {} has the wrong rank", i)
          .found(n.in(i)->type.text())
          .expected(least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most));
  };
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}}) rank(i, 3, 4);
  rank(3, 1, 4);
  rank(4, 4, 4);
  rank(5, 4, 4);
  rank(6, 1, 1);
}

void attention(OnnxCall& n) {
  expect_ranks(n);
  const bool flat = n.in(0)->type.rank() == 3;
  Value* q = by_heads(n, n.in(0), n.node.integer("q_num_heads", 0));
  Value* k = by_heads(n, n.in(1), n.node.integer("kv_num_heads", 0));
  Value* v = by_heads(n, n.in(2), n.node.integer("kv_num_heads", 0));
  Scores s;
  s.queries = n.dims(q).at(2);
  if (n.has(4)) {
    s.past = n.dims(n.in(4)).at(2);
    k = n.concat({n.in(4), k}, 2);
    v = n.concat({n.in(5), v}, 2);
  }
  s.keys = n.dims(k).at(2);
  if (n.has(6)) {
    Value* lengths = n.in(6);
    s.offset = n.sub(n.reshape(lengths, {n.dims(lengths).at(0), 1, 1, 1}), n.i(s.queries));
  }
  n.out(1, k, n.type(1));
  n.out(2, v, n.type(2));
  const int64_t heads = n.dims(q).at(1);
  const auto size = static_cast<float>(n.dims(q).at(3));
  const float scale = std::sqrt(n.node.attribute("scale") ? n.node.number("scale", 1) : 1 / std::sqrt(size));
  Value* wide_k = repeated(n, k, heads);
  Value* scores = n.matmul(n.mul(q, n.f(scale)), n.mul(wide_k, n.f(scale)), false, true);
  const int64_t mode = n.node.integer("qk_matmul_output_mode", 0);
  Value* shown = scores;
  if (const float cap = n.node.number("softcap", 0); cap > 0) {
    scores = n.mul(n.unary("tanh", n.div(scores, n.f(cap))), n.f(cap));
    if (mode == 1) shown = scores;
  }
  Value* bias = bias_of(n, s);
  if (bias) scores = n.add(scores, bias);
  if (mode == 2) shown = scores;
  Value* p = probabilities(n, scores, bias);
  if (mode == 3) shown = p;
  Value* y = n.matmul(p, repeated(n, v, heads));
  if (flat) {
    const std::vector<int64_t> d = n.dims(y);
    y = n.reshape(n.transpose(y, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
  }
  n.out(0, y, n.type(0));
  if (n.wants(3)) n.out(3, n.mul(shown, n.f(1)), n.type(0));
}

// Pairs of each head turned by the angles in the caches. `position_ids` is input 3; in com.microsoft's form input 1.
void rotate(OnnxCall& n, size_t cos_at, size_t sin_at, size_t position_at) {
  Value* x = n.in(0);
  const std::vector<int64_t> shape = n.dims(x);
  const bool four = shape.size() == 4;
  if ((!four && shape.size() != 3) || n.dims(n.in(cos_at)).empty() || n.dims(n.in(cos_at)).back() < 1)
    throw errorf("the shapes of the values and of their angles do not fit")
        .found(fmt::format("{} and {}", shape_text(shape), shape_text(n.dims(n.in(cos_at)))));
  int64_t heads = n.node.integer("num_heads", 0);
  int64_t turned = n.node.integer("rotary_embedding_dim", 0);
  if (!four && heads == 0 && turned == 0) heads = shape[2] / (2 * n.dims(n.in(cos_at)).back());
  if (!four && heads == 0) throw errorf("num_heads is missing");
  x = four ? n.transpose(x, {0, 2, 1, 3}) : n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  const int64_t size = n.dims(x).at(3);
  if (turned == 0) turned = size;
  const auto table = [&](size_t input) {
    Value* t = n.in(input);
    if (n.has(position_at)) {
      Value* at = n.in(position_at);
      if (at->type.rank() == 1) {  // one offset: positions follow each other
        std::vector<int64_t> steps;
        for (int64_t k = 0; k < n.dims(x).at(1); ++k) steps.push_back(k);
        at = n.expand(n.add(n.int_values(steps, {n.dims(x).at(1)}), at), {0});
      }
      t = n.op("gather", {{"x", t}, {"indices", at}, {"axis", n.i(0)}});
    }
    return n.expand(t, {2});
  };
  Value *cos = table(cos_at), *sin = table(sin_at);
  Value* part = turned == size ? x : n.slice(x, 3, 0, turned);
  Value *a = nullptr, *b = nullptr, *y = nullptr;
  const bool pairs = n.node.integer("interleaved", 0) != 0;
  const std::vector<int64_t> d = n.dims(part);
  if (pairs) {
    Value* split = n.reshape(part, {d[0], d[1], d[2], turned / 2, 2});
    a = n.squeeze(n.slice(split, 4, 0, 1), {4});
    b = n.squeeze(n.slice(split, 4, 1, 2), {4});
  } else {
    a = n.slice(part, 3, 0, turned / 2);
    b = n.slice(part, 3, turned / 2, turned);
  }
  Value* real = n.sub(n.mul(a, cos), n.mul(b, sin));
  Value* imaginary = n.add(n.mul(a, sin), n.mul(b, cos));
  if (pairs)
    y = n.reshape(n.concat({n.expand(real, {4}), n.expand(imaginary, {4})}, 4), d);
  else
    y = n.concat({real, imaginary}, 3);
  if (turned != size) y = n.concat({y, n.slice(x, 3, turned, size)}, 3);
  n.out(four ? n.transpose(y, {0, 2, 1, 3}) : n.reshape(y, shape));
}

void rotary(OnnxCall& n) { rotate(n, 1, 2, 3); }
void rotary_microsoft(OnnxCall& n) { rotate(n, 2, 3, 1); }

const OnnxOp kOps[] = {
    {"Attention", attention},
    {"RotaryEmbedding", rotary},
    {"RotaryEmbedding", rotary_microsoft, "com.microsoft"},
};

}  // namespace

std::span<const OnnxOp> onnx_attention() { return kOps; }

}  // namespace anemone::onnx_ops
