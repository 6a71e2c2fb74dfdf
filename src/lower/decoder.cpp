#include "lower/decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/error.h"
#include "lower/attention.h"
#include "lower/blocks.h"

namespace anemone::lower {
namespace {

class LayersBuilder {
 public:
  LayersBuilder(Program& program, const std::string& name, const Model& model, Weights& weights,
                const LayersSpec& spec)
      : model_(model), weights_(weights), spec_(spec), f_(add_function(program, name, spec.opset)) {}

  // `finish` makes the outputs from what the layers give.
  Function& build(const std::function<void(Builder& b, Value* y)>& finish) {
    declare();
    Cache cache(f_, model_, spec_);
    Builder b(f_);
    cache.begin(b, write_, position_);
    Value* x = x_;
    for (size_t i = spec_.first; i < spec_.last; ++i) {
      x = attention(b, cache, i, x);
      x = mlp(b, i, x);
    }
    finish(b, spec_.final_norm ? norm(b, x, model_.final_norm, spec_.residual_scale, "y")
                               : b.op("identity", {{"x", x}}, "y"));
    cache.end(b);
    return f_;
  }

 private:
  void declare() {
    const Dim tokens = spec_.tokens.dim();
    x_ = add_input(f_, "x", Type::tensor(kHalf, {1, model_.hidden, tokens, 1}));
    std::set<size_t> ropes;
    bool full = false, local = false;
    for (size_t i = spec_.first; i < spec_.last; ++i) {
      ropes.insert(model_.layers[i].rope);
      (model_.layers[i].window ? local : full) = true;
    }
    cos_.resize(model_.ropes.size());
    sin_.resize(model_.ropes.size());
    for (const size_t r : ropes) {
      const Type type = Type::tensor(kHalf, {1, 1, tokens, model_.ropes[r].dims / 2});
      cos_[r] = add_input(f_, rope_name("cos", r), type);
      sin_[r] = add_input(f_, rope_name("sin", r), type);
    }
    const Type mask = Type::tensor(kHalf, {1, 1, tokens, spec_.context});
    if (full) mask_ = add_input(f_, "mask", mask);
    if (local) local_mask_ = add_input(f_, "mask_local", mask);
    if (spec_.write == KvWrite::mask)
      write_ = add_input(f_, "write", Type::tensor(kHalf, {1, 1, spec_.context, tokens}));
    else
      position_ = add_input(f_, "position", Type::tensor(DType::int32, {1}));
  }

  // A norm over the channels; `stream` scales x, and so eps.
  Value* norm(Builder& b, Value* x, const WeightRef& ref, double stream, const std::string& name) {
    Value* gain = weights_.vector(b, ref, {1, model_.hidden, 1, 1}, model_.norm_offset, 1, name + "_gain");
    return rms_norm(b, x, {.axis = 1, .gain = gain, .eps = model_.norm_eps * stream * stream}, name);
  }

  Value* project(Builder& b, Value* x, const WeightRef& weight, const WeightRef& bias, double factor,
                 const std::string& name) {
    Value* w = weights_.projection(b, weight, factor, name + "_weight");
    Value* c = bias ? weights_.vector(b, bias, {weight.rows()}, 0, factor, name + "_bias") : nullptr;
    return conv1x1(b, x, w, c, name);
  }

  // A norm of each head of q or k.
  Value* head_norm(Builder& b, Value* x, const WeightRef& ref, const std::string& name) {
    Value* gain = weights_.vector(b, ref, {1, 1, 1, model_.head_dim}, model_.norm_offset, 1, name + "_gain");
    return rms_norm(b, x, {.axis = 3, .gain = gain, .eps = model_.norm_eps}, name);
  }

  // Rotated, with the model's norm of heads before or after.
  Value* positioned(Builder& b, Value* x, const Layer& layer, const WeightRef& ref, const std::string& name) {
    if (model_.head_norm == HeadNorm::before_rope) x = head_norm(b, x, ref, name + "_norm");
    x = rotate(b, x, cos_[layer.rope], sin_[layer.rope], model_.ropes[layer.rope].dims, name + "_rope");
    if (model_.head_norm == HeadNorm::after_rope) x = head_norm(b, x, ref, name + "_norm");
    return x;
  }

