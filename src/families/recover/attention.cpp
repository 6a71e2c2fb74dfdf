// Attention: heads, scale, soft-cap, reach, sinks, norms of q and k. Operators that are an attention say most of it;
// what is written out operator by operator is asked with probes and then checked as a whole.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

constexpr int64_t kFarthest = int64_t{1} << 16;  // positions that a window is looked for in
constexpr double kHidden = -1e3;                 // what is added to scores that nobody shall see is below

struct Parts {
  HeadSource q, k, v;
  ValueId q_at = kNone;  // operands of the product of the scores
};

// The first operator of one of these kinds on the way back from a value.
const Op* find_behind(Context& c, ValueId value, std::initializer_list<std::string_view> types) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {value};
  for (size_t i = 0; i < open.size() && i < 4096; ++i) {  // breadth first: the nearest one
    const ValueId v = open[i];
    if (v == kNone || !seen.insert(v).second || c.graph.constant(v)) continue;
    const Op* op = c.graph.producer(v);
    if (!op || op->type == "Shape") continue;
    const bool weights =
        op->type == "MatMul" && c.graph.bundle().weights.constant(c.graph.name(op->input(1)));
    if (!weights && std::count(types.begin(), types.end(), op->type) > 0) return op;
    if (weights || op->type == "Gemm" || c.graph.bundle().weights.own(*op->node)) continue;
    for (const ValueId in : op->inputs) open.push_back(in);
  }
  return nullptr;
}

// Rows of the operand in order: the first row, and how many query heads share each group of rows.
struct Rows {
  int64_t begin = 0, heads = 0;  // different heads
};

Rows rows_of_heads(Context& c, const HeadSource& s, int64_t head_dim, ValueId operand) {
  const auto count = static_cast<int64_t>(s.channels.size());
  Rows out{s.channels.empty() ? 0 : s.channels[0], 0};
  if (head_dim < 1 || count % head_dim != 0) throw c.graph.unexpected(operand, "whole heads");
  std::set<int64_t> firsts;
  for (int64_t n = 0; n < count / head_dim; ++n) {
    const int64_t first = s.channels[static_cast<size_t>(n * head_dim)];
    for (int64_t d = 0; d < head_dim; ++d)
      if (s.channels[static_cast<size_t>(n * head_dim + d)] != first + d)
        throw c.graph.unexpected(operand, "heads whose rows lie one behind the other");
    firsts.insert(first);
  }
  out.heads = static_cast<int64_t>(firsts.size());
  const int64_t shared = count / head_dim / out.heads;
  for (int64_t n = 0; n < count / head_dim; ++n)
    if (s.channels[static_cast<size_t>(n * head_dim)] != out.begin + n / shared * head_dim)
      throw c.graph.unexpected(operand, "heads in order, each for as many query heads as the others");
  return out;
}

void set_norms(Context& c, Attention& a, const HeadSource& q, const HeadSource& k, ValueId at) {
  if (!q.norm && !k.norm) return;
  if (!q.norm || !k.norm || q.norm_after_rope != k.norm_after_rope)
    throw c.graph.unexpected(at, "norms of q and of k, both before or both behind the rotation");
  QkNorm norm;
  norm.q = q.norm->norm;
  norm.k = k.norm->norm;
  norm.after_rope = q.norm_after_rope;
  const int64_t size = norm.q.gain.rows();
  norm.over_width = size != a.head_dim;
  if (norm.over_width && (size != a.query_width() || norm.k.gain.rows() != a.key_width() || norm.after_rope))
    throw c.graph.unexpected(at, "norms of each head, or of all heads together before the rotation");
  a.qk_norm = norm;
}

void set_projections(Context& c, Attention& a, const Parts& parts, bool pairs, ValueId at) {
  const Rows q = rows_of_heads(c, parts.q, a.head_dim, at), k = rows_of_heads(c, parts.k, a.head_dim, at),
             v = rows_of_heads(c, parts.v, a.head_dim, at);
  if (q.heads != a.heads || k.heads != a.kv_heads || v.heads != a.kv_heads)
    throw c.graph.unexpected(
        at, fmt::format("{} query heads and {} heads of keys and values; there are {}, {} and {}", a.heads,
                        a.kv_heads, q.heads, k.heads, v.heads));
  if (pairs &&
      (a.qk_norm || c.ropes[*a.rope].dims != a.head_dim || q.begin % a.head_dim || k.begin % a.head_dim))
    throw c.graph.unexpected(at, "a rotation of pairs over whole heads, without norms of q and k");
  a.q = part_of(parts.q.linear.projection, q.begin, a.query_width(), pairs ? a.head_dim : 0);
  a.k = part_of(parts.k.linear.projection, k.begin, a.key_width(), pairs ? a.head_dim : 0);
  a.v = part_of(parts.v.linear.projection, v.begin, a.key_width());
}

