#include "onnx/network.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shape.h"
#include "mil/verify.h"
#include "onnx/lowering.h"

namespace anemone {
namespace {

constexpr int64_t kLeastOpset = 7, kMostOpset = 28;

void count_unsupported(const OnnxGraph& graph, std::map<std::string, int>& counts) {
  for (const OnnxNode& node : graph.nodes) {
    if (!find_onnx_op(node.domain, node.op)) {
      std::string name(node.domain.empty() ? "" : std::string(node.domain) + ".");
      ++counts[onnx_printable(name + std::string(node.op))];
    }
    for (const OnnxAttribute& a : node.attributes)
      for (const auto& inner : a.graphs) count_unsupported(*inner, counts);
  }
}

// Every operator that cannot be lowered, at once.
void check_operators(const OnnxModel& model) {
  if (const auto it = model.opsets().find(""); it != model.opsets().end())
    if (it->second < kLeastOpset || it->second > kMostOpset)
      throw errorf("the model uses version {} of ONNX's operators", it->second)
          .expected(fmt::format("{} to {}", kLeastOpset, kMostOpset))
          .hint("onnx.version_converter changes it");
  std::map<std::string, int> counts;
  count_unsupported(model.graph(), counts);
  if (counts.empty()) return;
  std::string list;
  for (const auto& [name, count] : counts)
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", name, count);
  throw errorf("the model has operators that cannot be converted: {}", list)
      .hint(
          "the numbers say how often each occurs; docs/onnx.md lists what is supported; if the model is a "
          "decoder, "
          "give an output that does not end in .mlpackage");
}

// The type of an input: sizes from the options, symbols where they may change.
class InputTypes {
 public:
  explicit InputTypes(const OnnxNetworkOptions& options) : options_(options) {}

  Type type(const OnnxValueInfo& info, DType dtype, std::vector<OnnxSizes>& sizes) {
    Shape shape;
    const std::string name(info.name);
    if (const auto it = options_.shapes.find(name); it != options_.shapes.end()) {
      check_given(info, it->second);
      return Type::tensor(dtype, it->second);
    }
    if (!info.has_shape) {
      open_.push_back(fmt::format("{}=…", onnx_printable(name)));
      return Type::tensor(dtype);
    }
    bool unknown = false;
    for (const OnnxDim& dim : info.dims) {
      sizes.push_back({dim.size, dim.size, {}});
      if (dim.known()) {
        shape.push_back(dim.size);
        continue;
      }
      const std::string symbol(dim.symbol);
      if (const auto one = options_.shapes.find(symbol); one != options_.shapes.end() && !symbol.empty()) {
        if (one->second.size() != 1) throw errorf("--shape {} takes one size", symbol);
        shape.push_back(one->second[0]);
        sizes.back() = {one->second[0], one->second[0], {}};
      } else if (const auto range = options_.dynamic.find(symbol);
                 range != options_.dynamic.end() && !symbol.empty()) {
        shape.push_back(Dim::symbol(symbol_id(symbol)));
        sizes.back() = range->second;
      } else {
        unknown = true;
        shape.push_back(1);
      }
    }
    if (unknown) open_.push_back(suggestion(info));
    return Type::tensor(dtype, shape);
  }

  // All inputs whose sizes nobody said, in one message.
  void check() const {
    if (open_.empty()) return;
    std::string list;
    for (const std::string& each : open_) list += (list.empty() ? "--shape " : " --shape ") + each;
    throw errorf("the sizes of {} are not fixed in the model", open_.size() == 1 ? "an input" : "some inputs")
        .expected(list)
        .hint("put numbers in the place of names, or let a name vary with --dynamic name=1..512");
  }

 private:
  static void check_given(const OnnxValueInfo& info, const std::vector<int64_t>& given) {
    bool fits = !info.has_shape || info.dims.size() == given.size();
    for (size_t d = 0; fits && info.has_shape && d < given.size(); ++d)
      fits = !info.dims[d].known() || info.dims[d].size == given[d];
    if (!fits)
      throw errorf("--shape {} does not fit the model", onnx_printable(info.name))
          .found(shape_text(given))
          .expected(info.text());
  }

  static std::string suggestion(const OnnxValueInfo& info) {
    std::string out = onnx_printable(info.name) + "=";
    for (size_t d = 0; d < info.dims.size(); ++d) {
      if (d) out += ",";
      const OnnxDim& dim = info.dims[d];
      out += dim.known()          ? fmt::format("{}", dim.size)
             : dim.symbol.empty() ? "N"
                                  : onnx_printable(dim.symbol);
    }
    return out;
  }

  uint16_t symbol_id(const std::string& symbol) {
    return ids_.emplace(symbol, static_cast<uint16_t>(ids_.size() + 1)).first->second;
  }