  Value* attention(Builder& b, Cache& cache, size_t i, Value* x) {
    const Layer& layer = model_.layers[i];
    const std::string at = fmt::format("l{}_", i);
    const int64_t heads = model_.heads, kv = model_.kv_heads, dim = model_.head_dim,
                  width = cache_width(model_);
    Value* h = norm(b, x, layer.attention_norm, spec_.residual_scale, at + "attn_norm");
    Value* q = split_heads(b, project(b, h, layer.q, layer.q_bias, 1, at + "q"), heads, dim, at + "q_heads");
    Value* k = split_heads(b, project(b, h, layer.k, layer.k_bias, 1, at + "k"), kv, dim, at + "k_heads");
    Value* v = split_heads(b, project(b, h, layer.v, layer.v_bias, 1, at + "v"), kv, dim, at + "v_heads");
    q = positioned(b, q, layer, layer.q_norm, at + "q");
    k = positioned(b, k, layer, layer.k_norm, at + "k");
    // The query is scaled before the product, so that the scores stay in range.
    q = scale(b, q, model_.query_scale, at + "q_scaled");
    const CachePair pair = cache.update(b, i, k, v);
    // Heads that share keys are folded into the rows: K and V are never repeated.
    q = reshape(b, pad_last(b, q, width, at + "q_padded"), {1, kv, -1, width}, at + "q_rows");
    const Constant no = Constant::boolean(false), yes = Constant::boolean(true);
    Value* scores = b.op("matmul", {{"x", q}, {"y", pair.keys}, {"transpose_x", no}, {"transpose_y", yes}},
                         at + "scores");
    scores = reshape(b, scores, {1, heads, -1, spec_.context}, at + "scores_heads");
    if (model_.attention_softcap > 0)
      scores = soft_cap(b, scores, model_.attention_softcap, at + "scores_capped");
    scores = add(b, scores, layer.window ? local_mask_ : mask_, at + "scores_masked");
    Value* p = b.op("softmax", {{"x", scores}, {"axis", Constant::integer(-1)}}, at + "probabilities");
    p = reshape(b, p, {1, kv, -1, spec_.context}, at + "probability_rows");
    Value* out = b.op("matmul", {{"x", p}, {"y", pair.values}, {"transpose_x", no}, {"transpose_y", no}},
                      at + "attended");
    if (width != dim) out = slice_axis(b, out, 3, 0, dim, at + "attended_heads");
    out = reshape(b, out, {1, heads, -1, dim}, at + "context");
    out = merge_heads(b, out, heads, dim, at + "context_channels");
    return merge(b, x, out, layer.o, layer.o_bias, layer.post_attention_norm, at + "o", at + "attn_out");
  }

  Value* activate(Builder& b, Value* x, const std::string& name) {
    switch (model_.activation) {
      case Activation::silu:  // as sigmoid and product: the fused form has left the device
        return mul(b, x, b.op("sigmoid", {{"x", x}}, name + "_sigmoid"), name);
      case Activation::gelu_tanh:
        return b.op("gelu", {{"x", x}, {"mode", Constant::text("TANH_APPROXIMATION")}}, name);
      case Activation::gelu: return b.op("gelu", {{"x", x}, {"mode", Constant::text("EXACT")}}, name);
    }
    return x;
  }

  Value* mlp(Builder& b, size_t i, Value* x) {
    const Layer& layer = model_.layers[i];
    const std::string at = fmt::format("l{}_", i);
    Value* h = norm(b, x, layer.mlp_norm, spec_.residual_scale, at + "mlp_norm");
    Value* gate = activate(b, project(b, h, layer.gate, layer.gate_bias, 1, at + "gate"), at + "gate_act");
    Value* up = project(b, h, layer.up, layer.up_bias, 1, at + "up");
    return merge(b, x, mul(b, gate, up, at + "gated"), layer.down, layer.down_bias, layer.post_mlp_norm,
                 at + "down", at + "mlp_out");
  }

  // x + the projection of h, normalised first where the model does. The writer carries the residual scale also
  // before a norm, which takes it out again: what the projection gives may leave fp16's range as well.
  Value* merge(Builder& b, Value* x, Value* h, const WeightRef& weight, const WeightRef& bias,
               const WeightRef& post, const std::string& name, const std::string& sum) {
    const double stream = spec_.residual_scale;
    Value* y = project(b, h, weight, bias, stream, name);
    if (post) {
      Value* gain =
          weights_.vector(b, post, {1, model_.hidden, 1, 1}, model_.norm_offset, stream, name + "_post_gain");
      y = rms_norm(b, y, {.axis = 1, .gain = gain, .eps = model_.norm_eps * stream * stream}, name + "_post");
    }
    return add(b, x, y, sum);
  }

