#include "families/blocks/experts.h"

#include "families/weights.h"

namespace anemone {

// The router stays in fp16 whatever the other weights are stored in: a small error there picks another expert. So does
// what says how much a shared expert counts: it is small, and a whole expert hangs on it.
void Experts::each_weight(WeightVisitor& v) const {
  const auto small = [&v](std::string_view role, std::string_view bias_role, const Projection& p,
                          const Extent& rows, const Extent& columns) {
    v.table(role, p.weight, rows, columns);
    v.vector(bias_role, p.bias, rows);
  };
  const Extent all{{{choices(), "{} choices of the router"}}};
  if (const auto& n = router.network) {
    const Extent inner{{{n->width, "router size {}"}}};
    small("router's input", "bias of the router's input", n->down, inner, v.hidden());
    v.vector("what the router takes over from the layer before", n->carry, inner);
    v.norm("norm of the router", "bias of the router's norm", n->norm, inner);
    small("router's first layer", "bias of the router's first layer", n->first, inner, inner);
    small("router's second layer", "bias of the router's second layer", n->second, inner, inner);
    small("router", "router's bias", router.logits, all, inner);
  } else {
    small("router", "router's bias", router.logits, all, v.hidden());
  }
  v.vector("bias of the router's choice", router.choice_bias, all);
  for (const GatedMlp& expert : experts) expert.each_weight(v);
  if (!shared) return;
  const Extent wide{{{shared->mlp.width, size_names::kSharedExpert}}};
  v.projection("gate weight of the shared expert", "gate bias of the shared expert", shared->mlp.gate, wide,
               v.hidden());
  v.projection("up weight of the shared expert", "up bias of the shared expert", shared->mlp.up, wide,
               v.hidden());
  v.projection("down weight of the shared expert", "down bias of the shared expert", shared->mlp.down,
               v.hidden(), wide);
  small("share of the shared expert", "bias of the shared expert's share", shared->share,
        Extent{{{1, "{} share"}}}, v.hidden());
}

std::vector<Projection*> Experts::sensitive() {
  std::vector<Projection*> out;
  for (GatedMlp& expert : experts) out.push_back(&expert.down);
  if (shared) out.push_back(&shared->mlp.down);
  return out;
}

}  // namespace anemone