  const OnnxNetworkOptions& options_;
  std::map<std::string, uint16_t> ids_;
  std::vector<std::string> open_;
};

// Elements of the tensors of a graph and of those inside it.
int64_t own_elements(const OnnxGraph& graph) {
  int64_t count = 0;
  for (const OnnxTensor& tensor : graph.initializers) count += tensor.elements();
  for (const OnnxNode& node : graph.nodes)
    for (const OnnxAttribute& attribute : node.attributes) {
      for (const OnnxTensor& tensor : attribute.tensors) count += tensor.elements();
      for (const auto& inner : attribute.graphs) count += own_elements(*inner);
    }
  return count;
}

// Builds the function "main".
class NetworkBuilder {
 public:
  NetworkBuilder(const OnnxModel& model, const OnnxNetworkOptions& options)
      : model_(model), options_(options), types_(options) {}

  OnnxNetwork build() {
    check_names();
    function_ = &add_function(net_.program, "main", options_.opset);
    declare_inputs();
    Builder builder(*function_);
    OnnxLowering lowering(*function_, own_elements(model_.graph()));
    OnnxScope scope;
    scope.builder = &builder;
    scope.block = &function_->body;
    bind_inputs(lowering, scope);
    lowering.lower_graph(model_.graph(), scope);
    for (const OnnxValueInfo& output : model_.graph().outputs)
      if (!write_state(lowering, scope, output)) give_output(lowering, scope, output);
    remove_dead_ops(*function_);
    net_.choices = lowering.choices;
    drop_decided_inputs();
    check_program();
    return std::move(net_);
  }

 private:
  // What the options name must exist.
  void check_names() const {
    std::set<std::string> inputs, known;
    for (const OnnxValueInfo* input : model_.graph().open_inputs()) {
      inputs.insert(std::string(input->name));
      known.insert(std::string(input->name));
      for (const OnnxDim& dim : input->dims)
        if (!dim.symbol.empty()) known.insert(std::string(dim.symbol));
    }
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + onnx_printable(name);
    for (const auto& [name, sizes] : options_.shapes)
      if (!known.contains(name))
        throw errorf("--shape names '{}', which the model does not have", name).expected(list);
    for (const auto& [name, sizes] : options_.dynamic)
      if (!known.contains(name) || inputs.contains(name))
        throw errorf("--dynamic names '{}', which is no size of the model", name).expected(list);
    for (const auto& [name, image] : options_.images)
      if (!inputs.contains(name))
        throw errorf("--image names '{}', which is no input of the model", name).expected(list);
    for (const auto& [past, present] : options_.states) {
      if (!inputs.contains(past))
        throw errorf("--state names '{}', which is no input of the model", past).expected(list);
      const auto& outputs = model_.graph().outputs;
      if (std::none_of(outputs.begin(), outputs.end(),
                       [&](const OnnxValueInfo& o) { return o.name == present; }))
        throw errorf("--state names '{}', which is no output of the model", present);
    }
    for (const auto& [name, array] : options_.constants)
      if (!inputs.contains(name))
        throw errorf("--constant names '{}', which is no input of the model", name).expected(list);
  }

  std::string clean(std::string_view name) {
    std::string base = safe_name(name), out = base;
    for (int i = 1; !taken_.insert(out).second; ++i) out = fmt::format("{}_{}", base, i);
    if (out != name) net_.names[out] = std::string(name);
    return out;
  }

  void declare_inputs() {
    for (const OnnxValueInfo* info : model_.graph().open_inputs()) {
      if (options_.constants.contains(std::string(info->name))) continue;
      if (info->kind != OnnxValueInfo::Kind::tensor)
        throw errorf("the input '{}' is no tensor", onnx_printable(info->name)).found(info->text());
      DType dtype;
      try {
        dtype = mil_dtype(info->type);
      } catch (Error& e) {
        e.within(fmt::format("input '{}'", onnx_printable(info->name)));
        throw;
      }
      std::vector<OnnxSizes> sizes;
      Type type = types_.type(*info, dtype == DType::boolean ? DType::int32 : dtype, sizes);
      if (type.rank() > 5)
        throw errorf("the input '{}' has {} dimensions", onnx_printable(info->name), type.rank())
            .expected("at most 5, as Core ML has");
      if (type.fixed() && type.rank() > 0 && type.size() == 0)
        throw errorf("the input '{}' has no elements", onnx_printable(info->name)).found(type.text());
      const std::string name = clean(info->name);
      if (!type.fixed()) net_.sizes[name] = sizes;
      if (type.rank() == 0) type.shape = {1};
      declare_input(*info, name, type);
    }
    types_.check();
    for (auto& [name, value] : states_) {  // behind all tensors
      function_->inputs.push_back(std::make_unique<Value>(Value{value.name, value.type, nullptr, {}}));
      state_inputs_[name] = function_->inputs.back().get();
    }
  }

