// Logits: softcap(scale * (W x + b)).
#include <cmath>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

// c * tanh(x / c): gives x and c.
std::optional<std::pair<ValueId, double>> match_softcap(Context& c, ValueId value) {
  const Op* outer = c.graph.producer(value);
  if (!outer || outer->type != "Mul") return std::nullopt;
  for (const size_t side : {0, 1}) {
    const std::optional<double> cap = c.graph.scalar(outer->input(1 - side));
    const Op* tanh = c.graph.producer(c.graph.through(outer->input(side)));
    if (!cap || !tanh || tanh->type != "Tanh") continue;
    const Op* inner = c.graph.producer(c.graph.through(tanh->input(0)));
    if (!inner || (inner->type != "Div" && inner->type != "Mul")) continue;
    const std::optional<double> factor = c.graph.scalar(inner->input(1));
    const double found = factor && inner->type == "Mul" ? 1 / *factor : factor.value_or(0);
    if (!factor || !(*cap > 0) || std::abs(found - *cap) > 1e-3 * *cap)
      throw c.graph.unexpected(*outer, "a soft-cap c * tanh(x / c) with the same c at both places");
    for (const Op* op : {outer, tanh, inner}) c.graph.claim(*op);
    return std::pair(inner->input(0), *cap);
  }
  return std::nullopt;
}

// A product with a number.
std::optional<std::pair<ValueId, double>> match_scale(Context& c, ValueId value) {
  const Op* op = c.graph.producer(value);
  if (!op || (op->type != "Mul" && op->type != "Div")) return std::nullopt;
  for (const size_t side : {0, 1}) {
    if (op->type == "Div" && side == 1) break;
    const std::optional<double> factor = c.graph.scalar(op->input(1 - side));
    if (!factor) continue;
    c.graph.claim(*op);
    return std::pair(op->input(side), op->type == "Div" ? 1 / *factor : *factor);
  }
  return std::nullopt;
}

}  // namespace

FoundHead match_head(Context& c, ValueId logits) {
  FoundHead out;
  ValueId value = c.graph.through(logits);
  if (const auto capped = match_softcap(c, value)) {
    out.head.softcap = capped->second;
    value = c.graph.through(capped->first);
  }
  while (const auto scaled = match_scale(c, value)) {
    out.head.scale *= scaled->second;
    value = c.graph.through(scaled->first);
  }
  const std::optional<Linear> linear = match_linear(c, value);
  if (!linear) throw c.graph.unexpected(value, "the projection that gives the logits");
  out.head.weight = linear->projection.weight;
  out.head.bias = linear->projection.bias;
  // Some graphs give the logits of the last token alone: the row is taken before the projection.
  value = linear->input;
  for (const Op* op = c.graph.producer(value); op && (op->type == "Slice" || op->type == "Gather");
       op = c.graph.producer(value)) {
    if (c.graph.constant(op->input(0))) break;
    c.graph.claim(*op);
    for (size_t i = 1; i < op->inputs.size(); ++i)
      for (const Op* index = c.graph.producer(op->input(i)); index; index = c.graph.producer(index->input(0)))
        c.graph.claim(*index);
    value = c.graph.through(op->input(0));
  }
  out.input = plain(c, value);
  return out;
}

}  // namespace anemone::recover
