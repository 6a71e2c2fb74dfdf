// Attention over the cache, or over the tokens of the call where there is none.
#include <algorithm>

#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"
#include "lower/time_mix.h"

namespace anemone::lower {
namespace {

class AttentionBuilder {
 public:
  AttentionBuilder(Scope& scope, size_t layer, const Attention& attention)
      : s_(scope),
        b_(scope.builder()),
        a_(attention),
        layer_(layer),
        at_(fmt::format("l{}_", layer)),
        width_(scope.model().causal() ? cache_width(attention) : attention.head_dim) {}

  Value* build(Value* h, double factor) {
    auto [q, k, v] = a_.mix ? mix_over_time(s_, layer_, a_, h) : plain_heads(h);
    q = positioned(q, a_.qk_norm ? &a_.qk_norm->q : nullptr, "q");
    k = positioned(k, a_.qk_norm ? &a_.qk_norm->k : nullptr, "k");
    const auto layer = static_cast<int64_t>(layer_);
    s_.tap(q, "q", layer);
    s_.tap(k, "k", layer);
    s_.tap(v, "v", layer);
    // The query is scaled before the product, so that the scores stay in range.
    q = scale(b_, q, a_.scale, at_ + "q_scaled");
    const CachePair pair = s_.cache().empty() ? CachePair{k, v} : s_.cache().update(b_, layer_, k, v);
    Value* out = merge_heads(b_, attend(q, pair), a_.heads, a_.head_dim, at_ + "context_channels");
    return s_.project(out, a_.o, factor, at_ + "o");
  }

 private:
  MixedHeads plain_heads(Value* h) {
    MixedHeads out;
    out.q = heads_of(h, a_.q, a_.qk_norm ? &a_.qk_norm->q : nullptr, a_.heads, "q");
    out.k = heads_of(h, a_.k, a_.qk_norm ? &a_.qk_norm->k : nullptr, a_.kv_heads, "k");
    out.v = heads_of(h, a_.v, nullptr, a_.kv_heads, "v");
    return out;
  }

  Value* heads_of(Value* h, const Projection& p, const Norm* norm, int64_t heads, const std::string& name) {
    Value* x = s_.project(h, p, 1, at_ + name);
    if (norm && a_.qk_norm->over_width) x = s_.norm(x, *norm, 1, 1, at_ + name + "_norm");
    return split_heads(b_, x, heads, a_.head_dim, at_ + name + "_heads");
  }

  // Rotated, with a norm of the heads before or after.
  Value* positioned(Value* x, const Norm* norm, const std::string& name) {
    const bool of_heads = norm && !a_.qk_norm->over_width;
    if (of_heads && !a_.qk_norm->after_rope) x = s_.head_norm(x, *norm, at_ + name + "_norm");
    if (a_.qk_norm && norm == &a_.qk_norm->k && a_.qk_norm->k_gain)
      x = mul(b_, x,
              s_.weights().vector(b_, a_.qk_norm->k_gain, {1, a_.kv_heads, 1, 1}, 0, 1, at_ + "k_gain"),
              at_ + "k_gained");
    if (a_.rope)
      x = rotate(b_, x, s_.cos(*a_.rope), s_.sin(*a_.rope), s_.model().ropes[*a_.rope].dims,
                 at_ + name + "_rope");
    if (of_heads && a_.qk_norm->after_rope) {
      s_.list(x, name, static_cast<int64_t>(layer_));  // in case the norm is taken out
      x = s_.head_norm(x, *norm, at_ + name + "_norm");
    }
    return x;
  }