  void declare_input(const OnnxValueInfo& info, const std::string& name, const Type& type) {
    const std::string original(info.name);
    if (options_.states.contains(original)) {
      if (type.dtype != DType::fp32 || !type.fixed())
        throw errorf("the state '{}' must have floating-point numbers and a fixed shape",
                     onnx_printable(original))
            .found(type.text());
      net_.states.emplace(original, options_.states.at(original));
      states_.emplace(original, Value{name, Type::state(DType::fp16, type.shape), nullptr, {}});
      return;
    }
    if (options_.images.contains(original)) {
      const bool image = type.dtype == DType::fp32 && type.fixed() && type.rank() == 4 &&
                         type.dim(0) == Dim(1) && (type.dim(1) == Dim(1) || type.dim(1) == Dim(3));
      if (!image)
        throw errorf("the input '{}' is no image", onnx_printable(original))
            .found(type.text())
            .expected("fp32 [1, 3, height, width] or [1, 1, height, width]");
      net_.images.push_back(name);
      net_.pixels.emplace(original, options_.images.at(original));
    }
    add_input(*function_, name, type);
  }

  // The pixels of an image as the model wants them.
  Value* from_pixels(OnnxLowering& lowering, OnnxScope& scope, Value* value, const OnnxImage& image) {
    const auto channels = value->type.dim(1).size();
    if (image.bias.size() != 1 && static_cast<int64_t>(image.bias.size()) != channels)
      throw errorf("the image '{}' has {} channels, and {} biases", value->name, channels, image.bias.size());
    Value* scaled =
        lowering.emit(scope, "mul", {{"x", value}, {"y", Constant::number(image.scale, DType::fp32)}},
                      value->name + "_scaled")[0];
    const auto count = static_cast<int64_t>(image.bias.size());
    const Constant bias = Constant::numbers(image.bias, DType::fp32, {1, count, 1, 1});
    return lowering.emit(scope, "add", {{"x", scaled}, {"y", bias}}, value->name + "_pixels")[0];
  }

  Value* read_state(OnnxLowering& lowering, OnnxScope& scope, Value* state) {
    Value* half = lowering.emit(scope, "read_state", {{"input", state}}, state->name + "_read")[0];
    return lowering.emit(scope, "cast", {{"x", half}, {"dtype", Constant::text("fp32")}},
                         state->name + "_value")[0];
  }

  // An output that is the next value of a state.
  bool write_state(OnnxLowering& lowering, OnnxScope& scope, const OnnxValueInfo& output) {
    for (const auto& [past, present] : options_.states) {
      if (present != output.name) continue;
      Value* state = state_inputs_.at(past);
      Value* value = lowering.value(scope, lowering.find(scope, output.name), output.name);
      if (value->type.shape != state->type.shape)
        throw errorf("'{}' and '{}' cannot be one state", onnx_printable(past), onnx_printable(present))
            .found(value->type.text())
            .expected(state->type.text());
      Value* half =
          scope.builder->op("cast", {{"x", value}, {"dtype", Constant::text("fp16")}}, value->name + "_fp16");
      scope.builder->ops("write_state", {{"input", state}, {"data", half}}, state->name + "_write");
      return true;
    }
    return false;
  }

  void bind_inputs(OnnxLowering& lowering, OnnxScope& scope) {
    size_t next = 0;
    for (const OnnxValueInfo* info : model_.graph().open_inputs()) {
      const std::string name(info->name);
      if (const auto it = options_.constants.find(name); it != options_.constants.end()) {
        bind_constant(scope, *info, it->second);
        continue;
      }
      if (const auto state = state_inputs_.find(name); state != state_inputs_.end()) {
        scope.names.emplace(info->name,
                            OnnxOperand{read_state(lowering, scope, state->second), info->type, nullptr});
        continue;
      }
      Value* value = function_->inputs[next++].get();
      if (const auto image = options_.images.find(name); image != options_.images.end())
        value = from_pixels(lowering, scope, value, image->second);
      const bool scalar = info->has_shape && info->dims.empty();
      if (scalar)
        value = lowering.emit(scope, "squeeze", {{"x", value}, {"axes", Constant::ints({0})}},
                              value->name + "_scalar")[0];
      if (info->type == OnnxType::boolean)
        value = lowering.emit(scope, "not_equal", {{"x", value}, {"y", Constant::integer(0)}},
                              value->name + "_bool")[0];
      scope.names.emplace(info->name, OnnxOperand{value, info->type, nullptr});
    }
  }

