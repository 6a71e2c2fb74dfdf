// Element by element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/interpret/context.h"

namespace anemone::interpret {

std::vector<int64_t> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (size_t k = 0; k < out.size(); ++k) {
    const int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1) throw errorf("{} and {} do not broadcast", shape_text(a), shape_text(b));
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}

namespace {

template <double (*kF)(double)>
Arrays unary(const Context& c) {
  OnnxArray y = c[0];
  for (double& v : y.data) v = kF(v);
  return {y};
}

}  // namespace

double wrapped(double v, OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  if (!info.integer || info.bits >= 32 || type == OnnxType::boolean) return v;
  const double size = std::ldexp(1.0, info.bits), low = info.is_signed ? -size / 2 : 0;
  return v - size * std::floor((v - low) / size);
}

namespace {

template <class F>
OnnxArray pairwise(const OnnxArray& a, const OnnxArray& b, OnnxType type, F f) {
  OnnxArray y = made(type, broadcast_dims(a.dims, b.dims));
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k++] = f(a.data[static_cast<size_t>(broadcast_at(at, a.dims))],
                    b.data[static_cast<size_t>(broadcast_at(at, b.dims))]);
  });
  return y;
}

template <double (*kF)(double, double)>
Arrays arithmetic(const Context& c) {
  OnnxArray y = c[0];
  for (size_t k = 1; k < c.in.size(); ++k) y = pairwise(y, c[k], c[0].type, kF);
  for (double& v : y.data) v = wrapped(v, y.type);
  return {y};
}

template <bool (*kF)(double, double)>
Arrays compare(const Context& c) {
  return {pairwise(c[0], c[1], OnnxType::boolean, [](double a, double b) { return kF(a, b) ? 1.0 : 0.0; })};
}

bool equal(double a, double b) { return a == b; }
bool less(double a, double b) { return a < b; }
bool at_most(double a, double b) { return a <= b; }
bool more(double a, double b) { return a > b; }
bool at_least(double a, double b) { return a >= b; }
bool both(double a, double b) { return a != 0 && b != 0; }
bool either(double a, double b) { return a != 0 || b != 0; }
bool one_of(double a, double b) { return (a != 0) != (b != 0); }

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }

Arrays divide(const Context& c) {
  const bool whole = onnx_type_info(c[0].type).integer;
  return {
      pairwise(c[0], c[1], c[0].type, [&](double a, double b) { return whole ? std::trunc(a / b) : a / b; })};
}

Arrays power(const Context& c) {
  const bool whole = onnx_type_info(c[0].type).integer;
  return {pairwise(c[0], c[1], c[0].type,
                   [&](double a, double b) { return whole ? std::trunc(std::pow(a, b)) : std::pow(a, b); })};
}

Arrays remainder(const Context& c) {
  const bool c_way = c.node.integer("fmod", 0) != 0;
  return {pairwise(c[0], c[1], c[0].type, [&](double a, double b) {
    const double r = std::fmod(a, b);
    return !c_way && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  })};
}

Arrays mean(const Context& c) {
  OnnxArray y = arithmetic<add>(c)[0];
  for (double& v : y.data) v /= static_cast<double>(c.in.size());
  return {y};
}

Arrays where(const Context& c) {
  OnnxArray y = made(c[1].type, broadcast_dims(c[0].dims, broadcast_dims(c[1].dims, c[2].dims)));
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    const OnnxArray& from = c[0].data[static_cast<size_t>(broadcast_at(at, c[0].dims))] != 0 ? c[1] : c[2];
    y.data[k++] = from.data[static_cast<size_t>(broadcast_at(at, from.dims))];
  });
  return {y};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double relu_of(double x) { return x > 0 ? x : std::isnan(x) ? x : 0; }