  // [1, heads, T, head_dim]
  Value* attend(Value* q, const CachePair& pair) {
    if (const int64_t block = block_size()) return attend_in_blocks(q, pair, block);
    const int64_t heads = a_.heads, kv = a_.kv_heads, columns = s_.columns();
    // Heads that share keys are folded into the rows: K and V are never repeated.
    q = reshape(b_, pad_last(b_, q, width_, at_ + "q_padded"), {1, kv, -1, width_}, at_ + "q_rows");
    const Constant no = Constant::boolean(false), yes = Constant::boolean(true);
    Value* scores = b_.op("matmul", {{"x", q}, {"y", pair.keys}, {"transpose_x", no}, {"transpose_y", yes}},
                          at_ + "scores");
    scores = reshape(b_, scores, {1, heads, -1, columns}, at_ + "scores_heads");
    if (a_.softcap > 0) scores = soft_cap(b_, scores, a_.softcap, at_ + "scores_capped");
    scores = add(b_, scores, s_.mask(a_.reach), at_ + "scores_masked");
    Value* p = probabilities(scores, a_.sinks ? sinks() : nullptr);
    p = reshape(b_, p, {1, kv, -1, columns}, at_ + "probability_rows");
    Value* out = b_.op("matmul", {{"x", p}, {"y", pair.values}, {"transpose_x", no}, {"transpose_y", no}},
                       at_ + "attended");
    if (width_ != a_.head_dim) out = slice_axis(b_, out, 3, 0, a_.head_dim, at_ + "attended_heads");
    return reshape(b_, out, {1, heads, -1, a_.head_dim}, at_ + "context");
  }

  // Tokens that look at a band of neighbors are cut into blocks that are as long as the band: each looks at itself and
  // at the blocks beside it, and not at the whole text. 0: there is no band, or the text is too short for it to pay.
  int64_t block_size() const {
    const int64_t tokens = s_.columns();
    if (a_.reach.kind != Reach::Kind::band || s_.spec().tokens.least != tokens || width_ != a_.head_dim)
      return 0;
    int64_t block = std::max<int64_t>(1, a_.reach.size);
    while (block < tokens && tokens % block != 0) ++block;
    return 2 * 3 * block <= tokens ? block : 0;
  }

  Value* attend_in_blocks(Value* q, const CachePair& pair, int64_t block) {
    const int64_t kv = a_.kv_heads, group = a_.heads / kv, blocks = s_.columns() / block, d = a_.head_dim;
    // Heads that share keys stand below each other in a block.
    q = reshape(b_, q, {kv, group, blocks, block * d}, at_ + "q_blocks");
    q = b_.op("transpose", {{"x", q}, {"perm", Constant::ints({0, 2, 1, 3})}}, at_ + "q_by_block");
    q = reshape(b_, q, {kv, blocks, group * block, d}, at_ + "q_rows");
    const Constant no = Constant::boolean(false), yes = Constant::boolean(true);
    Value* k = with_neighbors(pair.keys, block, at_ + "k");
    Value* scores =
        b_.op("matmul", {{"x", q}, {"y", k}, {"transpose_x", no}, {"transpose_y", yes}}, at_ + "scores");
    if (a_.softcap > 0) scores = soft_cap(b_, scores, a_.softcap, at_ + "scores_capped");
    scores = add(b_, scores, mask_in_blocks(block), at_ + "scores_masked");
    Value* p = probabilities(scores, a_.sinks ? sinks_in_blocks(block) : nullptr);
    Value* v = with_neighbors(pair.values, block, at_ + "v");
    Value* out =
        b_.op("matmul", {{"x", p}, {"y", v}, {"transpose_x", no}, {"transpose_y", no}}, at_ + "attended");
    out = reshape(b_, out, {kv, blocks, group, block * d}, at_ + "attended_blocks");
    out = b_.op("transpose", {{"x", out}, {"perm", Constant::ints({0, 2, 1, 3})}}, at_ + "attended_by_head");
    return reshape(b_, out, {1, a_.heads, -1, d}, at_ + "context");
  }

  // [1, kv, T, d] → [kv, blocks, 3 * block, d]: each block between the ones beside it. The first and the last stand
  // beside themselves, where the mask hides them.
  Value* with_neighbors(Value* x, int64_t block, const std::string& name) {
    const int64_t blocks = s_.columns() / block;
    x = reshape(b_, x, {a_.kv_heads, blocks, block, a_.head_dim}, name + "_blocks");
    const auto part = [&](int64_t begin, int64_t end, const char* what) {
      return slice_axis(b_, x, 1, begin, end, name + what);
    };
    Value* before = join(b_, {part(0, 1, "_first"), part(0, blocks - 1, "_but_last")}, 1, name + "_before");
    Value* behind =
        join(b_, {part(1, blocks, "_but_first"), part(blocks - 1, blocks, "_last")}, 1, name + "_behind");
    return join(b_, {before, x, behind}, 2, name + "_neighbors");
  }

