#include "families/recover/evaluate.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"

namespace anemone::recover {
namespace {

constexpr int kMostDepth = 3000;  // of a chain of operators

// Counts the calls that wait for each other.
class Deeper {
 public:
  Deeper(int& depth, const Graph& graph) : depth_(depth) {
    if (depth >= kMostDepth)
      throw Error("a part of the graph is too deep to be looked at").at(graph.model().path());
    ++depth_;
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

Array from_tensor(const OnnxTensor& t) {
  Array out{t.dims(), {}, onnx_type_info(t.type()).integer};
  out.data.resize(static_cast<size_t>(checked_elements(t.dims())));
  t.read(0, t.elements(), std::span<double>(out.data));
  return out;
}

// Rows of a large constant, without reading the rest of it.
Array gather_rows(const OnnxTensor& t, const Array& rows) {
  const int64_t width = t.elements() / t.dims()[0];
  Array out{rows.dims, {}, onnx_type_info(t.type()).integer};
  out.dims.insert(out.dims.end(), t.dims().begin() + 1, t.dims().end());
  out.data.resize(static_cast<size_t>(checked_elements(out.dims)));
  for (int64_t i = 0; i < rows.size(); ++i) {
    auto row = static_cast<int64_t>(rows.data[static_cast<size_t>(i)]);
    if (row < 0) row += t.dims()[0];
    if (row < 0 || row >= t.dims()[0])
      throw errorf("'{}' has no row {}", printable(t.name()), row).found(shape_text(t.dims()));
    t.read(row * width, (row + 1) * width,
           std::span<double>(out.data).subspan(static_cast<size_t>(i * width), static_cast<size_t>(width)));
  }
  return out;
}

std::string genai_name(const Graph& graph, const char* key, const char* otherwise) {
  const auto& genai = graph.bundle().genai;
  if (!genai) return otherwise;
  const nlohmann::ordered_json* at = &*genai;
  for (const char* step : {"model", "decoder", "inputs", key}) {
    if (!at->is_object() || !at->contains(step)) return otherwise;
    at = &(*at)[step];
  }
  return at->is_string() ? at->get<std::string>() : otherwise;
}

bool is_elementwise(std::string_view type) {
  constexpr std::string_view kTypes[] = {
      "Add",         "Sub",         "Mul",          "Div",         "Mod",
      "Pow",         "Where",       "Max",          "Min",         "Cast",
      "Neg",         "Abs",         "Sqrt",         "Exp",         "Log",
      "Reciprocal",  "Sigmoid",     "Tanh",         "Erf",         "Floor",
      "Ceil",        "Cos",         "Sin",          "Clip",        "Softmax",
      "Identity",    "Dropout",     "Gelu",         "Swish",       "Not",
      "IsNaN",       "IsInf",       "And",          "Or",          "Xor",
      "Equal",       "Less",        "Greater",      "LessOrEqual", "GreaterOrEqual",
      "ms.FastGelu", "ms.BiasGelu", "ms.QuickGelu", "ms.Gelu"};
  return std::count(std::begin(kTypes), std::end(kTypes), type) > 0;
}

}  // namespace

Array Array::filled(std::vector<int64_t> dims, double value, bool whole) {
  const int64_t n = checked_elements(dims);
  return {std::move(dims), std::vector<double>(static_cast<size_t>(n), value), whole};
}

Array Array::numbers(std::vector<double> data) {
  const auto n = static_cast<int64_t>(data.size());
  return {{n}, std::move(data), true};
}

int64_t checked_elements(const std::vector<int64_t>& dims) {
  const int64_t n = element_count(dims);
  if (n > kMostElements)
    throw errorf("a value of the graph is too large to be looked at").found(shape_text(dims));
  return n;
}

int64_t wrapped(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) throw errorf("there is no axis {} of {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> integers_of(const Array& array) {
  std::vector<int64_t> out;
  for (const double v : array.data)
    out.push_back(v >= 9.2e18    ? std::numeric_limits<int64_t>::max()
                  : v <= -9.2e18 ? std::numeric_limits<int64_t>::min()
                                 : static_cast<int64_t>(v));
  return out;
}

InputRole role_of(const Graph& graph, std::string_view input) {
  if (input == genai_name(graph, "input_ids", "input_ids")) return InputRole::tokens;
  if (input == genai_name(graph, "attention_mask", "attention_mask")) return InputRole::mask;
  if (input == genai_name(graph, "position_ids", "position_ids")) return InputRole::positions;
  // Olive and GenAI: in place of a mask, what GroupQueryAttention takes.
  if (input == genai_name(graph, "past_sequence_length", "past_seq_len")) return InputRole::last_position;
  if (input == genai_name(graph, "total_sequence_length", "total_seq_len")) return InputRole::length;
  const OnnxValueInfo* info = graph.model().graph().info(input);
  const bool cache = info && info->has_shape && info->dims.size() >= 4 && onnx_type_info(info->type).floating;
  return cache ? InputRole::past : InputRole::other;
}

std::vector<int64_t> Evaluator::past_dims(ValueId value) const {
  const OnnxValueInfo& info = *graph_.model().graph().info(graph_.name(value));
  std::vector<int64_t> dims;
  const size_t rank = info.dims.size();
  for (size_t d = 0; d < rank; ++d) dims.push_back(info.dims[d].size);
  dims[rank - 4] = 1;
  dims[rank - 2] = probe_.past;
  if (dims[rank - 3] < 0) dims[rank - 3] = kv_heads;
  if (dims[rank - 1] < 0) dims[rank - 1] = head_dim;
  return dims;
}

Array Evaluator::input(ValueId value) const {
  const std::string& name = graph_.name(value);
  const int64_t t = probe_.tokens, p = probe_.past;
  switch (role_of(graph_, name)) {
    case InputRole::tokens: return Array::filled({1, t}, 1, true);
    case InputRole::mask: return Array::filled({1, p + t}, 1, true);
    case InputRole::positions: {
      Array out = Array::filled({1, t}, 0, true);
      for (int64_t i = 0; i < t; ++i) out.data[static_cast<size_t>(i)] = static_cast<double>(p + i);
      return out;
    }
    case InputRole::past: return Array::filled(past_dims(value), 0);
    case InputRole::last_position: return Array::filled({1, 1}, static_cast<double>(p + t - 1), true);
    case InputRole::length: return Array::filled({}, static_cast<double>(p + t), true);
    case InputRole::other: break;
  }
  throw errorf("the graph has an input whose meaning is not known")
      .at(graph_.model().path())
      .found(fmt::format("'{}'", printable(name)))
      .expected(
          "input_ids, attention_mask, position_ids, past_seq_len, total_seq_len, and caches of keys and "
          "values")
      .hint("-o NAME.mlpackage converts a network op by op, whatever it is");
}

void Evaluator::set(ValueId value, Array array) { known_.insert_or_assign(value, std::move(array)); }

const Array& Evaluator::value(ValueId value) {
  if (const auto at = known_.find(value); at != known_.end()) return at->second;
  const Op* op = graph_.producer(value);
  const Deeper deeper(depth_, graph_);
  Array made;
  if (op)
    made = run(*op, value);
  else if (const OnnxTensor* t = graph_.constant(value))
    made = from_tensor(*t);
  else
    made = input(value);
  return known_.insert_or_assign(value, std::move(made)).first->second;
}

Array Evaluator::run(const Op& op, ValueId wanted) {
  ran_.insert(&op);
  if (op.type == "If") {
    const Array& condition = value(op.input(0));
    const auto& results = op.branches[condition.size() > 0 && condition.data[0] != 0 ? 0 : 1];
    for (size_t i = 0; i < op.outputs.size() && i < results.size(); ++i)
      if (op.outputs[i] == wanted) return value(results[i]);
  }
  if (op.type == "Shape") {
    const std::vector<int64_t> all = dims(op.input(0));
    const auto rank = static_cast<int64_t>(all.size());
    const auto limit = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
    const int64_t begin = limit(op.node->integer("start", 0)), end = limit(op.node->integer("end", rank));
    return Array::numbers({all.begin() + begin, all.begin() + std::max(begin, end)});
  }
  if (op.type == "Size") return {{}, {static_cast<double>(checked_elements(dims(op.input(0))))}, true};
  if (op.type == "Gather" && op.node->integer("axis", 0) == 0)
    if (const OnnxTensor* table = graph_.constant(op.input(0)); table && table->rank() > 1)
      return gather_rows(*table, value(op.input(1)));
  if (op.type == "ms.RotaryEmbedding" || op.type == "RotaryEmbedding") return rotary(op);
  if (op.type == "DequantizeLinear" && graph_.made_by(op.input(0), "QuantizeLinear")) {
    const Op* before = graph_.producer(op.input(0));  // activations that are rounded on the way
    ran_.insert(before);
    return value(before->input(0));
  }
  // Weights are never computed with: a value behind one is set, or asked for its dimensions alone.
  if (op.type == "MatMul" && graph_.bundle().weights.constant(graph_.name(op.input(1))))
    throw graph_.unexpected(op, "an operator of masks, positions, rotations or activations");
  const Compute compute = find_compute(op.type);
  if (!compute) throw graph_.unexpected(op, "an operator of masks, positions, rotations or activations");
  Call call{op, {}};
  for (const ValueId in : op.inputs) {
    if (in != kNone) value(in);
  }
  for (const ValueId in : op.inputs) call.in.push_back(in == kNone ? nullptr : &known_.at(in));
  std::vector<Array> made;
  try {
    made = compute(call);
  } catch (Error& e) {
    e.within(fmt::format("{}: {}", graph_.model().path(), graph_.place(op)));
    throw;
  }
  for (size_t i = 0; i < op.outputs.size() && i < made.size(); ++i) {
    if (op.outputs[i] == kNone || op.outputs[i] == wanted) continue;
    known_.try_emplace(op.outputs[i], std::move(made[i]));
  }
  for (size_t i = 0; i < op.outputs.size() && i < made.size(); ++i)
    if (op.outputs[i] == wanted) return std::move(made[i]);
  throw graph_.unexpected(op, "an operator with fewer outputs");
}

// A value behind If (by its condition), Identity and Cast: what a table of a rotation really is.
ValueId Evaluator::resolved(ValueId value) {
  for (const Op* op = graph_.producer(value); op; op = graph_.producer(value)) {
    if (op->type == "If") {
      const Array& condition = this->value(op->input(0));
      const auto& results = op->branches[condition.size() > 0 && condition.data[0] != 0 ? 0 : 1];
      const auto at = std::find(op->outputs.begin(), op->outputs.end(), value) - op->outputs.begin();
      if (static_cast<size_t>(at) >= results.size()) break;
      value = results[static_cast<size_t>(at)];
    } else if (op->type == "Identity" || op->type == "Cast") {
      value = op->input(0);
    } else {
      break;
    }
    ran_.insert(op);
  }
  return value;
}

// The rows of a table [positions, r/2] at these positions, as [1, T, r/2].
Array Evaluator::table_rows(ValueId table, const Array& positions) {
  table = resolved(table);
  const OnnxTensor* t = graph_.constant(table);
  if (!t || t->rank() != 2)
    throw graph_.unexpected(table, "a constant table [positions, half of the rotated size]");
  Array out = gather_rows(*t, positions);
  out.dims = {1, positions.size(), t->dims()[1]};
  return out;
}

Array Evaluator::rotary(const Op& op) {
  const bool ms = op.type == "ms.RotaryEmbedding";
  const Array x = value(op.input(0));
  Array cos, sin;
  if (const ValueId at = op.input(ms ? 1 : 3); at != kNone) {
    Array positions = value(at);
    if (ms && positions.size() == 1 && probe_.tokens > 1) {  // where the text begins
      const double first = positions.data[0];
      positions = Array::filled({probe_.tokens}, 0, true);
      for (int64_t i = 0; i < probe_.tokens; ++i)
        positions.data[static_cast<size_t>(i)] = first + static_cast<double>(i);
    }
    cos = table_rows(op.input(ms ? 2 : 1), positions);
    sin = table_rows(op.input(ms ? 3 : 2), positions);
  } else {
    cos = value(op.input(1));
    sin = value(op.input(2));
  }
  Call call{op, ms ? std::vector<const Array*>{&x, nullptr, &cos, &sin}
                   : std::vector<const Array*>{&x, &cos, &sin}};
  return std::move(find_compute(op.type)(call)[0]);
}

std::vector<int64_t> Evaluator::dims(ValueId value) {
  if (const auto at = known_.find(value); at != known_.end()) return at->second.dims;
  if (const OnnxTensor* t = graph_.constant(value)) return t->dims();
  const Op* op = graph_.producer(value);
  if (!op && role_of(graph_, graph_.name(value)) == InputRole::past) return past_dims(value);
  if (!op) return this->value(value).dims;
  if (const auto at = dims_.find(value); at != dims_.end()) return at->second;
  const Deeper deeper(depth_, graph_);
  std::vector<int64_t> found = infer(*op, value);
  ran_.insert(op);
  return dims_.emplace(value, std::move(found)).first->second;
}

// Of what depends on weights: these operators keep or say their dimensions. All others are computed.
std::vector<int64_t> Evaluator::infer(const Op& op, ValueId wanted) {
  const auto with_last = [&](int64_t width) {
    std::vector<int64_t> out = dims(op.input(0));
    if (out.empty()) throw graph_.unexpected(op, "a matrix");
    out.back() = width;
    return out;
  };
  const OnnxNode& node = *op.node;
  if (op.type == "ms.MatMulNBits") return with_last(node.integer("N", 0));
  if (op.type == "MatMul" && dims(op.input(1)).size() == 2) return with_last(dims(op.input(1))[1]);
  if (op.type == "Gemm") return with_last(dims(op.input(1))[node.integer("transB", 0) ? 0 : 1]);
  if (op.type == "MatMulInteger") return with_last(dims(op.input(1)).back());
  if (op.type == "ms.GatherBlockQuantized" || (op.type == "Gather" && graph_.constant(op.input(0)))) {
    std::vector<int64_t> out = dims(op.input(1));
    if (op.type == "Gather" && node.integer("axis", 0) != 0) return this->value(wanted).dims;
    if (const OnnxMatrix* own = graph_.bundle().weights.own(node)) {
      const OnnxCodes& codes = *graph_.bundle().weights.codes(own->tensor);
      out.push_back(codes.inner == 1 ? codes.count : codes.inner);
      return out;
    }
    const std::vector<int64_t> table = dims(op.input(0));
    if (table.empty()) throw graph_.unexpected(op, "a table");
    out.insert(out.end(), table.begin() + 1, table.end());
    return out;
  }
  if (op.type == "DynamicQuantizeLinear" && wanted != op.output()) return {};  // its scale and zero point
  if (op.type.ends_with("LayerNormalization") || op.type == "RMSNormalization" ||
      op.type == "DequantizeLinear" || op.type == "QuantizeLinear" || op.type.ends_with("RotaryEmbedding") ||
      op.type == "DynamicQuantizeLinear" || op.type == "ms.GroupQueryAttention" || op.type == "ms.QMoE" ||
      op.type == "ms.MoE")
    return dims(op.input(0));
  if (is_elementwise(op.type)) {
    std::vector<int64_t> out;
    for (const ValueId in : op.inputs)
      if (in != kNone) out = broadcast_dims(out, dims(in));
    return op.type == "Dropout" || op.type == "Softmax" || op.type == "Cast" || op.type == "Clip"
               ? dims(op.input(0))
               : out;
  }
  if (op.type == "Reshape") {
    Array shape = value(op.input(1));
    return reshaped(dims(op.input(0)), integers_of(shape), node.integer("allowzero", 0) != 0);
  }
  return moved(op, wanted);
}

// Operators that move data: computed with zeros in its place. What says how it is moved is computed.
std::vector<int64_t> Evaluator::moved(const Op& op, ValueId wanted) {
  constexpr std::string_view kMovers[] = {"Concat",    "Transpose", "Split",      "Slice",
                                          "Squeeze",   "Unsqueeze", "Expand",     "Tile",
                                          "Gather",    "MatMul",    "Flatten",    "ms.MultiHeadAttention",
                                          "Attention", "Trilu",     "ReduceMean", "ReduceSum",
                                          "ReduceMax", "ReduceMin", "CumSum"};
  if (std::count(std::begin(kMovers), std::end(kMovers), op.type) == 0) return value(wanted).dims;
  const bool all =
      op.type == "Concat" || op.type == "MatMul" || op.type == "Gather" || op.type.ends_with("Attention");
  Evaluator hollow(graph_, probe_);
  hollow.kv_heads = kv_heads;
  hollow.head_dim = head_dim;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == kNone) continue;
    const bool mask = op.type.ends_with("Attention") && i == 3;
    hollow.set(op.inputs[i],
               i == 0 || (all && !mask) ? Array::filled(dims(op.inputs[i]), 0) : value(op.inputs[i]));
  }
  return hollow.value(wanted).dims;
}

void Evaluator::claim(Graph& graph) const {
  for (const Op* op : ran_) graph.claim(*op);
}

}  // namespace anemone::recover