ValueId shared_input(Context& c, const Parts& parts, ValueId at) {
  if (parts.k.linear.input != parts.q.linear.input || parts.v.linear.input != parts.q.linear.input)
    throw c.graph.unexpected(at, "queries, keys and values of the same value");
  return parts.q.linear.input;
}

// How far back the last of many tokens sees: an additive or true/false mask of one token behind `past` others.
Reach reach_of(Context& c, const Array& mask, bool truth, ValueId at) {
  const int64_t keys = mask.dims.empty() ? 0 : mask.dims.back();
  int64_t seen = 0;
  while (seen < keys) {
    const double v = mask.data[mask.data.size() - 1 - static_cast<size_t>(seen)];
    if (truth ? v == 0 : v < kHidden) break;
    ++seen;
  }
  for (int64_t i = seen; i < keys; ++i) {
    const double v = mask.data[mask.data.size() - 1 - static_cast<size_t>(i)];
    if (truth ? v != 0 : v >= kHidden)
      throw c.graph.unexpected(at, "a mask that ends at the token or at a window");
  }
  if (seen == 0) throw c.graph.unexpected(at, "a mask in which a token sees itself");
  return seen == keys ? Reach{} : Reach{Reach::Kind::window, seen};
}

int64_t far_past(const Context& c) { return std::clamp<int64_t>(c.context - 1, 8, kFarthest); }

// ---- GroupQueryAttention, and com.microsoft's Attention ----

void check_lengths(Context& c, const Op& op) {
  constexpr Probe kProbe{.tokens = 4, .past = 3};
  Evaluator e = evaluator(c, kProbe);
  const auto expect = [&](size_t input, double value, const char* what) {
    const Array& found = e.value(op.input(input));
    if (found.size() < 1 || found.data[0] != value)
      throw c.graph.unexpected(op.input(input), fmt::format("{}: {} for {} tokens behind {}", what, value,
                                                            kProbe.tokens, kProbe.past));
  };
  expect(5, kProbe.past + kProbe.tokens - 1, "the length of the text without its last token");
  expect(6, kProbe.past + kProbe.tokens, "the length of the text");
  if (op.input(9) != kNone) expect(9, kProbe.past, "the position of the first new token");
  e.claim(c.graph);
}

Parts split_packed(const HeadSource& all, int64_t queries, int64_t keys) {
  Parts out{all, all, all, kNone};
  const auto part = [&](HeadSource& s, int64_t begin, int64_t count) {
    s.channels = {all.channels.begin() + begin, all.channels.begin() + begin + count};
  };
  part(out.q, 0, queries);
  part(out.k, queries, keys);
  part(out.v, queries + keys, keys);
  return out;
}

void fused_norms(Context& c, Attention& a, const Op& op) {
  if (op.input(14) == kNone) return;
  QkNorm norm;
  for (const size_t i : {14, 15}) {
    const std::optional<WeightRef> gain = match_vector(c, op.input(i), a.head_dim);
    if (!gain) throw c.graph.unexpected(op, "constant gains of the norms of q and k");
    Norm& one = i == 14 ? norm.q : norm.k;
    one.gain = *gain;
    one.eps = op.node->number("qk_norm_epsilon", 1e-6f);
  }
  a.qk_norm = norm;
}