  // The shape that the model says, where a list of numbers fits it.
  static std::vector<int64_t> constant_shape(const OnnxValueInfo& info, const Array& array) {
    std::vector<int64_t> dims;
    int64_t count = 1;
    for (const OnnxDim& dim : info.dims) {
      dims.push_back(dim.known() ? dim.size : 1);
      count *= dims.back();
    }
    return info.has_shape && array.shape().size() == 1 && count == array.size() ? dims : array.shape();
  }

  void bind_constant(OnnxScope& scope, const OnnxValueInfo& info, const Array& array) {
    const DType dtype = mil_dtype(info.type);
    const std::vector<int64_t> shape = constant_shape(info, array);
    Constant constant;
    if (dtype == DType::fp32) {
      constant = Constant::numbers(array.to_float(), DType::fp32, to_shape(shape));
    } else {
      std::vector<int64_t> values = array.to_int();
      if (values.size() <= 64) net_.fixed[std::string(info.name)] = values;
      for (int64_t& v : values) v = std::clamp<int64_t>(v, INT32_MIN, INT32_MAX);
      constant = Constant::ints(values);
      constant.type.shape = to_shape(shape);
      if (dtype == DType::boolean) {
        Constant::Bytes bytes;
        for (const int64_t v : values) bytes.push_back(static_cast<std::byte>(v != 0));
        constant = Constant::from_bytes(Type::tensor(dtype, shape), std::move(bytes));
      }
    }
    Value* value = scope.builder->constant(std::move(constant), info.name);
    scope.names.emplace(info.name, OnnxOperand{value, info.type, nullptr});
  }

  void give_output(OnnxLowering& lowering, OnnxScope& scope, const OnnxValueInfo& output) {
    try {
      const OnnxOperand operand = lowering.find(scope, output.name);
      Value* value = lowering.value(scope, operand, output.name);
      if (value->type.dtype == DType::boolean)
        value = scope.builder->op("cast", {{"x", value}, {"dtype", Constant::text("int32")}},
                                  value->name + "_int");
      if (value->type.rank() == 0)
        value = scope.builder->op("expand_dims", {{"x", value}, {"axes", Constant::ints({0})}},
                                  value->name + "_1d");
      // An output is an operation of its own with the output's name.
      if (value->name != safe_name(output.name) || !value->producer || given_.contains(value) ||
          value->constant() || value->producer->outputs.size() != 1)
        value = scope.builder->op("identity", {{"x", value}}, value->name + "_out");
      given_.insert(value);
      const std::string name = clean(output.name);
      if (value->name != name) scope.builder->rename(value, name);
      if (value->name != name) {
        net_.names.erase(name);
        taken_.insert(value->name);
        net_.names[value->name] = std::string(output.name);
      }
      function_->body.outputs.push_back(value);
    } catch (Error& e) {
      e.within(fmt::format("output '{}'", onnx_printable(output.name)));
      throw;
    }
  }

  // Inputs that only chose a branch which is fixed now.
  void drop_decided_inputs() {
    std::set<const Value*> used(function_->body.outputs.begin(), function_->body.outputs.end());
    for_each_op(std::as_const(function_->body), [&](const Operation& op) {
      for (const Input& input : op.inputs)
        for (const Binding& binding : input.bindings) used.insert(binding.value);
      for (const auto& block : op.blocks) used.insert(block->outputs.begin(), block->outputs.end());
    });
    for (const OnnxChoice& choice : net_.choices) {
      const auto unused = [&](const auto& input) {
        return input->name == choice.input && !used.contains(input.get());
      };
      if (std::erase_if(function_->inputs, unused) == 0) continue;
      const auto renamed = net_.names.find(choice.input);
      const std::string original = renamed == net_.names.end() ? choice.input : renamed->second;
      if (choice.value) net_.fixed[original] = {*choice.value};
      net_.names.erase(choice.input);
    }
  }

  void check_program() const {
    const std::vector<Fault> faults = verify(net_.program, 1);
    if (!faults.empty()) throw Error(faults[0].text());
  }

  const OnnxModel& model_;
  const OnnxNetworkOptions& options_;
  InputTypes types_;
  OnnxNetwork net_;
  Function* function_ = nullptr;
  std::set<std::string> taken_;
  std::set<const Value*> given_;
  std::map<std::string, Value> states_;
  std::map<std::string, Value*> state_inputs_;
};

}  // namespace

OnnxNetwork lower_network(const OnnxModel& model, const OnnxNetworkOptions& options) {
  try {
    check_operators(model);
    return NetworkBuilder(model, options).build();
  } catch (Error& e) {
    e.within(model.path());
    throw;
  }
}

}  // namespace anemone
