#include "mil/verify.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "mil/rules.h"

namespace anemone {
namespace {

// Constants up to this size are shown to type rules.
constexpr int64_t kSmall = 4096;

bool small_tensor(const Constant& c) {
  return c.type.is_tensor() && c.type.dtype != DType::string && c.type.fixed() && c.type.size() <= kSmall &&
         !std::holds_alternative<Constant::Source>(c.data) && !(c.is_blob() && !std::get<Blob>(c.data).file);
}

bool is_identifier(const std::string& name) {
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                  c == '@';
         });
}

class Verifier {
 public:
  Verifier(const Program& program, size_t most) : program_(program), most_(most) {}

  std::vector<Fault> run() {
    for (const auto& function : program_.functions) check(*function);
    return std::move(faults_);
  }

 private:
  void add(const char* rule, const Operation* op, std::string message) {
    if (faults_.size() < most_)
      faults_.push_back({rule, function_->name, op ? fmt::format("'{}' ({})", op->name(), op->type) : "",
                         std::move(message), op});
  }

  void define(const Value& value, const Operation* op) {
    if (!is_identifier(value.name)) add("V01", op, fmt::format("'{}' is not a name", value.name));
    if (!names_.insert(value.name).second) add("V02", op, fmt::format("'{}' is defined twice", value.name));
    visible_.insert(&value);
    const bool table = op && op->type.starts_with("constexpr_");
    if (value.type.rank() > 5 && !table)
      add("V10", op, fmt::format("'{}' has rank {}", value.name, value.type.rank()));
  }

  void check(const Function& function) {
    function_ = &function;
    names_.clear();
    visible_.clear();
    if (!is_identifier(function.name)) add("V01", nullptr, fmt::format("'{}' is not a name", function.name));
    for (const auto& input : function.inputs) {
      define(*input, nullptr);
      const bool int8_state = function.opset >= Opset::ios26 && input->type.dtype == DType::int8;
      if (input->type.kind == Type::Kind::state &&
          (!input->type.fixed() || (input->type.dtype != DType::fp16 && !int8_state)))
        add("V11", nullptr, fmt::format("the state '{}' is {}", input->name, input->type.text()));
    }
    if (function.body.outputs.empty()) add("V12", nullptr, "the function has no outputs");
    check(function.body, nullptr);
  }

  void check(const Block& block, const Operation* holder) {
    for (const auto& input : block.inputs) define(*input, holder);
    for (const auto& op : block.ops) check(*op);
    for (const Value* output : block.outputs)
      if (!visible_.contains(output))
        add("V03", holder, fmt::format("the output '{}' is not defined", output->name));
  }

  void check(const Operation& op) {
    for (const Input& input : op.inputs)
      for (const Binding& binding : input.bindings)
        if (binding.value && !visible_.contains(binding.value))
          add("V03", &op, fmt::format("'{}' is used before it is defined", binding.value->name));
    for (const auto& block : op.blocks) {
      const auto outer_names = names_;
      const auto outer_values = visible_;
      check(*block, &op);
      names_ = outer_names;
      visible_ = outer_values;
    }
    for (const auto& output : op.outputs) define(*output, &op);
    check_schema(op);
  }