FoundBlock of_group_query(Context& c, const Op& op, const Linear& out) {
  const OnnxNode& node = *op.node;
  Attention a;
  a.heads = node.integer("num_heads", 0);
  a.kv_heads = node.integer("kv_num_heads", 0);
  if (a.heads < 1 || a.kv_heads < 1 || a.heads % a.kv_heads != 0)
    throw c.graph.unexpected(op, "a number of query heads that is a multiple of the number of KV heads");
  for (const size_t i : {12, 13})
    if (op.input(i) != kNone) throw c.graph.unexpected(op, "a cache that is not quantized");
  if (node.integer("smooth_softmax", 0) > 0) throw c.graph.unexpected(op, "a plain softmax");
  check_lengths(c, op);
  Parts parts;
  const bool packed = op.input(1) == kNone;
  const HeadSource first = trace_heads(c, op.input(0), "queries");
  const auto width = static_cast<int64_t>(first.channels.size());
  const int64_t all = packed ? a.heads + 2 * a.kv_heads : a.heads;
  if (width % all != 0) throw c.graph.unexpected(op, fmt::format("queries for {} heads", all));
  a.head_dim = width / all;
  if (packed)
    parts = split_packed(first, a.query_width(), a.key_width());
  else
    parts = {first, trace_heads(c, op.input(1), "keys"), trace_heads(c, op.input(2), "values"), op.input(0)};
  bool pairs = false;
  double counted = 1;
  if (node.integer("do_rotary", 0) != 0) {
    a.rope = rope_of_tables(c, op.input(7), op.input(8));
    pairs = node.integer("rotary_interleaved", 0) != 0;
  } else if (!packed) {
    if (const auto rotation = find_rotation(c, parts.q, op.input(0), a.head_dim)) {
      a.rope = rotation->rope;
      pairs = rotation->pairs;
      counted = rotation->counted;
    }
  }
  set_norms(c, a, parts.q, parts.k, op.output());
  fused_norms(c, a, op);
  set_projections(c, a, parts, pairs, op.output());
  const double scale = node.number("scale", 0);
  a.scale = (scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.head_dim))) * parts.q.factor *
            parts.k.factor / (counted * counted);
  a.softcap = node.number("softcap", 0);
  if (const int64_t window = node.integer("local_window_size", -1); window > 0)
    a.reach = {Reach::Kind::window, window};
  if (op.input(10) != kNone) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = far_past(c)});
    const Reach bias = reach_of(c, e.value(op.input(10)), false, op.input(10));
    if (bias.kind == Reach::Kind::window) a.reach = bias;
    e.claim(c.graph);
  }
  if (op.input(11) != kNone) {
    const std::optional<WeightRef> sinks = match_vector(c, op.input(11), a.heads);
    if (!sinks) throw c.graph.unexpected(op, "one constant sink for each query head");
    a.sinks = *sinks;
  }
  a.o = out.projection;
  c.graph.claim(op);
  return {shared_input(c, parts, op.output()), a};
}

// input, weights [in, 3 * width], bias, mask, past: of GPT-2's days. All heads alike, and no rotation.
FoundBlock of_packed_attention(Context& c, const Op& op, const Linear& out) {
  const OnnxNode& node = *op.node;
  Attention a;
  a.heads = a.kv_heads = node.integer("num_heads", 0);
  const std::optional<OnnxMatrix> matrix = c.graph.weight(op.input(1));
  if (!matrix || node.integer("unidirectional", 0) != 1 || node.integer("do_rotary", 0) != 0 ||
      node.attribute("qkv_hidden_sizes") || op.input(5) != kNone)
    throw c.graph.unexpected(op, "constant weights, unidirectional 1, no rotation, no bias of the scores");
  const std::vector<int64_t>& shape = c.checkpoint.tensor(matrix->tensor).shape();
  if (shape.size() != 2 || matrix->transposed || a.heads < 1 || shape[1] % (3 * a.heads) != 0)
    throw c.graph.unexpected(op, "weights [in, 3 * heads * head size]");
  Projection all{{matrix->tensor, 0, shape[1], shape[0]}, {}};
  all.weight.transposed = true;
  if (op.input(2) != kNone) {
    const std::optional<WeightRef> bias = match_vector(c, op.input(2), shape[1]);
    if (!bias) throw c.graph.unexpected(op, "a constant bias");
    all.bias = *bias;
  }
  a.head_dim = shape[1] / 3 / a.heads;
  a.q = part_of(all, 0, a.query_width());
  a.k = part_of(all, a.query_width(), a.key_width());
  a.v = part_of(all, 2 * a.query_width(), a.key_width());
  a.o = out.projection;
  const double scale = node.number("scale", 0);
  a.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.head_dim));
  c.graph.claim(op);
  return {c.graph.through(op.input(0)), a};
}

// ---- MultiHeadAttention and ONNX's Attention ----

FoundBlock finished(Context& c, Attention a, const Parts& parts, ValueId heads_out, const Linear& out) {
  bool pairs = false;
  double counted = 1;
  if (const auto rotation = find_rotation(c, parts.q, parts.q_at, a.head_dim)) {
    a.rope = rotation->rope;
    pairs = rotation->pairs;
    counted = rotation->counted;
  }
  a.scale *= parts.q.factor * parts.k.factor / (counted * counted);
  set_norms(c, a, parts.q, parts.k, heads_out);
  set_projections(c, a, parts, pairs, heads_out);
  a.o = out.projection;
  if (!pairs) check_attention(c, a, {parts.q, parts.k, parts.v, counted, out.input});
  return {shared_input(c, parts, heads_out), a};
}

