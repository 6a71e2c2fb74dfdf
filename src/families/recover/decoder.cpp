// The walk along the residual stream, from the logits back to the embedding.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/recover/recover.h"
#include "families/weights.h"

namespace anemone::recover {
namespace {

// x + y, and a bias that was fused into the sum.
struct Sum {
  const Op* op;
  ValueId a, b, bias;
};

std::optional<Sum> match_sum(Context& c, ValueId value) {
  const Op* op = c.graph.producer(value);
  if (!op || (op->type != "Add" && op->type != "ms.SkipBias")) return std::nullopt;
  return Sum{op, c.graph.through(op->input(0)), c.graph.through(op->input(1)), op->input(2)};
}

struct Branch {
  ResidualStep step;
  ValueId input = kNone;  // of the stream
};

// y of the sum: a block, its scale, a norm behind it, a norm before it.
std::optional<Branch> match_branch(Context& c, ValueId value, ValueId bias) {
  Branch out;
  const Op* op = c.graph.producer(value);
  if (op && op->type == "Mul")
    for (const size_t side : {0, 1})
      if (const std::optional<double> scale = c.graph.scalar(op->input(side))) {
        c.graph.claim(*op);
        out.step.scale = *scale;
        value = c.graph.through(op->input(1 - side));
        break;
      }
  std::optional<FoundBlock> block = match_experts(c, value);
  std::optional<Linear> linear;
  if (!block && !(linear = match_linear(c, value))) {
    const std::optional<FoundNorm> norm = match_norm(c, value);
    if (!norm) return std::nullopt;
    block = match_experts(c, norm->input);
    if (!block && !(linear = match_linear(c, norm->input))) return std::nullopt;
    out.step.norm_out = norm->norm;
  }
  if (linear && bias != kNone) {
    const std::optional<WeightRef> vector = match_vector(c, bias, linear->rows());
    if (!vector || linear->projection.bias || out.step.norm_out) return std::nullopt;
    linear->projection.bias = *vector;
  } else if (bias != kNone) {
    return std::nullopt;
  }
  if (!block) block = match_attention(c, *linear);
  if (!block) block = match_mlp(c, *linear);
  if (!block) return std::nullopt;
  out.step.block = std::move(block->block);
  out.input = block->input;
  return out;
}

// The norm before a block reads the stream; without one the block does.
bool attach(Context& c, Branch& branch, ValueId stream) {
  if (branch.input == stream) return true;
  const std::optional<FoundNorm> norm = match_norm(c, branch.input);
  if (!norm || norm->input != stream) return false;
  branch.step.norm_in = norm->norm;
  return true;
}

// The projection that can be the end of a branch: cheap to ask, so that the stream is not searched.
bool ends_branch(Context& c, ValueId value) {
  const Op* op = c.graph.producer(value);
  return op && op->type != "Gather" && op->type != "ms.GatherBlockQuantized";
}

ResidualStep match_step(Context& c, ValueId& stream) {
  const std::optional<Sum> sum = match_sum(c, stream);
  if (!sum) throw c.graph.unexpected(stream, "a residual sum x + block(x), or the embedding of the tokens");
  for (const bool first : {false, true}) {
    const ValueId branch_value = first ? sum->a : sum->b, rest = first ? sum->b : sum->a;
    if (!ends_branch(c, branch_value)) continue;
    std::optional<Branch> branch = match_branch(c, branch_value, sum->bias);
    if (!branch) continue;
    if (!attach(c, *branch, rest))
      throw c.graph.unexpected(
          branch->input, "a norm of the residual stream before a block (parallel blocks are not supported)");
    c.graph.claim(*sum->op);
    stream = rest;
    return std::move(branch->step);
  }
  throw c.graph.unexpected(*sum->op, "a residual sum x + block(x) with attention, an MLP or experts");
}

// A mixer opens a layer.
std::vector<Layer> layers_of(Context& c, std::vector<ResidualStep> backwards) {
  std::vector<Layer> out;
  for (auto step = backwards.rbegin(); step != backwards.rend(); ++step) {
    if (is_mixer(step->block)) out.emplace_back();
    if (out.empty())
      throw Error("the first block is no attention")
          .at(c.graph.model().path())
          .hint("-o NAME.mlpackage converts a network op by op, whatever it is");
    out.back().steps.push_back(std::move(*step));
  }
  return out;
}

ValueId logits_of(Context& c) {
  const OnnxGraph& graph = c.graph.model().graph();
  std::string name = "logits";
  if (const auto& genai = c.graph.bundle().genai) {
    const nlohmann::ordered_json* at = &*genai;
    for (const char* key : {"model", "decoder", "outputs", "logits"}) {
      if (!at->is_object() || !at->contains(key)) break;
      at = &(*at)[key];
    }
    if (at->is_string()) name = at->get<std::string>();
  }
  for (const OnnxValueInfo& output : graph.outputs)
    if (output.name == name) return c.graph.find(name);
  // Quantizers rename outputs ("logits_Q4" by Olive). Caches have four dimensions, logits three.
  const OnnxValueInfo* only = nullptr;
  size_t count = 0;
  for (const OnnxValueInfo& output : graph.outputs)
    if (output.has_shape && output.dims.size() == 3) only = &output, ++count;
  if (count == 1) {
    c.inferred.push_back(
        fmt::format("logits: output '{}', the only one with three dimensions", printable(only->name)));
    return c.graph.find(only->name);
  }
  throw Error("the graph gives no logits")
      .at(c.graph.model().path())
      .found(graph.outputs.empty() ? "no outputs"
                                   : fmt::format("'{}' and others", printable(graph.outputs[0].name)))
      .expected(fmt::format("an output '{}'", name))
      .hint("a network that is no decoder goes op by op: -o NAME.mlpackage");
}

// Whatever the logits depend on must have been explained.
void check_claims(Context& c, ValueId logits) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {logits};
  const Op* left = nullptr;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (v == kNone || !seen.insert(v).second) continue;
    const Op* op = c.graph.producer(v);
    if (!op) continue;
    if (!c.graph.claimed(*op) && (!left || op < left)) left = op;
    for (const ValueId in : op->inputs) open.push_back(in);
    for (const auto& branch : op->branches) open.insert(open.end(), branch.begin(), branch.end());
  }
  if (left) throw c.graph.unexpected(*left, "a node that belongs to a block of the model");
}