double softplus_of(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
double not_of(double x) { return x == 0 ? 1 : 0; }
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double reciprocal_of(double x) { return 1 / x; }
double negated(double x) { return -x; }
double softsign_of(double x) { return x / (1 + std::fabs(x)); }
double mish_of(double x) { return x * std::tanh(softplus_of(x)); }
double hard_swish_of(double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double gelu_exact(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double round_even(double x) { return std::nearbyint(x); }

template <class F>
Arrays mapped(const Context& c, F f) {
  OnnxArray y = c[0];
  for (double& v : y.data) v = f(v);
  return {y};
}

Arrays leaky_relu(const Context& c) {
  const double a = static_cast<double>(c.node.number("alpha", 0.01f));
  return mapped(c, [&](double x) { return x < 0 ? a * x : x; });
}
Arrays elu(const Context& c) {
  const double a = static_cast<double>(c.node.number("alpha", 1));
  return mapped(c, [&](double x) { return x < 0 ? a * std::expm1(x) : x; });
}
Arrays selu(const Context& c) {
  const double a = static_cast<double>(c.node.number("alpha", 1.67326319217681884765625f)),
               g = static_cast<double>(c.node.number("gamma", 1.05070102214813232421875f));
  return mapped(c, [&](double x) { return g * (x < 0 ? a * std::expm1(x) : x); });
}
Arrays hard_sigmoid(const Context& c) {
  const double a = static_cast<double>(c.node.number("alpha", 0.2f)),
               b = static_cast<double>(c.node.number("beta", 0.5f));
  return mapped(c, [&](double x) { return std::clamp(a * x + b, 0.0, 1.0); });
}
Arrays gelu(const Context& c) {
  return c.node.text("approximate", "none") == "tanh" ? unary<gelu_tanh>(c) : unary<gelu_exact>(c);
}
Arrays swish(const Context& c) {
  const double a = static_cast<double>(c.node.number("alpha", 1));
  return mapped(c, [&](double x) { return x * sigmoid_of(a * x); });
}
Arrays prelu(const Context& c) {
  return {pairwise(c[0], c[1], c[0].type, [](double x, double s) { return x < 0 ? s * x : x; })};
}

Arrays clip(const Context& c) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  double low = -kInf, high = kInf;
  if (c.node.version < 11) {
    if (c.node.attribute("min")) low = static_cast<double>(c.node.number("min", 0));
    if (c.node.attribute("max")) high = static_cast<double>(c.node.number("max", 0));
  } else {
    if (c.has(1)) low = c[1].data.at(0);
    if (c.has(2)) high = c[2].data.at(0);
  }
  return mapped(c, [&](double x) { return std::min(std::max(x, low), high); });
}

Arrays cast(const Context& c) {
  OnnxArray y = c[0];
  y.type = c.node.op == "CastLike" ? c[1].type : onnx_type_from_code(c.node.integer("to", 1));
  const OnnxTypeInfo& info = onnx_type_info(y.type);
  for (double& v : y.data) {
    if (y.type == OnnxType::boolean)
      v = v != 0 ? 1 : 0;
    else if (info.integer)
      v = wrapped(std::trunc(v), y.type);
  }
  return {y};
}

Arrays identity(const Context& c) { return {c[0]}; }

Arrays dropout(const Context& c) {
  OnnxArray mask = made(OnnxType::boolean, c[0].dims);
  std::fill(mask.data.begin(), mask.data.end(), 1.0);
  return {c[0], mask};
}

// Truth values of each element.
template <bool (*kF)(const Context&, double)>
Arrays test(const Context& c) {
  OnnxArray y = c[0];
  y.type = OnnxType::boolean;
  for (double& v : y.data) v = kF(c, v) ? 1.0 : 0.0;
  return {y};
}

bool is_nan(const Context&, double v) { return std::isnan(v); }

bool is_inf(const Context& c, double v) {
  if (!std::isinf(v)) return false;
  return c.node.integer(v > 0 ? "detect_positive" : "detect_negative", 1) != 0;
}

Arrays thresholded_relu(const Context& c) {
  OnnxArray y = c[0];
  const auto alpha = static_cast<double>(c.node.number("alpha", 1));
  for (double& v : y.data) v = v > alpha ? v : 0;
  return {y};
}

Arrays celu(const Context& c) {
  OnnxArray y = c[0];
  const auto alpha = static_cast<double>(c.node.number("alpha", 1));
  for (double& v : y.data) v = std::max(0.0, v) + std::min(0.0, alpha * std::expm1(v / alpha));
  return {y};
}

Arrays shrink(const Context& c) {
  const auto bias = static_cast<double>(c.node.number("bias", 0)),
             lambd = static_cast<double>(c.node.number("lambd", 0.5f));
  const bool whole = onnx_type_info(c[0].type).integer;
  return mapped(c, [&](double x) {
    const double y = x < -lambd ? x + bias : x > lambd ? x - bias : 0;
    return whole ? wrapped(std::trunc(y), c[0].type) : y;
  });
}

Arrays swiglu(const Context& c) {
  const auto a = static_cast<double>(c.node.number("alpha", 1));
  return {pairwise(c[0], c[1], c[0].type, [&](double x, double y) { return x * sigmoid_of(a * x) * y; })};
}

// com.microsoft
Arrays bias_gelu(const Context& c) {
  return {pairwise(c[0], c[1], c[0].type, [](double x, double b) { return gelu_exact(x + b); })};
}
Arrays fast_gelu(const Context& c) {
  if (!c.has(1)) return unary<gelu_tanh>(c);
  return {pairwise(c[0], c[1], c[0].type, [](double x, double b) { return gelu_tanh(x + b); })};
}
Arrays quick_gelu(const Context& c) {
  const auto a = static_cast<double>(c.node.number("alpha", 1.702f));
  return mapped(c, [&](double x) { return x * sigmoid_of(a * x); });
}

uint64_t bit_and(uint64_t a, uint64_t b) { return a & b; }
uint64_t bit_or(uint64_t a, uint64_t b) { return a | b; }
uint64_t bit_xor(uint64_t a, uint64_t b) { return a ^ b; }

// A whole number as bits, and back.
uint64_t bits_of(double v) { return static_cast<uint64_t>(whole(v)); }
double number_of(uint64_t bits, OnnxType type) {
  const OnnxTypeInfo& info = onnx_type_info(type);
  if (!info.integer) throw errorf("bits of type {} are not supported here", info.name);
  if (!info.is_signed && info.bits < 64) bits &= (uint64_t{1} << info.bits) - 1;
  return wrapped(static_cast<double>(static_cast<int64_t>(bits)), type);
}

template <uint64_t (*kF)(uint64_t, uint64_t)>
Arrays bitwise(const Context& c) {
  return {pairwise(c[0], c[1], c[0].type,
                   [&](double a, double b) { return number_of(kF(bits_of(a), bits_of(b)), c[0].type); })};
}

Arrays bitwise_not(const Context& c) {
  return mapped(c, [&](double x) { return number_of(~bits_of(x), c[0].type); });
}

Arrays bit_shift(const Context& c) {
  const bool left = c.node.text("direction", "") == "LEFT";
  const int width = onnx_type_info(c[0].type).bits;
  const auto size = std::ldexp(1.0, width);
  return {pairwise(c[0], c[1], c[0].type, [&](double a, double b) {
    const bool out = !(b >= 0 && b < width);  // all bits are moved out
    if (!left) return out ? (a < 0 ? -1.0 : 0.0) : std::floor(std::ldexp(a, -static_cast<int>(b)));
    if (out) return 0.0;
    const double up = std::fmod(std::ldexp(a, static_cast<int>(b)), size);
    if (!onnx_type_info(c[0].type).is_signed) return up;
    return up >= size / 2 ? up - size : up < -size / 2 ? up + size : up;
  })};
}

double sinh_of(double v) { return std::sinh(v); }
double cosh_of(double v) { return std::cosh(v); }
double asinh_of(double v) { return std::asinh(v); }
double acosh_of(double v) { return std::acosh(v); }
double atanh_of(double v) { return std::atanh(v); }

void add_functions(Table& t) {
  t["Abs"] = unary<std::fabs>;
  t["Acos"] = unary<std::acos>;
  t["Asin"] = unary<std::asin>;
  t["Atan"] = unary<std::atan>;
  t["Ceil"] = unary<std::ceil>;
  t["Cos"] = unary<std::cos>;
  t["Erf"] = unary<std::erf>;
  t["Exp"] = unary<std::exp>;
  t["Floor"] = unary<std::floor>;
  t["Log"] = unary<std::log>;
  t["Neg"] = unary<negated>;
  t["Not"] = unary<not_of>;
  t["Reciprocal"] = unary<reciprocal_of>;
  t["Round"] = unary<round_even>;
  t["Sign"] = unary<sign_of>;
  t["Sin"] = unary<std::sin>;
  t["Sqrt"] = unary<std::sqrt>;
  t["Tan"] = unary<std::tan>;
  t["Tanh"] = unary<std::tanh>;
  t["Sinh"] = unary<sinh_of>;
  t["Cosh"] = unary<cosh_of>;
  t["Asinh"] = unary<asinh_of>;
  t["Acosh"] = unary<acosh_of>;
  t["Atanh"] = unary<atanh_of>;
}

void add_activations(Table& t) {
  t["Sigmoid"] = unary<sigmoid_of>;
  t["Relu"] = unary<relu_of>;
  t["Softplus"] = unary<softplus_of>;
  t["Softsign"] = unary<softsign_of>;
  t["Mish"] = unary<mish_of>;
  t["HardSwish"] = unary<hard_swish_of>;
  t["LeakyRelu"] = leaky_relu;
  t["Elu"] = elu;
  t["Selu"] = selu;
  t["HardSigmoid"] = hard_sigmoid;
  t["Gelu"] = gelu;
  t["Swish"] = swish;
  t["PRelu"] = prelu;
  t["Clip"] = clip;
  t["ThresholdedRelu"] = thresholded_relu;
  t["Celu"] = celu;
  t["Shrink"] = shrink;
  t["SwiGLU"] = swiglu;
  t.microsoft("Gelu") = gelu;
  t.microsoft("BiasGelu") = bias_gelu;
  t.microsoft("FastGelu") = fast_gelu;
  t.microsoft("QuickGelu") = quick_gelu;
}

void add_arithmetic(Table& t) {
  t["Add"] = arithmetic<add>;
  t["Sum"] = arithmetic<add>;
  t["Sub"] = arithmetic<sub>;
  t["Mul"] = arithmetic<mul>;
  t["Max"] = arithmetic<larger>;
  t["Min"] = arithmetic<smaller>;
  t["Mean"] = mean;
  t["Div"] = divide;
  t["Pow"] = power;
  t["Mod"] = remainder;
  t["Where"] = where;
  t["IsNaN"] = test<is_nan>;
  t["IsInf"] = test<is_inf>;
  t["Cast"] = cast;
  t["CastLike"] = cast;
  t["Identity"] = identity;
  t["Dropout"] = dropout;
  t["Equal"] = compare<equal>;
  t["Less"] = compare<less>;
  t["LessOrEqual"] = compare<at_most>;
  t["Greater"] = compare<more>;
  t["GreaterOrEqual"] = compare<at_least>;
  t["And"] = compare<both>;
  t["Or"] = compare<either>;
  t["Xor"] = compare<one_of>;
  t["BitwiseAnd"] = bitwise<bit_and>;
  t["BitwiseOr"] = bitwise<bit_or>;
  t["BitwiseXor"] = bitwise<bit_xor>;
  t["BitwiseNot"] = bitwise_not;
  t["BitShift"] = bit_shift;
}

}  // namespace

void add_elementwise(Table& t) {
  add_functions(t);
  add_activations(t);
  add_arithmetic(t);
}

}  // namespace anemone::interpret
