#include "lower/time_mix.h"

#include "base/error.h"
#include "lower/ops.h"

namespace anemone::lower {
namespace {

class TimeMixBuilder {
 public:
  TimeMixBuilder(Scope& scope, size_t layer, const Attention& attention)
      : s_(scope),
        b_(scope.builder()),
        a_(attention),
        mix_(*attention.mix),
        layer_(layer),
        at_(fmt::format("l{}_", layer)) {}

  MixedHeads build(Value* h) {
    Value* q = s_.project(h, a_.q, 1, at_ + "q");
    Value* k = s_.project(h, a_.k, 1, at_ + "k");
    Value* mixed = convolved(join(b_, {q, k}, 1, at_ + "mix_in"));
    MixedHeads out = means(split_heads(b_, q, a_.heads, a_.head_dim, at_ + "q_heads"),
                           split_heads(b_, k, a_.kv_heads, a_.head_dim, at_ + "k_heads"));
    const int64_t query = a_.query_width(), all = query + a_.key_width();
    Value* q_mixed = slice_axis(b_, mixed, 1, 0, query, at_ + "q_mixed");
    Value* k_mixed = slice_axis(b_, mixed, 1, query, all, at_ + "k_mixed");
    q_mixed = split_heads(b_, q_mixed, a_.heads, a_.head_dim, at_ + "q_mixed_heads");
    k_mixed = split_heads(b_, k_mixed, a_.kv_heads, a_.head_dim, at_ + "k_mixed_heads");
    out.q = add(b_, q_mixed, out.q, at_ + "q_sum");
    out.k = add(b_, k_mixed, out.k, at_ + "k_sum");
    out.v = values(h);
    return out;
  }

 private:
  // What a state of that width holds and the tokens of the call, one behind the other; the state moves on.
  Value* columns(Value* fresh, size_t slot, int64_t width, const std::string& name) {
    RecurrentStates& states = s_.recurrent();
    Value* old = states.read(b_, layer_, slot);
    fresh = pad_last(b_, turned(b_, fresh, name + "_new"), width, name + "_padded");
    Value* all = join(b_, {old, fresh}, 2, name);
    states.write(b_, layer_, slot, states.last_columns(b_, layer_, slot, all));
    return all;
  }

  Value* convolved(Value* z) {
    const int64_t width = a_.query_width() + a_.key_width();
    Weights& w = s_.weights();
    Value* x = turned(b_, columns(z, 0, width, at_ + "mix_columns"), at_ + "mix_channels");
    Value* taps = w.vector(b_, mix_.taps, {width, 1, mix_.steps, 1}, 0, 1, at_ + "taps");
    Value* tap_bias = w.vector(b_, mix_.tap_bias, {width}, 0, 1, at_ + "tap_bias");
    x = conv_over_time(b_, x, taps, tap_bias, width, at_ + "tapped");
    Value* mix = w.vector(b_, mix_.mix, {width, a_.head_dim, mix_.mix_steps, 1}, 0, 1, at_ + "mix");
    Value* mix_bias = w.vector(b_, mix_.mix_bias, {width}, 0, 1, at_ + "mix_bias");
    return conv_over_time(b_, x, mix, mix_bias, a_.heads + a_.kv_heads, at_ + "mixed");
  }

  // Half of the sum of every query head and its KV head, and of these the mean for the KV head.
  MixedHeads means(Value* q, Value* k) {
    const int64_t shared = a_.heads / a_.kv_heads;
    std::vector<Value*> queries, keys;
    for (int64_t g = 0; g < a_.kv_heads; ++g) {
      const std::string at = fmt::format("{}group_{}_", at_, g);
      Value* own = slice_axis(b_, q, 1, g * shared, (g + 1) * shared, at + "q");
      Value* key = slice_axis(b_, k, 1, g, g + 1, at + "k");
      queries.push_back(scale(b_, add(b_, own, key, at + "sum"), 0.5, at + "mean"));
      keys.push_back(b_.op(
          "reduce_mean",
          {{"x", queries.back()}, {"axes", Constant::ints({1})}, {"keep_dims", Constant::boolean(true)}},
          at + "key_mean"));
    }
    if (a_.kv_heads == 1) return {queries[0], keys[0], nullptr};
    MixedHeads out;
    out.q = join(b_, queries, 1, at_ + "q_means");
    out.k = join(b_, keys, 1, at_ + "k_means");
    return out;
  }

  Value* values(Value* h) {
    Value* now = s_.project(h, a_.v, 1, at_ + "v");
    Value* next = s_.project(h, mix_.delayed, 1, at_ + "v_delayed");
    Value* all = columns(next, 1, a_.delayed_state_width(), at_ + "v_columns");
    Value* before = slice_axis(b_, all, 2, 0, s_.spec().tokens.most, at_ + "v_before");
    const int64_t half = a_.key_width() / 2;
    if (half != a_.delayed_state_width())
      before = slice_axis(b_, before, 3, 0, half, at_ + "v_before_values");
    Value* both = join(b_, {now, turned(b_, before, at_ + "v_before_channels")}, 1, at_ + "v_both");
    return split_heads(b_, both, a_.kv_heads, a_.head_dim, at_ + "v_heads");
  }

  Scope& s_;
  Builder& b_;
  const Attention& a_;
  const TimeMix& mix_;
  size_t layer_;
  std::string at_;
};

}  // namespace

MixedHeads mix_over_time(Scope& scope, size_t layer, const Attention& attention, Value* h) {
  return TimeMixBuilder(scope, layer, attention).build(h);
}

}  // namespace anemone::lower
