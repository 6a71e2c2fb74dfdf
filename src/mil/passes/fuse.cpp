#include "mil/passes/fuse.h"

#include <cmath>

#include "mil/passes/rewriter.h"

namespace anemone {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 26;  // of a convolution that takes up a batch norm

bool near(std::optional<float> value, double wanted) {
  return value && std::fabs(static_cast<double>(*value) - wanted) <= 1e-4 * std::fabs(wanted);
}

// The two sides of a commutative operation, in both orders.
template <class Take>
bool either_side(const Operation& op, Take take) {
  Value *x = op.value("x"), *y = op.value("y");
  return x && y && (take(x, y) || take(y, x));
}

class Fuser {
 public:
  explicit Fuser(Function& function) : r_(function) {}

  FuseReport run() {
    r_.run([&](Operation& op) {
      if (op.outputs.size() != 1 || !op.outputs[0]->type.is_tensor() || !op.outputs[0]->type.is_float())
        return false;
      if (op.type == "add") return note(op, add_bias(op), "bias") || note(op, norm_shift(op), "layer_norm");
      if (op.type == "batch_norm") return note(op, folded_norm(op), "batch_norm");
      if (op.type == "real_div") return note(op, centered_over_deviation(op), "layer_norm");
      if (op.type == "mul")
        return note(op, norm_scale(op), "layer_norm") || note(op, centered_times_inverse(op), "layer_norm") ||
               note(op, gelu(op), "gelu");
      return false;
    });
    return report_;
  }

 private:
  bool note(Operation& op, Value* by, const char* what) {
    if (!by || !r_.replace(op, by)) return false;
    ++report_.found[what];
    return true;
  }

  std::string name(const Operation& op) const { return op.outputs[0]->name + "_whole"; }

  // A constant with one number per channel, as a vector: its only dimension over 1 is `axis` of a tensor of that rank.
  Value* per_channel(Operation& op, Value* constant, int rank, int axis, int64_t channels) {
    if (!constant->constant() || !constant->type.is_tensor() || !constant->type.fixed()) return nullptr;
    const std::vector<int64_t> dims = constant->type.dims();
    if (static_cast<int>(dims.size()) > rank || constant->type.size() != channels) return nullptr;
    const int from_end = rank - axis;
    if (static_cast<int>(dims.size()) < from_end) return nullptr;
    if (dims[dims.size() - static_cast<size_t>(from_end)] != channels) return nullptr;
    if (dims.size() == 1) return constant;
    return r_.emit("reshape", {{"x", constant}, {"shape", Constant::ints({channels})}}, name(op) + "_bias");
  }

  // A linear layer or convolution, and a constant behind it that is a bias.
  Value* add_bias(Operation& op) {
    Value* out = nullptr;
    either_side(op, [&](Value* product, Value* constant) {
      Operation* layer = product->producer;
      if (!layer || in_place(*layer) || r_.uses(product) != 1 || product->type != op.outputs[0]->type)
        return false;
      const bool linear = layer->type == "linear", conv = layer->type == "conv";
      Value* weight = linear || conv ? layer->value("weight") : nullptr;
      if (!weight || !weight->constant() || !layer->value("x") || !weight->type.fixed()) return false;
      const int rank = product->type.rank();
      Value* bias = per_channel(op, constant, rank, linear ? rank - 1 : 1, weight->type.dims()[0]);
      if (!bias) return false;
      if (layer->input("bias")) {
        Value* before = layer->value("bias");
        if (!before || !before->constant()) return false;
        bias = r_.emit("add", {{"x", before}, {"y", bias}}, name(op) + "_bias");
      }
      out = linear
                ? r_.emit("linear", {{"x", layer->value("x")}, {"weight", weight}, {"bias", bias}}, name(op))
                : same_conv(*layer, weight, bias, name(op));
      return out != nullptr;
    });
    return out;
  }

  // A parameter that is a constant written in place has no value that another operation could take.
  static bool in_place(const Operation& op) {
    for (const Input& input : op.inputs)
      for (const Binding& b : input.bindings)
        if (!b.value) return true;
    return false;
  }

  Value* same_conv(const Operation& conv, Value* weight, Value* bias, const std::string& name) {
    return r_.emit("conv",
                   {{"x", conv.value("x")},
                    {"weight", weight},
                    {"bias", bias},
                    {"strides", conv.value("strides")},
                    {"pad_type", conv.value("pad_type")},
                    {"pad", conv.value("pad")},
                    {"dilations", conv.value("dilations")},
                    {"groups", conv.value("groups")}},
                   name);
  }

