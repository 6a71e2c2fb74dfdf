#include "mil/passes/half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/half.h"
#include "mil/op.h"
#include "mil/stored.h"
#include "mil/verify.h"

namespace anemone {
namespace {

constexpr float kLeastEpsilon = 0x1p-23f;  // a small number that fp16 still has
constexpr float kMask = 1e30f;             // beyond it a constant stands for "never"

constexpr std::array<std::string_view, 12> kWide = {
    "square",  "pow",    "reduce_sum_square", "reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp",
    "l2_norm", "cumsum", "range_1d",          "reduce_prod",    "exp2",           "list_write"};
constexpr std::array<std::string_view, 7> kFollow = {"reduce_mean", "reduce_sum", "add",    "sqrt",
                                                     "rsqrt",       "real_div",   "inverse"};

template <size_t N>
bool one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A constant in fp32, given in fp16 when it is written.
class HalvedSource : public WeightSource {
 public:
  explicit HalvedSource(std::shared_ptr<WeightSource> from)
      : from_(std::move(from)), type_(Type::tensor(DType::fp16, from_->type().shape)) {}
  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { from_->prepare(pool); }
  bool late() const override { return from_->late(); }
  int64_t row_step() const override { return from_->row_step(); }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    std::vector<float> floats(out.size() / 2);
    from_->rows(begin, end, std::as_writable_bytes(std::span(floats)));
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t half = half_from_float(std::clamp(floats[i], -kHalfMax, kHalfMax));
      std::memcpy(out.data() + 2 * i, &half, 2);
    }
  }

 private:
  std::shared_ptr<WeightSource> from_;
  Type type_;
};

bool is_float_tensor(const Type& type) { return type.is_tensor() && type.dtype == DType::fp32; }

Constant halved(const Constant& c) {
  if (const auto* source = std::get_if<Constant::Source>(&c.data))
    return Constant::from_source(std::make_shared<HalvedSource>(*source));
  std::vector<float> values = decode_floats(*stored_constant(c));
  for (float& v : values)
    if (std::isfinite(v)) v = std::clamp(v, -kHalfMax, kHalfMax);
  return Constant::numbers(values, DType::fp16, c.type.shape);
}

class Halver {
 public:
  Halver(Function& function, const HalfOptions& options) : function_(function), options_(options) {
    for_each_op(std::as_const(function.body), [&](const Operation& op) {
      for (const auto& out : op.outputs) names_.insert(out->name);
    });
    for (const auto& in : function.inputs) names_.insert(in->name);
  }

  HalfReport run() {
    for (const auto& input : function_.inputs)
      if (is_float_tensor(input->type) && !options_.keep.contains(input->name))
        input->type.dtype = DType::fp16;
    block(function_.body, nullptr);
    give_halves();
    return report_;
  }

 private:
  // Casts made so far: by value and type, in the block where they hold.
  struct Scope {
    Scope* outer = nullptr;
    Block* out = nullptr;
    std::unordered_map<const Value*, Value*> halves, singles;
  };

  std::string unique(const std::string& base) {
    std::string name = base;
    for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    return name;
  }

  Value* append_const(Scope& scope, Constant constant, const std::string& name) {
    auto op = std::make_unique<Operation>();
    op->type = "const";
    op->attributes.emplace("name", Constant::text(name));
    op->outputs.push_back(std::make_unique<Value>(Value{name, constant.type, op.get(), {}}));
    op->attributes.emplace("val", std::move(constant));
    Value* value = op->outputs[0].get();
    scope.out->ops.push_back(std::move(op));
    return value;
  }

  Value* cast(Scope& scope, Value* value, DType dtype) {
    for (Scope* s = &scope; s; s = s->outer) {
      auto& made = dtype == DType::fp16 ? s->halves : s->singles;
      if (const auto it = made.find(value); it != made.end()) return it->second;
    }
    Value* out = nullptr;
    if (const Constant* constant = value->constant(); constant && dtype == DType::fp16) {
      out = append_const(scope, halved(*constant), unique(value->name + "_fp16"));
    } else {
      const std::string name = unique(value->name + (dtype == DType::fp16 ? "_fp16" : "_fp32"));
      Value* kind = append_const(scope, Constant::text(dtype == DType::fp16 ? "fp16" : "fp32"),
                                 unique(name + "_dtype"));
      auto op = std::make_unique<Operation>();
      op->type = "cast";
      op->attributes.emplace("name", Constant::text(name));
      op->inputs.push_back({"x", {{value, nullptr, {}}}, {}});
      op->inputs.push_back({"dtype", {{kind, nullptr, {}}}, {}});
      op->outputs.push_back(
          std::make_unique<Value>(Value{name, Type::tensor(dtype, value->type.shape), op.get(), {}}));
      out = op->outputs[0].get();
      scope.out->ops.push_back(std::move(op));
    }
    (dtype == DType::fp16 ? scope.halves : scope.singles).emplace(value, out);
    return out;
  }

  // The whole operation's floating-point inputs in one type.
  void set_inputs(Scope& scope, Operation& op, DType dtype) {
    for (Input& input : op.inputs)
      for (Binding& b : input.bindings) {
        if (b.literal && is_float_tensor(b.literal->type) && dtype == DType::fp16)
          b.literal = std::make_shared<const Constant>(halved(*b.literal));
        if (!b.value || !b.value->type.is_tensor() || b.value->type.dtype == dtype) continue;
        if (b.value->type.dtype != DType::fp32 && b.value->type.dtype != DType::fp16) continue;
        const bool epsilon = input.name == "epsilon" && dtype == DType::fp16;
        b.value = epsilon ? half_epsilon(scope, b.value) : cast(scope, b.value, dtype);
      }
  }

