// QMoE and MoE: experts in one operator.
#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {

std::optional<FoundBlock> match_experts(Context& c, ValueId value) {
  const Op* op = c.graph.producer(c.graph.through(value));
  if (!op || (op->type != "ms.QMoE" && op->type != "ms.MoE")) return std::nullopt;
  throw c.graph.unexpected(*op, "attention or an MLP; experts in one operator are not supported");
}

}  // namespace anemone::recover