  // Batch normalization scales and shifts each channel: so can the weights of the convolution before it.
  Value* folded_norm(Operation& op) {
    Operation* conv = made_by(op.value("x"), "conv");
    if (!conv || in_place(*conv) || in_place(op) || r_.uses(op.value("x")) != 1) return nullptr;
    const auto numbers = [&](const char* param) { return known_floats(op.value(param), kMostWeights); };
    const auto mean = numbers("mean"), variance = numbers("variance");
    auto gamma = numbers("gamma"), beta = numbers("beta");
    auto weight = known_floats(conv->value("weight"), kMostWeights);
    auto bias = known_floats(conv->value("bias"), kMostWeights);
    if (!mean || !variance || !weight || (conv->input("bias") && !bias)) return nullptr;
    if ((op.input("gamma") && !gamma) || (op.input("beta") && !beta) || mean->empty()) return nullptr;
    const size_t channels = mean->size(), each = weight->size() / channels;
    if (!gamma) gamma = std::vector<float>(channels, 1.0f);
    if (!beta) beta = std::vector<float>(channels, 0.0f);
    if (!bias) bias = std::vector<float>(channels, 0.0f);
    const double epsilon = static_cast<double>(one_number(op.value("epsilon")).value_or(1e-5f));
    for (size_t c = 0; c < channels; ++c) {
      const double scale =
          static_cast<double>((*gamma)[c]) / std::sqrt(static_cast<double>((*variance)[c]) + epsilon);
      for (size_t k = c * each; k < (c + 1) * each; ++k)
        (*weight)[k] = static_cast<float>(static_cast<double>((*weight)[k]) * scale);
      const double shift = static_cast<double>((*bias)[c]) - static_cast<double>((*mean)[c]);
      (*bias)[c] = static_cast<float>(shift * scale + static_cast<double>((*beta)[c]));
    }
    const Type& old = conv->value("weight")->type;
    const DType dtype = old.dtype;
    Value* scaled =
        r_.emit("identity", {{"x", Constant::numbers(*weight, dtype, old.shape)}}, name(op) + "_weight");
    Value* shifted =
        r_.emit("identity", {{"x", Constant::numbers(*bias, dtype, {static_cast<int64_t>(channels)})}},
                name(op) + "_shift");
    return same_conv(*conv, scaled, shifted, name(op));
  }

  // x less its mean along the last axis; gives x.
  Value* centered(const Value* value) {
    const Operation* sub = made_by(value, "sub");
    const Operation* mean = sub ? made_by(sub->value("y"), "reduce_mean") : nullptr;
    Value* x = sub ? sub->value("x") : nullptr;
    return mean && mean->value("x") == x && over_last(*mean, x) ? x : nullptr;
  }

  static bool over_last(const Operation& reduction, const Value* x) {
    const auto axes = known_integers(reduction, "axes"), keep = known_integers(reduction, "keep_dims");
    return axes && axes->size() == 1 && keep && keep->at(0) &&
           ((*axes)[0] == -1 || (*axes)[0] == x->type.rank() - 1);
  }

  // The epsilon of sqrt(mean(c²) + epsilon), where `value` is that root and c is `center`.
  std::optional<float> deviation(const Value* value, const Value* center) {
    const Operation* root = made_by(value, "sqrt");
    return root ? variance(root->value("x"), center) : std::nullopt;
  }

  std::optional<float> variance(const Value* value, const Value* center) {
    std::optional<float> epsilon;
    if (const Operation* sum = made_by(value, "add"))
      either_side(*sum, [&](Value* squares, Value* constant) {
        const auto number = one_number(constant);
        const Operation* mean = made_by(squares, "reduce_mean");
        if (!number || !mean || !is_square(mean->value("x"), center) || !over_last(*mean, center))
          return false;
        epsilon = number;
        return true;
      });
    return epsilon;
  }

  static bool is_square(const Value* value, const Value* of) {
    if (const Operation* square = made_by(value, "square")) return square->value("x") == of;
    if (const Operation* mul = made_by(value, "mul")) return mul->value("x") == of && mul->value("y") == of;
    const Operation* pow = made_by(value, "pow");
    return pow && pow->value("x") == of && one_number(pow->value("y")) == 2.0f;
  }

  Value* layer_norm(Operation& op, Value* x, float epsilon) {
    const int last = x->type.rank() - 1;
    if (!(epsilon > 0) || last < 1 || x->type != op.outputs[0]->type) return nullptr;
    return r_.emit("layer_norm",
                   {{"x", x},
                    {"axes", Constant::ints({last})},
                    {"epsilon", Constant::number(epsilon, op.outputs[0]->type.dtype)}},
                   name(op));
  }

  Value* centered_over_deviation(Operation& op) {
    Value* x = centered(op.value("x"));
    const auto epsilon = x ? deviation(op.value("y"), op.value("x")) : std::nullopt;
    return epsilon ? layer_norm(op, x, *epsilon) : nullptr;
  }

  // The same with 1 / root, or with rsqrt.
  Value* centered_times_inverse(Operation& op) {
    Value* out = nullptr;
    either_side(op, [&](Value* center, Value* inverse) {
      Value* x = centered(center);
      if (!x) return false;
      std::optional<float> epsilon;
      if (const Operation* div = made_by(inverse, "real_div"))
        if (one_number(div->value("x")) == 1.0f) epsilon = deviation(div->value("y"), center);
      if (const Operation* rsqrt = made_by(inverse, "rsqrt"))
        if (one_number(rsqrt->value("epsilon")) == 0.0f) epsilon = variance(rsqrt->value("x"), center);
      if (epsilon) out = layer_norm(op, x, *epsilon);
      return out != nullptr;
    });
    return out;
  }

