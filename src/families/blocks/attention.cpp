#include "families/blocks/attention.h"

#include "families/weights.h"

namespace anemone {

void Attention::each_weight(WeightVisitor& visitor) const {
  const Extent::Factor size{head_dim, size_names::kHeadSize};
  const Extent query{{{heads, size_names::kHeads}, size}};
  const Extent key{{{kv_heads, size_names::kKeyHeads}, size}};
  visitor.projection("query weight", "query bias", q, query, visitor.hidden());
  visitor.projection("key weight", "key bias", k, key, visitor.hidden());
  visitor.projection("value weight", "value bias", v, key, visitor.hidden());
  visitor.projection("output projection", "output projection's bias", o, visitor.hidden(), query);
  if (qk_norm) {
    const bool wide = qk_norm->over_width;
    visitor.norm(wide ? "norm of the query" : "norm of the query heads", "bias of the query's norm",
                 qk_norm->q, wide ? query : Extent{{size}});
    visitor.norm(wide ? "norm of the key" : "norm of the key heads", "bias of the key's norm", qk_norm->k,
                 wide ? key : Extent{{size}});
  }
  visitor.vector("attention sinks", sinks, {{{heads, size_names::kHeads}}});
}

}  // namespace anemone
