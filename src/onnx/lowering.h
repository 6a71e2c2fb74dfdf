// OnnxOp: how one operator of ONNX becomes MIL. A file in onnx/ops/ holds one operator or a tight family and exports
// them under the file's name; CMake makes the table:
//
//     void lower_relu(OnnxCall& n) { n.out(n.op("relu", {{"x", n.in(0)}})); }
//     const OnnxOp kOps[] = {{"Relu", lower_relu}};
//     std::span<const OnnxOp> onnx_relu() { return kOps; }
//
// All arithmetic is written for fp32 and int32; the pass for halves comes later. What depends on constants alone is
// computed as soon as it is written, so that shapes and axes that a graph computes are known to the operators behind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "anemone/error.h"
#include "mil/builder.h"
#include "mil/known.h"
#include "mil/passes/fold_constants.h"
#include "onnx/model.h"
#include "onnx/network.h"

namespace anemone {

class OnnxCall;
class OnnxLowering;

struct OnnxOp {
  std::string_view name;
  void (*lower)(OnnxCall&) = nullptr;
  std::string_view domain = "";
};

// Sorted by domain and name.
std::span<const OnnxOp* const> all_onnx_ops();
const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name);

// What a name of the graph stands for.
struct OnnxOperand {
  Value* value = nullptr;               // empty for a tensor of the file until somebody asks for it
  OnnxType type = OnnxType::undefined;  // ONNX's own: every integer is int32 in MIL, every float fp32
  const OnnxTensor* tensor = nullptr;   // of the file

  explicit operator bool() const { return value || tensor; }
};

// The names of a graph, inside those of the graphs around it. Several may write into one block.
struct OnnxScope {
  OnnxScope* outer = nullptr;
  Builder* builder = nullptr;
  Block* block = nullptr;
  std::unordered_map<std::string_view, OnnxOperand> names;
  // Of the scope that opened the block: constants that were made once for all scopes that write into it.
  std::unordered_map<const OnnxTensor*, Value*> constants;
  std::map<std::pair<const Value*, std::vector<int64_t>>, Value*> transposed;

  OnnxScope& home() {
    OnnxScope* s = this;
    while (s->outer && s->outer->block == s->block) s = s->outer;
    return *s;
  }
  // Removes the operations from that place on, and forgets their values.
  void drop_from(size_t index);
};

// The element type that a value has in MIL: fp32, int32 or bool. Error for types that Core ML does not have.
DType mil_dtype(OnnxType type);

// A node, as its lowering sees it.
class OnnxCall {
 public:
  OnnxCall(OnnxLowering& lowering, OnnxScope& scope, const OnnxNode& the_node)
      : lowering_(lowering), scope_(scope), node(the_node) {}

  // Inputs. `has`: given and not empty. `in` throws where it is not; `maybe` is empty then.
  size_t count() const { return node.inputs.size(); }
  bool has(size_t i) const { return !node.input(i).empty(); }
  Value* in(size_t i);
  Value* maybe(size_t i) { return has(i) ? in(i) : nullptr; }
  const OnnxOperand& operand(size_t i);
  OnnxType type(size_t i) { return operand(i).type; }
  // Elements of inputs that are known now. The second kind throws, and says that the input must be known.
  std::optional<std::vector<int64_t>> find_ints(size_t i);
  std::optional<std::vector<float>> find_floats(size_t i);
  std::vector<int64_t> ints(size_t i);
  std::vector<float> floats(size_t i);
  float number(size_t i) { return floats(i).at(0); }
  // The axes of old versions are an attribute, those of new ones an input; nothing where neither is there.
  std::optional<std::vector<int64_t>> ints_or_attribute(size_t i, std::string_view name);
  bool has_ints(size_t i, std::string_view name) { return has(i) || node.attribute(name); }

