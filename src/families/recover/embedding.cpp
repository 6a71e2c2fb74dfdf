// Rows of tables: of tokens, times a number, and of positions.
#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

struct Table {
  WeightRef rows;
  ValueId index = kNone;
};

std::optional<Table> match_table(Context& c, ValueId value) {
  const Op* op = c.graph.producer(c.graph.through(value));
  if (!op) return std::nullopt;
  std::optional<OnnxMatrix> matrix;
  if (op->type == "Gather" && (op->node->op != "Gather" || op->node->integer("axis", 0) == 0)) {
    matrix = c.graph.weight(op->input(0));
  } else if (op->type == "DequantizeLinear" && c.graph.made_by(op->input(0), "Gather")) {
    if (const OnnxMatrix* own = c.graph.bundle().weights.own(*op->node)) matrix = *own;
    c.graph.claim(*op);
    op = c.graph.producer(op->input(0));
  } else if (op->type == "ms.GatherBlockQuantized") {
    if (const OnnxMatrix* own = c.graph.bundle().weights.own(*op->node)) matrix = *own;
    for (const Op* shaped = c.graph.producer(op->input(0)); shaped;
         shaped = c.graph.producer(shaped->input(0)))
      c.graph.claim(*shaped);  // the head's codes in another shape
  }
  if (!matrix) return std::nullopt;
  const std::vector<int64_t>& shape = c.checkpoint.tensor(matrix->tensor).shape();
  if (shape.size() != 2) return std::nullopt;
  c.graph.claim(*op);
  // Transposed where the table is a head's [in, out].
  const size_t rows = matrix->transposed ? 1 : 0;
  Table out{{matrix->tensor, 0, shape[rows], shape[1 - rows]}, op->input(1)};
  out.rows.transposed = matrix->transposed;
  return out;
}

// The token ids themselves, perhaps in another type or shape.
bool is_tokens(Context& c, ValueId value) {
  for (const Op* op = c.graph.producer(value); op; op = c.graph.producer(value)) {
    if (op->type != "Cast" && op->type != "Reshape" && op->type != "Identity" && op->type != "Unsqueeze" &&
        op->type != "Squeeze")
      return false;
    c.graph.claim(*op);
    value = op->input(0);
  }
  return !c.graph.constant(value) && role_of(c.graph, c.graph.name(value)) == InputRole::tokens;
}

// Which row position 0 has, where the index grows with the position.
std::optional<int64_t> first_position(Context& c, ValueId index) {
  Evaluator e = evaluator(c, {.tokens = 3, .past = 5});
  const Array& at = e.value(index);
  if (at.size() != 3) return std::nullopt;
  const double first = at.data[0] - 5;
  if (first < 0 || at.data[1] != first + 6 || at.data[2] != first + 7) return std::nullopt;
  e.claim(c.graph);
  return static_cast<int64_t>(first);
}

}  // namespace

std::optional<Embedding> match_embedding(Context& c, ValueId value) {
  value = c.graph.through(value);
  Embedding out;
  if (const std::optional<Table> table = match_table(c, value)) {
    if (!is_tokens(c, table->index)) return std::nullopt;
    out.tokens = table->rows;
    return out;
  }
  const Op* op = c.graph.producer(value);
  if (op && op->type == "Mul")
    for (const size_t side : {0, 1})
      if (const std::optional<double> scale = c.graph.scalar(op->input(side)))
        if (std::optional<Embedding> inner = match_embedding(c, op->input(1 - side));
            inner && !inner->positions) {
          c.graph.claim(*op);
          inner->scale *= *scale;
          return inner;
        }
  if (!op || op->type != "Add") return std::nullopt;
  for (const size_t side : {0, 1}) {
    const std::optional<Table> positions = match_table(c, op->input(1 - side));
    if (!positions || is_tokens(c, positions->index)) continue;
    std::optional<Embedding> inner = match_embedding(c, op->input(side));
    const std::optional<int64_t> first = first_position(c, positions->index);
    if (!inner || inner->positions || !first) continue;
    c.graph.claim(*op);
    inner->positions = positions->rows;
    inner->first_position = *first;
    return inner;
  }
  return std::nullopt;
}

}  // namespace anemone::recover