  const Model& model_;
  Weights& weights_;
  const LayersSpec& spec_;
  Function& f_;
  Value *x_ = nullptr, *mask_ = nullptr, *local_mask_ = nullptr, *write_ = nullptr, *position_ = nullptr;
  std::vector<Value*> cos_, sin_;
};

// The first of the best rows as two half numbers, high * 128 + low, without an integer in sight.
void add_argmax(Builder& b, Value* logits, int64_t rows, int64_t piece) {
  std::vector<float> high, low;
  for (int64_t i = 0; i < rows; ++i) {
    high.push_back(static_cast<float>(i / kIndexBase));
    low.push_back(static_cast<float>(i % kIndexBase));
  }
  const auto name = [&](const char* what) { return fmt::format("{}_{}", what, piece); };
  const Constant axes = Constant::ints({1}), keep = Constant::boolean(true);
  const Shape column{1, rows, 1, 1};
  Value* highs = b.constant(Constant::numbers(high, kHalf, column), name("row_high"));
  Value* lows = b.constant(Constant::numbers(low, kHalf, column), name("row_low"));
  Value* best = b.op("reduce_max", {{"x", logits}, {"axes", axes}, {"keep_dims", keep}}, name("best"));
  Value* is_best = b.op("greater_equal", {{"x", logits}, {"y", best}}, name("is_best"));
  // How far each is from the best: 0 for the best, and of the full shape, since coremltools lets `select` take its
  // shape from its values alone.
  Value* gap = b.op("sub", {{"x", best}, {"y", logits}}, name("gap"));
  const auto least = [&](Value* where, Value* numbers, const char* what) {
    Value* far = b.op("select", {{"cond", where}, {"a", gap}, {"b", half(60000)}}, name(what) + "_far");
    Value* candidates = add(b, far, numbers, name(what) + "_candidates");
    return b.op("reduce_min", {{"x", candidates}, {"axes", axes}, {"keep_dims", keep}}, name(what));
  };
  Value* first_high = least(is_best, highs, "high");
  Value* in_high =
      b.op("logical_and",
           {{"x", is_best}, {"y", b.op("equal", {{"x", highs}, {"y", first_high}}, name("same_high"))}},
           name("in_high"));
  Value* first_low = least(in_high, lows, "low");
  for (Value* value : {best, first_high, first_low}) b.output(value);
}

// Rows of the head as convolutions of at most spec.piece_rows, each with its outputs.
void add_head(Builder& b, Value* y, const Model& model, Weights& weights, const HeadSpec& spec) {
  int64_t piece = 0;
  for (int64_t row = spec.first_row; row < spec.last_row; row += spec.piece_rows, ++piece) {
    WeightRef ref = model.lm_head;
    ref.row_begin = model.lm_head.row_begin + row;
    ref.row_end = model.lm_head.row_begin + std::min(row + spec.piece_rows, spec.last_row);
    Value* w = weights.projection(b, ref, 1, fmt::format("head_{}_weight", piece));
    const bool capped = model.logit_softcap > 0;
    Value* logits = conv1x1(b, y, w, nullptr, fmt::format("{}_{}", capped ? "raw" : "logits", piece));
    if (capped) logits = soft_cap(b, logits, model.logit_softcap, fmt::format("logits_{}", piece));
    if (spec.argmax)
      add_argmax(b, logits, ref.rows(), piece);
    else
      b.output(logits);
  }
}

}  // namespace

int64_t cache_width(const Model& model) { return (model.head_dim + 31) / 32 * 32; }

std::string rope_name(const char* which, size_t rope) {
  return rope == 0 ? which : fmt::format("{}_{}", which, rope);
}

Function& build_layers(Program& program, const std::string& name, const Model& model, Weights& weights,
                       const LayersSpec& spec) {
  ANEMONE_CHECK(spec.first < spec.last && spec.last <= model.layers.size());
  return LayersBuilder(program, name, model, weights, spec).build([](Builder& b, Value* y) { b.output(y); });
}

Function& build_head(Program& program, const std::string& name, const Model& model, Weights& weights,
                     const HeadSpec& spec) {
  Function& f = add_function(program, name, spec.opset);
  Value* y = add_input(f, "y", Type::tensor(kHalf, {1, model.hidden, spec.tokens.dim(), 1}));
  Builder b(f);
  add_head(b, y, model, weights, spec);
  return f;
}

Function& build_whole(Program& program, const std::string& name, const Model& model, Weights& weights,
                      const LayersSpec& layers, const HeadSpec& head) {
  ANEMONE_CHECK(layers.first < layers.last && layers.last <= model.layers.size() && layers.final_norm);
  return LayersBuilder(program, name, model, weights, layers).build([&](Builder& b, Value* y) {
    add_head(b, y, model, weights, head);
  });
}

}  // namespace anemone::lower
