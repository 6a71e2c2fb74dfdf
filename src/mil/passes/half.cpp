#include "mil/passes/half.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/half.h"
#include "mil/builder.h"
#include "mil/op.h"
#include "mil/passes/number_ranges.h"
#include "mil/passes/rewriter.h"
#include "mil/stored.h"
#include "mil/verify.h"

namespace anemone {
namespace {

constexpr float kLeastEpsilon = 0x1p-23f;  // a small number that fp16 still has
constexpr double kMask = 1e30;             // beyond it a constant stands for "never"
constexpr double kMostWhole = 2048;        // fp16 has all whole numbers up to it
constexpr double kMostCounted = 0x1p31;    // from here on the size of whole numbers is not known
constexpr double kMostExponent = 11;       // e^11 is in fp16's range

constexpr std::array<std::string_view, 12> kWide = {
    "square",  "pow",    "reduce_sum_square", "reduce_l2_norm", "reduce_log_sum", "reduce_log_sum_exp",
    "l2_norm", "cumsum", "range_1d",          "reduce_prod",    "exp2",           "list_write"};
constexpr std::array<std::string_view, 8> kFollow = {"reduce_mean", "reduce_sum", "add",     "sqrt",
                                                     "rsqrt",       "real_div",   "inverse", "log"};
// Whole numbers that are too large for fp16, and what is computed from them, stay in fp32 through these as well.
constexpr std::array<std::string_view, 7> kFollowWhole = {"sub", "mul", "matmul", "floor_div",
                                                          "mod", "sin", "cos"};
// Beside operations that only choose: exact where their inputs are.
constexpr std::array<std::string_view, 6> kExact = {"abs", "ceil", "clip", "floor", "pad", "round"};

template <size_t N>
bool one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool keeps_exact(const Operation& op) { return only_chooses(op.type) || one_of(kExact, op.type); }

bool is_product(const Operation& op) { return op.type == "mul" || op.type == "real_div"; }

float in_range(float v) { return std::isfinite(v) ? std::clamp(v, -kHalfMax, kHalfMax) : v; }

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
      const uint16_t half = half_from_float(in_range(floats[i]));
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
  for (float& v : values) v = in_range(v);
  return Constant::numbers(values, DType::fp16, c.type.shape);
}

// Values that must not be rounded to fp16 on their way, because whole numbers are made of them or they scale some.
class ExactValues {
 public:
  ExactValues(const Function& function, const NumberRanges& ranges) : ranges_(ranges) {
    for_each_op(function.body, [&](const Operation& op) {
      if (op.type == "cast" && !op.outputs[0]->type.is_float() && op.outputs[0]->type.dtype != DType::boolean)
        becomes_whole(op.value("x"));
      if (op.type == "matmul" || op.type == "conv")
        if (is_large_count(op.outputs[0].get()))
          for (const char* codes : {"x", "y", "weight"}) are_codes(op.value(codes));
      if (!is_product(op)) return;
      Value *x = op.value("x"), *y = op.value("y");
      if (is_large_count(x)) scales(y);
      if (is_large_count(y)) scales(x);
    });
  }

  bool contains(const Value* value) const { return values_.contains(value); }
  // Sums and products of whole numbers, which fp16 does not have but whose size is known.
  bool is_large_count(const Value* value) const {
    if (!value || value->constant()) return false;
    const NumberRange r = ranges_.of(value);
    return r.whole && r.most() > kMostWhole && r.most() < kMostCounted;
  }

 private:
  bool fits(const Value* value) const {
    const NumberRange r = ranges_.of(value);
    return r.whole && r.most() <= kMostWhole;
  }

  template <class Through>
  void trace(const Value* from, Through through) {
    std::vector<const Value*> open = {from};
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      if (!value || value->constant() || !value->type.is_tensor() || !value->type.is_float()) continue;
      if (!values_.insert(value).second || !value->producer) continue;
      for (const Input& input : value->producer->inputs)
        for (const Binding& b : input.bindings)
          if (through(*value->producer, b.value)) open.push_back(b.value);
    }
  }

  void becomes_whole(const Value* value) {
    if (!value || fits(value)) return;
    trace(value, [&](const Operation& op, const Value* input) {
      return input && (keeps_exact(op) || ranges_.of(input).whole) && !fits(input);
    });
  }

  // Small numbers, but which of them it is depends on the last digit before they are rounded.
  void are_codes(const Value* value) {
    trace(value, [&](const Operation& op, const Value* input) {
      return input && (keeps_exact(op) || ranges_.of(input).whole);
    });
  }

  void scales(const Value* value) {
    trace(value, [](const Operation& op, const Value* input) {
      return input && (is_product(op) || only_chooses(op.type));
    });
  }