  void check_schema(const Operation& op) {
    const Op* schema = find_op(op.type);
    if (!schema || !schema->version(function_->opset)) {
      add("V04", &op, fmt::format("there is no '{}' in {}", op.type, opset_info(function_->opset).text_name));
      return;
    }
    if (op.type == "const") return check_constant(op);
    OpBinding binding;
    try {
      binding = OpBinding::bind(op, function_->opset);
    } catch (const Error& e) {
      add("V05", &op, e.what());
      return;
    }
    if (op.type == "while_loop" || op.type == "cond") check_blocks(op);
    const auto& params = binding.version->params;
    for (size_t p = 0; p < params.size(); ++p)
      for (int k = 0; k < binding.ranges[p].count && (params[p].flags & kConst); ++k) {
        const auto i = static_cast<size_t>(binding.ranges[p].begin + k);
        const Binding* source = binding.sources[i];
        const bool made = source && source->value && source->value->producer &&
                          source->value->producer->type.starts_with("constexpr_");
        if (!binding.operands[i].constant && !made)
          add("V06", &op, fmt::format("'{}' must be a constant", params[p].name));
      }
    try {
      const Types types = declared_types(op, function_->opset);
      if (types.size() != op.outputs.size())
        add("V07", &op,
            fmt::format("returns {} values, but {} are declared", types.size(), op.outputs.size()));
      for (size_t i = 0; i < std::min(types.size(), op.outputs.size()); ++i)
        if (!may_be_declared(types[i], op.outputs[i]->type))
          add("V07", &op,
              fmt::format("'{}' is declared {} but is {}", op.outputs[i]->name, op.outputs[i]->type.text(),
                          types[i].text()));
    } catch (const Error& e) {
      add("V07", &op, e.what());
    }
  }

  void check_constant(const Operation& op) {
    const auto it = op.attributes.find("val");
    if (it == op.attributes.end() || op.outputs.size() != 1) return add("V08", &op, "has no value");
    if (it->second.type != op.outputs[0]->type)
      add("V08", &op,
          fmt::format("is declared {} but holds {}", op.outputs[0]->type.text(), it->second.type.text()));
    try {
      it->second.check_size();
    } catch (const Error& e) {
      add("V08", &op, e.what());
    }
  }

  void check_blocks(const Operation& op) {
    if (op.blocks.size() != 2)
      return add("V09", &op, fmt::format("has {} blocks instead of 2", op.blocks.size()));
    const Block& first = *op.blocks[0];
    const Block& second = *op.blocks[1];
    const size_t n = op.outputs.size();
    if (op.type == "cond") {
      if (!first.inputs.empty() || !second.inputs.empty()) add("V09", &op, "its blocks take no inputs");
      if (first.outputs.size() != n || second.outputs.size() != n)
        add("V09", &op, "its blocks return a different number of values");
      return;
    }
    if (first.inputs.size() != n || second.inputs.size() != n || second.outputs.size() != n ||
        first.outputs.size() != 1)
      add("V09", &op, "its blocks do not take and give the loop variables");
  }

  const Program& program_;
  const size_t most_;
  const Function* function_ = nullptr;
  std::vector<Fault> faults_;
  std::unordered_set<std::string> names_;
  std::unordered_set<const Value*> visible_;
};

}  // namespace

std::string Fault::text() const {
  std::string out = rule + " in function '" + function + "'";
  if (!op.empty()) out += ", op " + op;
  return out + ": " + message;
}

Types declared_types(const Operation& op, Opset opset) {
  const OpBinding binding = OpBinding::bind(op, opset);
  std::vector<const void*> data(binding.operands.size(), nullptr);
  std::vector<std::vector<uint32_t>> decoded(binding.operands.size());
  for (size_t i = 0; i < data.size(); ++i) {
    const Constant* constant = binding.operands[i].constant;
    if (!constant || !small_tensor(*constant)) continue;
    const auto stored = stored_constant(*constant);
    decoded[i].resize(static_cast<size_t>(stored->type().size()) + 1);
    stored->read(0, stored->type().size(), decoded[i].data());
    data[i] = decoded[i].data();
  }
  return infer_types(binding, data);
}

std::vector<Fault> verify(const Program& program, size_t most) { return Verifier(program, most).run(); }

bool may_be_declared(const Type& given, const Type& declared) {
  // "Any number of dimensions" is read as an unknown one, with the file's own message kept beside it.
  const bool any = declared.is_tensor() && declared.rank() == 1 && !declared.dim(0).known() &&
                   !declared.extra.empty() && given.is_tensor() && given.dtype == declared.dtype;
  return any || compatible(given, declared);
}

}  // namespace anemone