// Tensors that are no weights of the model: tables of rotations, numbers of masks.
void name_unused(const Checkpoint& checkpoint, Model& model) {
  std::set<std::string, std::less<>> used;
  each_weight(model, [&](const WeightUse& w) { used.insert(w.ref.tensor); });
  for (const TensorReader& t : checkpoint.tensors())
    if (!used.contains(t.name())) model.unused.push_back(t.name());
}

}  // namespace

Model recover_decoder(const Checkpoint& checkpoint) {
  Graph graph(*checkpoint.graph());
  Context c{.graph = graph, .checkpoint = checkpoint};
  Model m;
  const ValueId logits = logits_of(c);
  read_context(c);
  const FoundHead head = match_head(c, logits);
  const std::optional<FoundNorm> norm = match_norm(c, head.input);
  if (!norm) throw graph.unexpected(head.input, "the norm before the logits");
  m.final_norm = norm->norm;
  ValueId stream = norm->input;
  std::vector<ResidualStep> backwards;
  std::optional<Embedding> embedding;
  while (!(embedding = match_embedding(c, stream))) backwards.push_back(match_step(c, stream));
  m.embedding = *embedding;
  m.layers = layers_of(c, std::move(backwards));
  m.hidden = m.embedding.tokens.columns;
  m.vocab = head.head.weight.rows();
  VocabularyHead vocabulary = head.head;
  vocabulary.tied = vocabulary.weight == m.embedding.tokens;
  m.head = vocabulary;
  m.ropes = c.ropes;
  check_claims(c, logits);
  apply_config(c, m);
  m.shared_tensors = true;
  name_unused(checkpoint, m);
  m.inferred = std::move(c.inferred);
  return m;
}

}  // namespace anemone::recover