FoundBlock of_attention_operator(Context& c, const Op& op, const Linear& out) {
  const OnnxNode& node = *op.node;
  const bool ms = op.type == "ms.MultiHeadAttention";
  if (ms && (op.input(1) == kNone || op.input(3) != kNone || op.input(4) != kNone))
    throw c.graph.unexpected(op, "separate queries, keys and values, without a bias or a padding mask");
  Parts parts{trace_heads(c, op.input(0), "queries"), trace_heads(c, op.input(1), "keys"),
              trace_heads(c, op.input(2), "values"), op.input(0)};
  Attention a;
  Evaluator one = evaluator(c, {.tokens = 1, .past = 0});
  const std::vector<int64_t> q = one.dims(op.input(0)), k = one.dims(op.input(1));
  a.heads = q.size() == 4 ? q[1] : node.integer(ms ? "num_heads" : "q_num_heads", 0);
  if (a.heads < 1 || parts.q.channels.size() % static_cast<size_t>(a.heads) != 0)
    throw c.graph.unexpected(op, "a number of heads that divides the queries");
  a.head_dim = static_cast<int64_t>(parts.q.channels.size()) / a.heads;
  a.kv_heads = rows_of_heads(c, parts.k, a.head_dim, op.input(1)).heads;
  const double scale = node.number("scale", 0);
  a.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.head_dim));
  a.softcap = ms ? 0 : node.number("softcap", 0);
  if (const ValueId mask = op.input(ms ? 5 : 3); mask != kNone) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = far_past(c)});
    const Array& values = e.value(mask);
    a.reach = reach_of(c, values, values.whole, mask);
    e.claim(c.graph);
  }
  c.graph.claim(op);
  return finished(c, a, parts, op.output(), out);
}

// ---- a softmax between two products ----

// How the product of q and k becomes what the softmax takes: a factor, and perhaps a soft-cap.
void set_scores(Context& c, Attention& a, ValueId product, ValueId scores) {
  const auto at = [&](double x) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
    e.set(product, Array::filled({1, a.heads, 1, 1}, x));
    const Array& y = e.value(scores);
    e.claim(c.graph);
    return y.data.at(0);
  };
  constexpr double kSmall = 1e-3;
  const double slope = at(kSmall) / kSmall, far = at(1e7);
  if (!(slope > 0)) throw c.graph.unexpected(scores, "scores that grow with the product of q and k");
  a.scale = slope;
  if (std::abs(far / 1e7 - slope) <= 1e-4 * slope) return;
  a.softcap = far;
  const double x = far / slope, middle = far * std::tanh(1.0);
  if (!(std::abs(at(x) - middle) <= 1e-3 * middle))
    throw c.graph.unexpected(scores, "scores with a factor, and perhaps a soft-cap");
  a.softcap = std::abs(far - std::round(far)) < 1e-3 ? std::round(far) : far;
}

FoundBlock of_softmax(Context& c, const Op& softmax, const Linear& out) {
  const Op* sum = find_behind(c, out.input, {"MatMul"});
  const Op* product = find_behind(c, softmax.input(0), {"MatMul"});
  if (!sum || !product || sum == product || find_behind(c, sum->input(0), {"Softmax"}) != &softmax)
    throw c.graph.unexpected(softmax, "a softmax between a product of q and k and a sum of values");
  Parts parts{trace_heads(c, product->input(0), "queries"), trace_heads(c, product->input(1), "keys"),
              trace_heads(c, sum->input(1), "values"), product->input(0)};
  Attention a;
  Evaluator one = evaluator(c, {.tokens = 1, .past = 0});
  const std::vector<int64_t> dims = one.dims(product->input(0));
  if (dims.size() != 4 || dims[0] != 1)
    throw c.graph.unexpected(*product, "queries [batch, heads, tokens, head size]");
  a.heads = dims[1];
  a.head_dim = dims[3];
  a.kv_heads = rows_of_heads(c, parts.k, a.head_dim, product->input(1)).heads;
  set_scores(c, a, product->output(), softmax.input(0));
  Evaluator e = evaluator(c, {.tokens = 1, .past = far_past(c)});
  e.set(product->output(), Array::filled({1, a.heads, 1, far_past(c) + 1}, 0));
  a.reach = reach_of(c, e.value(softmax.input(0)), false, softmax.input(0));
  e.claim(c.graph);
  return finished(c, a, parts, sum->output(), out);
}

}  // namespace

std::optional<FoundBlock> match_attention(Context& c, const Linear& out) {
  const Op* op = find_behind(c, out.input,
                             {"ms.GroupQueryAttention", "ms.MultiHeadAttention", "Attention", "ms.Attention",
                              "Softmax", "ms.PagedAttention", "ms.SparseAttention",
                              "ms.DecoderMaskedMultiHeadAttention", "ms.PackedMultiHeadAttention"});
  if (!op) return std::nullopt;
  if (op->type == "ms.GroupQueryAttention") return of_group_query(c, *op, out);
  if (op->type == "ms.Attention") return of_packed_attention(c, *op, out);
  if (op->type == "ms.MultiHeadAttention" || op->type == "Attention")
    return of_attention_operator(c, *op, out);
  if (op->type == "Softmax") return of_softmax(c, *op, out);
  throw c.graph.unexpected(
      *op, "GroupQueryAttention, MultiHeadAttention, Attention, or a softmax between two products");
}

}  // namespace anemone::recover
