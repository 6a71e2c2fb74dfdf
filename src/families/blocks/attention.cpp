#include "families/blocks/attention.h"

#include "families/weights.h"

namespace anemone {

std::vector<RecurrentShape> Attention::recurrent() const {
  if (!mix) return {};
  return {{mix->columns(), query_width() + key_width()}, {1, delayed_state_width()}};
}

void Attention::each_weight(WeightVisitor& visitor) const {
  const Extent::Factor size{head_dim, size_names::kHeadSize};
  const Extent query{{{heads, size_names::kHeads}, size}};
  const Extent key{{{kv_heads, size_names::kKeyHeads}, size}};
  visitor.projection("query weight", "query bias", q, query, visitor.hidden());
  visitor.projection("key weight", "key bias", k, key, visitor.hidden());
  if (mix) {
    const Extent half{{{key_width() / 2, "half of the values, {}"}}},
        channels{{{query_width() + key_width(), "{} channels of q and k"}}};
    visitor.projection("value weight", "value bias", v, half, visitor.hidden());
    visitor.projection("delayed value weight", "delayed value bias", mix->delayed, half, visitor.hidden());
    visitor.table("taps over time", mix->taps, channels, {{{mix->steps, "{} steps"}}});
    visitor.vector("bias of the taps", mix->tap_bias, channels);
    visitor.table("mix over time", mix->mix, channels, {{size, {mix->mix_steps, "{} steps"}}});
    visitor.vector("bias of the mix", mix->mix_bias, channels);
  } else {
    visitor.projection("value weight", "value bias", v, key, visitor.hidden());
  }
  visitor.projection("output projection", "output projection's bias", o, visitor.hidden(), query);
  if (qk_norm) {
    const bool wide = qk_norm->over_width;
    visitor.norm(wide ? "norm of the query" : "norm of the query heads", "bias of the query's norm",
                 qk_norm->q, wide ? query : Extent{{size}});
    visitor.norm(wide ? "norm of the key" : "norm of the key heads", "bias of the key's norm", qk_norm->k,
                 wide ? key : Extent{{size}});
  }
  if (qk_norm)
    visitor.vector("gain of the key heads", qk_norm->k_gain, {{{kv_heads, size_names::kKeyHeads}}});
  visitor.vector("attention sinks", sinks, {{{heads, size_names::kHeads}}});
}

}  // namespace anemone