  // Operations. Results that follow from constants are constants.
  Value* op(std::string_view type, Args args);
  std::vector<Value*> ops(std::string_view type, Args args);
  Value* constant(Constant value);
  static Constant f(float value) { return Constant::number(value, DType::fp32); }
  static Constant i(int64_t value) { return Constant::integer(static_cast<int32_t>(value)); }
  static Constant flag(bool value) { return Constant::boolean(value); }
  static Constant text(std::string_view value) { return Constant::text(std::string(value)); }
  Constant one(DType dtype, double value) const;  // a scalar of fp32, int32 or bool
  Value* add(Arg a, Arg b) { return op("add", {{"x", a}, {"y", b}}); }
  Value* sub(Arg a, Arg b) { return op("sub", {{"x", a}, {"y", b}}); }
  Value* mul(Arg a, Arg b) { return op("mul", {{"x", a}, {"y", b}}); }
  Value* div(Arg a, Arg b) { return op("real_div", {{"x", a}, {"y", b}}); }
  Value* select(Value* cond, Arg a, Arg b) { return op("select", {{"cond", cond}, {"a", a}, {"b", b}}); }
  Value* unary(std::string_view type, Value* x) { return op(type, {{"x", x}}); }
  Value* cast(Value* x, DType dtype);
  Value* reshape(Value* x, std::vector<int64_t> dims);
  Value* transpose(Value* x, std::vector<int64_t> perm);
  Value* expand(Value* x, std::vector<int64_t> axes);  // expand_dims
  Value* squeeze(Value* x, std::vector<int64_t> axes);
  Value* concat(std::vector<Value*> values, int64_t axis);
  Value* slice(Value* x, int64_t axis, int64_t begin, int64_t end);  // of a fixed dimension
  Value* matmul(Value* x, Value* y, bool tx = false, bool ty = false);
  Value* broadcast_to(Value* x, const std::vector<int64_t>& dims);
  Value* reduce(std::string_view kind, Value* x, std::vector<int64_t> axes, bool keep);
  Value* filled(const std::vector<int64_t>& dims, double value, DType dtype);
  Value* float_values(std::vector<float> values, std::vector<int64_t> dims);
  Value* int_values(std::vector<int64_t> values, std::vector<int64_t> dims);
  // Whole numbers of fewer bits wrap around, as in ONNX.
  Value* wrap(Value* x, OnnxType type);
  // The sizes of a value; Error where one is not fixed.
  std::vector<int64_t> dims(Value* x) const;
  // An axis from 0 to rank - 1; Error where it is outside.
  int64_t axis(int64_t value, int64_t rank) const;

  // Outputs.
  bool wants(size_t i) const;
  void out(size_t i, Value* value, OnnxType type);
  void out(Value* value) { out(0, value, type(0)); }
  void out_operand(size_t i, OnnxOperand operand);

  Error refused(std::string why) const;  // "… is not supported"
  OnnxLowering& lowering() { return lowering_; }
  OnnxScope& scope() { return scope_; }
  Opset opset() const;

 private:
  std::string base_name() const;
  std::vector<Value*> emit(std::string_view type, Args args);

  OnnxLowering& lowering_;
  OnnxScope& scope_;
  std::vector<const Value*> made_;  // by this node

 public:
  const OnnxNode& node;
};

// The state of a lowering: the function under construction, and graphs inside graphs.
class OnnxLowering {
 public:
  // `own_elements`: of the model's tensors. Much more than that is not computed beforehand, whatever a file asks for.
  OnnxLowering(Function& function, int64_t own_elements)
      : function_(function), foldable_(kFree + 4 * own_elements) {}

  std::vector<OnnxChoice> choices;
  // The last operation could not be written, because the types of its operands do not fit each other.
  bool misfit = false;

  Function& function() { return function_; }
  int64_t next() { return ++made_; }  // a number for a name
  // All nodes of a graph, into the scope's block. Initializers become names of the scope.
  void lower_graph(const OnnxGraph& graph, OnnxScope& scope);
  // What a name stands for; Error where it is unknown.
  OnnxOperand find(OnnxScope& scope, std::string_view name);
  // Its value, in a place where the scope's block can use it.
  Value* value(OnnxScope& scope, OnnxOperand operand, std::string_view name);
  // Folds what was written last.
  std::vector<Value*> emit(OnnxScope& scope, std::string_view type, Args args, std::string_view name);

 private:
  FoldLimits limits_for(std::string_view type) const;

  static constexpr int64_t kFree = int64_t{1} << 27;
  Function& function_;
  int64_t made_ = 0;      // names
  int64_t written_ = 0;   // operations
  int64_t foldable_ = 0;  // elements that may still be computed now
};

// A tensor of the file as a constant: fp32, int32 or bool. Large ones are read when the package is written. Error where
// a whole number does not fit int32; the two ends of int64's range, which stand for "to the end", become int32's.
Constant onnx_constant(const OnnxTensor& tensor);

}  // namespace anemone