  // [1, blocks, group * block, 3 * block] of the mask [1, 1, T, T]: what lies around its diagonal. All layers share it.
  Value* mask_in_blocks(int64_t block) {
    const int64_t blocks = s_.columns() / block, group = a_.heads / a_.kv_heads;
    Value* mask = s_.mask(a_.reach);
    const std::string name = fmt::format("{}_blocks_{}", mask->name, group);
    return s_.shared(name, [&] {
      const std::vector<float> hidden(static_cast<size_t>(block * block), kMaskedOut);
      Value* none = b_.constant(Constant::numbers(hidden, kHalf, {1, 1, block, block}), name + "_none");
      std::vector<Value*> rows;
      for (int64_t i = 0; i < blocks; ++i) {
        const std::string at = fmt::format("{}_{}", name, i);
        Value* row = slice_axis(b_, mask, 2, i * block, (i + 1) * block, at + "_rows");
        std::vector<Value*> parts;
        if (i == 0) parts.push_back(none);
        parts.push_back(slice_axis(b_, row, 3, std::max<int64_t>(0, i - 1) * block,
                                   std::min(blocks, i + 2) * block, at + "_seen"));
        if (i + 1 == blocks) parts.push_back(none);
        rows.push_back(parts.size() == 1 ? parts[0] : join(b_, parts, 3, at));
      }
      Value* all = join(b_, rows, 1, name + "_each");
      return group == 1 ? all : join(b_, std::vector<Value*>(static_cast<size_t>(group), all), 2, name);
    });
  }

  Value* sinks() { return s_.weights().vector(b_, a_.sinks, {1, a_.heads, 1, 1}, 0, 1, at_ + "sinks"); }

  // One for each row of a block: [kv, 1, group * block, 1].
  Value* sinks_in_blocks(int64_t block) {
    Value* x = reshape(b_, sinks(), {a_.kv_heads, 1, a_.heads / a_.kv_heads, 1}, at_ + "sinks_heads");
    x = join(b_, std::vector<Value*>(static_cast<size_t>(block), x), 3, at_ + "sinks_tokens");
    return reshape(b_, x, {a_.kv_heads, 1, -1, 1}, at_ + "sinks_rows");
  }

  // The softmax of scores; with a sink exp(s - m) / (sum of exp(s - m) + exp(sink - m)), m the largest of scores and
  // sink.
  Value* probabilities(Value* scores, Value* sinks) {
    if (!sinks)
      return b_.op("softmax", {{"x", scores}, {"axis", Constant::integer(-1)}}, at_ + "probabilities");
    const Constant axes = Constant::ints({3}), keep = Constant::boolean(true);
    Value* most =
        b_.op("reduce_max", {{"x", scores}, {"axes", axes}, {"keep_dims", keep}}, at_ + "scores_max");
    most = b_.op("maximum", {{"x", most}, {"y", sinks}}, at_ + "scores_most");
    Value* e = b_.op("exp", {{"x", b_.op("sub", {{"x", scores}, {"y", most}}, at_ + "scores_below")}},
                     at_ + "scores_exp");
    Value* sum = b_.op("reduce_sum", {{"x", e}, {"axes", axes}, {"keep_dims", keep}}, at_ + "scores_sum");
    Value* sink = b_.op("exp", {{"x", b_.op("sub", {{"x", sinks}, {"y", most}}, at_ + "sinks_below")}},
                        at_ + "sinks_exp");
    return b_.op("real_div", {{"x", e}, {"y", add(b_, sum, sink, at_ + "scores_total")}},
                 at_ + "probabilities");
  }

  Scope& s_;
  Builder& b_;
  const Attention& a_;
  size_t layer_;
  std::string at_;
  int64_t width_;  // of a row of keys
};

}  // namespace

Value* lower_block(Scope& scope, size_t layer, const Attention& attention, Value* h, double factor) {
  return AttentionBuilder(scope, layer, attention).build(h, factor);
}

}  // namespace anemone::lower
