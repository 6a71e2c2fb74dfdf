// y = W x + b, in the forms that exporters and quantizers give it.
#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

// A matrix of the checkpoint as [out, in]; `turned`: the operator multiplies with its transpose ([in, out]).
WeightRef matrix_ref(const Context& c, const OnnxMatrix& matrix, bool in_first) {
  const std::vector<int64_t>& shape = c.checkpoint.tensor(matrix.tensor).shape();
  WeightRef ref;
  if (shape.size() != 2) return ref;
  ref.tensor = matrix.tensor;
  ref.transposed = in_first != matrix.transposed;
  ref.row_end = shape[ref.transposed ? 1 : 0];
  ref.columns = shape[ref.transposed ? 0 : 1];
  return ref;
}

std::optional<Linear> of_matmul(Context& c, const Op& op) {
  const std::optional<OnnxMatrix> matrix = c.graph.weight(op.input(1));
  if (!matrix) return std::nullopt;
  Linear out{.input = op.input(0), .projection = {matrix_ref(c, *matrix, true), {}}};
  return out.projection.weight ? std::optional(out) : std::nullopt;
}

std::optional<Linear> of_gemm(Context& c, const Op& op) {
  const OnnxNode& node = *op.node;
  if (node.integer("transA", 0) != 0 || node.number("alpha", 1) != 1 || node.number("beta", 1) != 1)
    return std::nullopt;
  const std::optional<OnnxMatrix> matrix = c.graph.weight(op.input(1));
  if (!matrix) return std::nullopt;
  Linear out{.input = op.input(0),
             .projection = {matrix_ref(c, *matrix, node.integer("transB", 0) == 0), {}}};
  if (!out.projection.weight) return std::nullopt;
  if (op.input(2) != kNone) {
    const std::optional<WeightRef> bias = match_vector(c, op.input(2), out.rows());
    if (!bias) return std::nullopt;
    out.projection.bias = *bias;
  }
  return out;
}

std::optional<Linear> of_nbits(Context& c, const Op& op) {
  const OnnxMatrix* own = c.graph.bundle().weights.own(*op.node);
  if (!own) return std::nullopt;
  Linear out{.input = op.input(0), .projection = {matrix_ref(c, *own, false), {}}};
  if (op.input(5) != kNone) {
    const std::optional<WeightRef> bias = match_vector(c, op.input(5), out.rows());
    if (!bias) throw c.graph.unexpected(op, "a constant bias with one number for each row");
    out.projection.bias = *bias;
  }
  return out;
}

// The product behind a MatMulInteger: its activations are quantized on the way, which the model leaves out.
std::optional<Linear> of_integers(Context& c, const Op& op) {
  const OnnxMatrix* own = c.graph.bundle().weights.own(*op.node);
  if (!own) return std::nullopt;
  const Op* cast = c.graph.producer(op.input(0));
  const bool first = cast && cast->type == "Cast";
  if (!first) cast = c.graph.producer(op.input(1));
  const Op* product = cast ? c.graph.producer(cast->input(0)) : nullptr;
  const Op* scales = c.graph.producer(op.input(first ? 1 : 0));
  const Op* quantize = product ? c.graph.producer(product->input(0)) : nullptr;
  if (!quantize || !scales) return std::nullopt;
  for (const Op* used : {cast, product, scales, quantize}) c.graph.claim(*used);
  WeightRef ref = matrix_ref(c, {own->tensor, false}, true);
  return Linear{.input = quantize->input(0), .projection = {std::move(ref), {}}};
}

std::optional<Linear> of_op(Context& c, const Op& op) {
  if (op.type == "MatMul") return of_matmul(c, op);
  if (op.type == "Gemm") return of_gemm(c, op);
  if (op.type == "ms.MatMulNBits") return of_nbits(c, op);
  if (op.type == "Mul") return of_integers(c, op);
  return std::nullopt;
}

// Gemm takes matrices only: x is made flat before it, and y gets its dimensions back.
std::optional<Linear> of_flat_gemm(Context& c, const Op& op) {
  const Op* gemm = c.graph.producer(op.input(0));
  if (op.type != "Reshape" || !gemm || gemm->type != "Gemm") return std::nullopt;
  const Op* flat = c.graph.producer(gemm->input(0));
  if (!flat || flat->type != "Reshape") return std::nullopt;
  Evaluator e = evaluator(c, {.tokens = 3, .past = 0});
  const std::vector<int64_t> x = e.dims(flat->input(0)), y = e.dims(op.output());
  if (x.size() != y.size() || !std::equal(x.begin(), x.end() - 1, y.begin())) return std::nullopt;
  std::optional<Linear> out = of_gemm(c, *gemm);
  if (!out) return out;
  e.claim(c.graph);
  c.graph.claim(*gemm);
  c.graph.claim(*flat);
  out->input = flat->input(0);
  return out;
}

}  // namespace

Evaluator evaluator(const Context& c, Probe probe) {
  Evaluator e(c.graph, probe);
  e.kv_heads = c.kv_heads;
  e.head_dim = c.head_dim;
  return e;
}

ValueId plain(Context& c, ValueId value) {
  for (;;) {
    value = c.graph.through(value);
    const Op* op = c.graph.producer(value);
    if (!op || op->type != "Reshape") return value;
    Evaluator e = evaluator(c, {.tokens = 3, .past = 0});
    if (e.dims(op->input(0)) != e.dims(value)) return value;
    e.claim(c.graph);
    c.graph.claim(*op);
    value = op->input(0);
  }
}

Projection part_of(const Projection& p, int64_t begin, int64_t count, int64_t paired) {
  Projection out = p;
  for (WeightRef* ref : {&out.weight, &out.bias}) {
    if (!*ref) continue;
    ref->interleaved_head = paired;
    ref->row_end = ref->row_begin + begin + count;
    ref->row_begin += begin;
  }
  return out;
}

std::optional<WeightRef> match_vector(Context& c, ValueId value, int64_t size) {
  const std::optional<OnnxMatrix> found = c.graph.weight(value);
  if (!found) return std::nullopt;
  const std::vector<int64_t>& shape = c.checkpoint.tensor(found->tensor).shape();
  if (shape.size() != 1 || (size >= 0 && shape[0] != size)) return std::nullopt;
  return WeightRef{found->tensor, 0, shape[0], 1};
}

std::optional<Linear> match_linear(Context& c, ValueId value) {
  const Op* op = c.graph.producer(c.graph.through(value));
  if (!op) return std::nullopt;
  std::optional<Linear> out = of_op(c, *op);
  if (!out) out = of_flat_gemm(c, *op);
  if (!out && op->type == "Add") {
    for (const size_t side : {0, 1}) {
      const Op* product = c.graph.producer(c.graph.through(op->input(side)));
      if (!product) continue;
      out = of_op(c, *product);
      if (!out || out->projection.bias) {
        out.reset();
        continue;
      }
      const std::optional<WeightRef> bias = match_vector(c, op->input(1 - side), out->rows());
      if (!bias) {
        out.reset();
        continue;
      }
      out->projection.bias = *bias;
      c.graph.claim(*product);
      break;
    }
  }
  if (!out) return std::nullopt;
  c.graph.claim(*op);
  out->input = c.graph.through(out->input);
  out->output = value;
  return out;
}

}  // namespace anemone::recover