  // A gain or a shift behind a layer norm that has none yet.
  Value* norm_part(Operation& op, const char* param) {
    Value* out = nullptr;
    either_side(op, [&](Value* normal, Value* constant) {
      Operation* norm = made_by(normal, "layer_norm");
      if (!norm || in_place(*norm) || r_.uses(normal) != 1 || norm->input(param) || norm->input("beta"))
        return false;
      const auto axes = known_integers(*norm, "axes");
      const int rank = normal->type.rank();
      if (!axes || axes->size() != 1 || (*axes)[0] != rank - 1 || !normal->type.shape.back().known())
        return false;
      Value* vector = per_channel(op, constant, rank, rank - 1, normal->type.shape.back().size());
      if (!vector) return false;
      const bool is_gain = std::string_view(param) == "gamma";
      out = r_.emit("layer_norm",
                    {{"x", norm->value("x")},
                     {"axes", norm->value("axes")},
                     {"gamma", is_gain ? vector : norm->value("gamma")},
                     {"beta", is_gain ? nullptr : vector},
                     {"epsilon", norm->value("epsilon")}},
                    name(op));
      return true;
    });
    return out;
  }

  Value* norm_scale(Operation& op) { return norm_part(op, "gamma"); }
  Value* norm_shift(Operation& op) { return norm_part(op, "beta"); }

  // The factors of a product of products.
  static void factors(const Value* value, int depth, std::vector<const Value*>& values, double& number) {
    if (const auto known = one_number(value)) {
      number *= static_cast<double>(*known);
      return;
    }
    const Operation* mul = made_by(value, "mul");
    if (mul && depth > 0 && mul->value("x") && mul->value("y")) {
      factors(mul->value("x"), depth - 1, values, number);
      factors(mul->value("y"), depth - 1, values, number);
      return;
    }
    const Operation* div = made_by(value, "real_div");
    const auto by = div ? one_number(div->value("y")) : std::nullopt;
    if (by && depth > 0 && div->value("x")) {
      number /= static_cast<double>(*by);
      return factors(div->value("x"), depth - 1, values, number);
    }
    values.push_back(value);
  }

  // value = number * x
  static bool is_scaled(const Value* value, const Value* x, double number) {
    std::vector<const Value*> values;
    double found = 1;
    factors(value, 2, values, found);
    return values.size() == 1 && values[0] == x && near(static_cast<float>(found), number);
  }

  // x / 2 * (1 + erf(x / √2)), and x / 2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))).
  Value* gelu(Operation& op) {
    std::vector<const Value*> values;
    double number = 1;
    factors(op.outputs[0].get(), 3, values, number);
    if (values.size() != 2 || !near(static_cast<float>(number), 0.5)) return nullptr;
    for (const size_t k : {size_t{0}, size_t{1}}) {
      Value* x = const_cast<Value*>(values[k]);
      const char* mode = half_gate(values[1 - k], x);
      if (mode && x->type == op.outputs[0]->type)
        return r_.emit("gelu", {{"x", x}, {"mode", Constant::text(mode)}}, name(op));
    }
    return nullptr;
  }

  static const char* half_gate(const Value* value, const Value* x) {
    const Operation* sum = made_by(value, "add");
    const char* mode = nullptr;
    if (sum)
      either_side(*sum, [&](Value* curve, Value* one) {
        if (one_number(one) != 1.0f) return false;
        if (const Operation* erf = made_by(curve, "erf"))
          if (is_scaled(erf->value("x"), x, std::sqrt(0.5))) mode = "EXACT";
        if (const Operation* tanh = made_by(curve, "tanh"))
          if (is_cubic(tanh->value("x"), x)) mode = "TANH_APPROXIMATION";
        return mode != nullptr;
      });
    return mode;
  }

  // √(2/π) * (x + 0.044715 x³)
  static bool is_cubic(const Value* value, const Value* x) {
    std::vector<const Value*> values;
    double number = 1;
    factors(value, 2, values, number);
    const Operation* sum = values.size() == 1 ? made_by(values[0], "add") : nullptr;
    if (!sum || !near(static_cast<float>(number), std::sqrt(2 / 3.14159265358979))) return false;
    return either_side(*sum, [&](Value* first, Value* cube) {
      if (first != x) return false;
      std::vector<const Value*> parts;
      double scale = 1;
      factors(cube, 3, parts, scale);
      if (!near(static_cast<float>(scale), 0.044715)) return false;
      if (parts.size() == 3) return parts[0] == x && parts[1] == x && parts[2] == x;
      const Operation* pow = parts.size() == 1 ? made_by(parts[0], "pow") : nullptr;
      return pow && pow->value("x") == x && one_number(pow->value("y")) == 3.0f;
    });
  }

  Rewriter r_;
  FuseReport report_;
};

}  // namespace

FuseReport fuse(Function& function) { return Fuser(function).run(); }

}  // namespace anemone