  Value* half_epsilon(Scope& scope, Value* value) {
    const Constant* constant = value->constant();
    const float given = constant ? decode_floats(*stored_constant(*constant)).at(0) : 0;
    if (!constant || given == 0 || given >= kLeastEpsilon) return cast(scope, value, DType::fp16);
    return append_const(scope, Constant::number(kLeastEpsilon, DType::fp16), unique(value->name + "_fp16"));
  }

  // A small constant that fp16 cannot hold: a number beyond its range, or all of them too small. A few numbers near
  // zero in a vector of others may become zero.
  static bool leaves_range(const Constant& c) {
    if (!is_float_tensor(c.type) || std::holds_alternative<Constant::Source>(c.data) || c.type.size() > 4096)
      return false;
    float largest = 0;
    for (const float v : decode_floats(*stored_constant(c)))
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    return (largest > kHalfMax && largest < kMask) || (largest != 0 && largest < 0x1p-25f);
  }

  static bool takes_halves(const Operation& op, Opset opset) {
    const Op* schema = find_op(op.type);
    const OpVersion* version = schema ? schema->version(opset) : nullptr;
    if (!version) return false;
    for (const Param& param : version->params)
      if (const Input* input = op.input(param.name))
        for (const Binding& b : input->bindings)
          if (b.type().is_tensor() && (b.type().dtype == DType::fp32 || b.type().dtype == DType::fp16) &&
              !(param.types & only(DType::fp16)))
            return false;
    return true;
  }

  bool is_island(const Operation& op) const {
    if (!takes_halves(op, function_.opset) || one_of(kWide, op.type)) return true;
    // x * x is a square.
    if (op.type == "mul" && op.value("x") && op.value("x") == op.value("y")) return true;
    bool follows = one_of(kFollow, op.type), any = false;
    for (const Input& input : op.inputs)
      for (const Binding& b : input.bindings) {
        if (const Constant* c = b.constant()) {
          if (input.name != "epsilon" && leaves_range(*c)) return true;
          continue;
        }
        if (!b.value || !b.value->type.is_float()) continue;
        any = true;
        follows = follows && island_values_.contains(b.value);
      }
    return follows && any;
  }

  void nested(Operation& op, Scope& scope) {
    set_inputs(scope, op, DType::fp32);
    for (const auto& inner : op.blocks) {
      block(*inner, &scope);
    }
  }

  void block(Block& b, Scope* outer) {
    std::vector<std::unique_ptr<Operation>> old = std::move(b.ops);
    b.ops.clear();
    Scope scope{outer, &b, {}, {}};
    for (auto& op : old) {
      if (op->type == "const" || op->type.starts_with("constexpr_")) {
        b.ops.push_back(std::move(op));
        continue;
      }
      if (!op->blocks.empty()) {
        nested(*op, scope);
        b.ops.push_back(std::move(op));
        continue;
      }
      convert(*op, scope);
      b.ops.push_back(std::move(op));
    }
    if (outer)  // what leaves a nested block stays as it was declared
      for (Value*& out : b.outputs)
        if (out->type.is_tensor() && out->type.dtype == DType::fp16) out = cast(scope, out, DType::fp32);
  }

  void convert(Operation& op, Scope& scope) {
    const bool any_float = [&] {
      for (const Input& input : op.inputs)
        for (const Binding& b : input.bindings)
          if (b.type().is_tensor() && b.type().is_float()) return true;
      return false;
    }();
    if (op.type == "cast") return convert_cast(op, scope);
    if (!any_float) return;
    const bool island = is_island(op);
    set_inputs(scope, op, island ? DType::fp32 : DType::fp16);
    ++(island ? report_.islands : report_.halves);
    const Types types = declared_types(op, function_.opset);
    for (size_t i = 0; i < types.size(); ++i) {
      op.outputs[i]->type = types[i];
      if (island) island_values_.insert(op.outputs[i].get());
    }
  }

  // A cast to fp32 becomes one to fp16, unless it undoes one to fp16 that was there to round.
  void convert_cast(Operation& op, Scope& scope) {
    Value* x = op.value("x");
    const Input* dtype = op.input("dtype");
    if (!x || !dtype || dtype->bindings.empty()) return;
    const Constant* to = dtype->bindings[0].constant();
    if (!to || !to->is_strings() || std::get<Constant::Strings>(to->data).at(0) != "fp32") return;
    op.inputs.erase(
        std::remove_if(op.inputs.begin(), op.inputs.end(), [](const Input& i) { return i.name == "dtype"; }),
        op.inputs.end());
    Value* kind = append_const(scope, Constant::text("fp16"), unique(op.outputs[0]->name + "_dtype"));
    op.inputs.push_back({"dtype", {{kind, nullptr, {}}}, {}});
    op.outputs[0]->type.dtype = DType::fp16;
    ++report_.halves;
  }

  void give_halves() {
    Scope scope{nullptr, &function_.body, {}, {}};
    for (Value*& out : function_.body.outputs) {
      if (!out->type.is_tensor() || out->type.dtype != DType::fp32) continue;
      const std::string name = out->name;
      Value* half = cast(scope, out, DType::fp16);
      out->name = unique(name + "_fp32");  // the output keeps its name
      if (out->producer) out->producer->attributes.insert_or_assign("name", Constant::text(out->name));
      half->name = name;
      half->producer->attributes.insert_or_assign("name", Constant::text(name));
      out = half;
    }
  }

  Function& function_;
  const HalfOptions& options_;
  HalfReport report_;
  std::unordered_set<std::string> names_;
  std::unordered_set<const Value*> island_values_;
};

}  // namespace

HalfReport to_half(Function& function, const HalfOptions& options) {
  const HalfReport report = Halver(function, options).run();
  remove_dead_ops(function);
  return report;
}

}  // namespace anemone