  const NumberRanges& ranges_;
  std::unordered_set<const Value*> values_;
};

class Halver {
 public:
  Halver(Function& function, const HalfOptions& options)
      : function_(function),
        options_(options),
        builder_(function),
        ranges_(function),
        exact_(function, ranges_) {}

  HalfReport run() {
    for (const auto& input : function_.inputs)
      if (is_float_tensor(input->type) && !options_.keep.contains(input->name))
        input->type.dtype = DType::fp16;
    Scope scope{nullptr, &builder_, {}, {}};
    block(function_.body, scope);
    give_halves();
    return report_;
  }

 private:
  // Casts made so far: by value and type, in the block where they hold.
  struct Scope {
    Scope* outer = nullptr;
    Builder* builder = nullptr;
    std::unordered_map<const Value*, Value*> halves, singles;
  };

  Value* cast(Scope& scope, Value* value, DType dtype) {
    for (Scope* s = &scope; s; s = s->outer) {
      auto& made = dtype == DType::fp16 ? s->halves : s->singles;
      if (const auto it = made.find(value); it != made.end()) return it->second;
    }
    Value* out = nullptr;
    if (dtype == DType::fp16 && whole_values_.contains(value) &&
        ranges_.of(value).most() > static_cast<double>(kHalfMax))
      report_.narrowed.push_back(value->name);
    if (const Constant* constant = value->constant(); constant && dtype == DType::fp16) {
      out = scope.builder->constant(halved(*constant), value->name + "_fp16");
    } else {
      const std::string name(dtype == DType::fp16 ? "fp16" : "fp32");
      out = scope.builder->op("cast", {{"x", value}, {"dtype", Constant::text(name)}},
                              value->name + "_" + name);
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
    return scope.builder->constant(Constant::number(kLeastEpsilon, DType::fp16), value->name + "_fp16");
  }

  // A constant that fp16 cannot hold: a number beyond its range, or all of them too small. A few numbers near zero in
  // a vector of others may become zero.
  bool leaves_range(const Constant& c) const {
    if (!is_float_tensor(c.type)) return false;
    const double largest = ranges_.numbers(c).most();
    return (largest > static_cast<double>(kHalfMax) && largest < kMask) ||
           (largest != 0 && largest < 0x1p-25);
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

  // e^x beyond fp16's range. Less the largest number, as in a softmax, it is at most 1.
  bool may_overflow(const Operation& op) const {
    if (op.type != "exp" || ranges_.of(op.value("x")).high <= kMostExponent) return false;
    const Operation* sub = made_by(op.value("x"), "sub");
    const Operation* most = sub ? made_by(sub->value("y"), "reduce_max") : nullptr;
    return !most || most->value("x") != sub->value("x");
  }

  // What an operation is given: constants, and values that are in fp32 already.
  struct Given {
    bool beyond = false;  // a constant that leaves fp16's range
    bool never = false;   // a constant that stands for "never": fp16's largest number does as well
    bool any = false;     // a value that is computed
    bool islands = true;  // all of these are in fp32
    bool whole = false;   // one of these comes from large whole numbers
    bool counts = false;  // and its size is known
    bool scaled = false;  // one of these is such a number times a scale
  };

  Given given(const Operation& op) const {
    Given g;
    for (const Input& input : op.inputs)
      for (const Binding& b : input.bindings) {
        if (const Constant* c = b.constant()) {
          if (input.name == "epsilon" || !is_float_tensor(c->type)) continue;
          g.beyond = g.beyond || leaves_range(*c);
          g.never = g.never || ranges_.numbers(*c).most() >= kMask;
          continue;
        }
        if (!b.value || !b.value->type.is_float()) continue;
        g.any = true;
        g.islands = g.islands && island_values_.contains(b.value);
        g.whole = g.whole || whole_values_.contains(b.value);
        g.counts = g.counts || exact_.is_large_count(b.value);
        g.scaled = g.scaled || scaled_values_.contains(b.value);
      }
    return g;
  }

  // Large whole numbers, or what is made of them.
  bool stays_whole(const Operation& op, const Given& g) const {
    const Value* out = op.outputs[0].get();
    if (g.never || !out->type.is_float()) return false;
    const NumberRange range = ranges_.of(out);
    if (range.whole && range.most() > kMostWhole && (range.counted || range.most() < kMostCounted))
      return true;
    return g.whole && g.islands && !is_scaled(op, g) &&
           (one_of(kFollow, op.type) || one_of(kFollowWhole, op.type) || keeps_exact(op));
  }

  // Sums of products of codes times one scale, or two one after the other.
  static bool is_scaled(const Operation& op, const Given& g) {
    return is_product(op) && !g.never && (g.counts || (g.scaled && g.islands));
  }

  bool is_island(const Operation& op, const Given& g, bool whole) const {
    if (!takes_halves(op, function_.opset) || one_of(kWide, op.type) || may_overflow(op)) return true;
    // x * x is a square.
    if (op.type == "mul" && op.value("x") && op.value("x") == op.value("y")) return true;
    if (std::any_of(op.outputs.begin(), op.outputs.end(),
                    [&](const auto& o) { return exact_.contains(o.get()); }))
      return true;
    return g.beyond || whole || is_scaled(op, g) || (one_of(kFollow, op.type) && g.any && g.islands);
  }

  void nested(Operation& op, Scope& scope) {
    set_inputs(scope, op, DType::fp32);
    for (const auto& inner : op.blocks) {
      Builder builder(*scope.builder, *inner);
      Scope own{&scope, &builder, {}, {}};
      block(*inner, own);
      for (Value*& out : inner->outputs)  // what leaves a nested block stays as it was declared
        if (out->type.is_tensor() && out->type.dtype == DType::fp16) out = cast(own, out, DType::fp32);
    }
  }

  void block(Block& b, Scope& scope) {
    std::vector<std::unique_ptr<Operation>> old = std::move(b.ops);
    b.ops.clear();
    for (auto& op : old) {
      if (!op->blocks.empty())
        nested(*op, scope);
      else if (op->type != "const" && !op->type.starts_with("constexpr_"))
        convert(*op, scope);
      b.ops.push_back(std::move(op));
    }
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
    const Given g = given(op);
    const bool whole = !op.outputs.empty() && stays_whole(op, g), island = is_island(op, g, whole);
    set_inputs(scope, op, island ? DType::fp32 : DType::fp16);
    ++(island ? report_.islands : report_.halves);
    const Types types = declared_types(op, function_.opset);
    for (size_t i = 0; i < types.size(); ++i) {
      op.outputs[i]->type = types[i];
      if (island) island_values_.insert(op.outputs[i].get());
      if (whole && op.type != "sin" && op.type != "cos") whole_values_.insert(op.outputs[i].get());
      if (!whole && is_scaled(op, g)) scaled_values_.insert(op.outputs[i].get());
    }
  }

  // A cast to fp32 becomes one to fp16, unless it makes floats of whole numbers that fp16 does not have.
  void convert_cast(Operation& op, Scope& scope) {
    Value *x = op.value("x"), *out = op.outputs[0].get();
    const Input* dtype = op.input("dtype");
    if (!x || !dtype || dtype->bindings.empty()) return;
    const Constant* to = dtype->bindings[0].constant();
    if (!to || !to->is_strings() || std::get<Constant::Strings>(to->data).at(0) != "fp32") return;
    const bool large = !x->type.is_float() && ranges_.of(out).most() > kMostWhole;
    if (large || island_values_.contains(x)) {
      ++report_.islands;
      island_values_.insert(out);
      if (large || whole_values_.contains(x)) whole_values_.insert(out);
      return;
    }
    std::erase_if(op.inputs, [](const Input& i) { return i.name == "dtype"; });
    Value* kind = scope.builder->constant(Constant::text("fp16"), out->name + "_dtype");
    op.inputs.push_back({"dtype", {{kind, nullptr, {}}}, {}});
    out->type.dtype = DType::fp16;
    ++report_.halves;
  }

  void give_halves() {
    Scope scope{nullptr, &builder_, {}, {}};
    for (Value*& out : function_.body.outputs) {
      if (!out->type.is_tensor() || out->type.dtype != DType::fp32) continue;
      const std::string name = out->name;
      Value* half = cast(scope, out, DType::fp16);
      out->name = builder_.unique_name(name + "_fp32");  // the output keeps its name
      if (out->producer) out->producer->attributes.insert_or_assign("name", Constant::text(out->name));
      half->name = name;
      half->producer->attributes.insert_or_assign("name", Constant::text(name));
      out = half;
    }
  }

  Function& function_;
  const HalfOptions& options_;
  Builder builder_;
  NumberRanges ranges_;
  ExactValues exact_;
  HalfReport report_;
  std::unordered_set<const Value*> island_values_;  // in fp32
  std::unordered_set<const Value*> whole_values_;   // of these: large whole numbers, or made of such
  std::unordered_set<const Value*> scaled_values_;  // and large whole numbers times a scale
};

}  // namespace

HalfReport to_half(Function& function, const HalfOptions& options) {
  const HalfReport report = Halver(function, options).run();
  remove_dead_ops(function);
  return report;
}

}  // namespace anemone
