// Two tensors element by element, with numpy broadcasting.
#include <cmath>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

Types infer_same(const OpCall& c) {
  return {Type::tensor(c.type("x").dtype, broadcast(c.type("x").shape, c.type("y").shape))};
}

Types infer_bool(const OpCall& c) {
  return {Type::tensor(DType::boolean, broadcast(c.type("x").shape, c.type("y").shape))};
}

template <class F>
void run_number(const OpCall& c, F f) {
  if (c.type("x").is_float())
    map_pairs<float, float>(c, "x", "y", [f](float x, float y) { return f(x, y); });
  else
    map_pairs<int32_t, int32_t>(c, "x", "y", [f](int32_t x, int32_t y) { return f(x, y); });
}

template <class F>
void run_compare(const OpCall& c, F f) {
  if (c.type("x").is_float())
    map_pairs<float, int32_t>(c, "x", "y", [f](float x, float y) { return int32_t{f(x, y)}; });
  else
    map_pairs<int32_t, int32_t>(c, "x", "y", [f](int32_t x, int32_t y) { return int32_t{f(x, y)}; });
}

template <class F>
void run_logical(const OpCall& c, F f) {
  map_pairs<int32_t, int32_t>(c, "x", "y", [f](int32_t x, int32_t y) { return int32_t{f(x != 0, y != 0)}; });
}

// Integer arithmetic wraps around, as the hardware does.
int32_t wrap(int64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

float add(float x, float y) { return x + y; }
int32_t add(int32_t x, int32_t y) { return wrap(int64_t{x} + y); }
float sub(float x, float y) { return x - y; }
int32_t sub(int32_t x, int32_t y) { return wrap(int64_t{x} - y); }
float mul(float x, float y) { return x * y; }
int32_t mul(int32_t x, int32_t y) { return wrap(int64_t{x} * y); }

// An integer divided by zero is 0: there is no correct value, and a program must not crash the host.
float divide(float x, float y) { return x / y; }
int32_t divide(int32_t x, int32_t y) { return y == 0 ? 0 : wrap(int64_t{x} / y); }
float floor_divide(float x, float y) { return std::floor(x / y); }
int32_t floor_divide(int32_t x, int32_t y) {
  if (y == 0) return 0;
  const int64_t q = int64_t{x} / y;
  return wrap(q - ((int64_t{x} % y != 0 && (x < 0) != (y < 0)) ? 1 : 0));
}

// The result has the sign of the divisor.
float modulo(float x, float y) {
  const float r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
int32_t modulo(int32_t x, int32_t y) {
  if (y == 0) return 0;
  const int64_t r = int64_t{x} % y;
  return wrap(r != 0 && (r < 0) != (y < 0) ? r + y : r);
}

float power(float x, float y) { return std::pow(x, y); }
int32_t power(int32_t x, int32_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint32_t base = static_cast<uint32_t>(x), out = 1;
  for (uint32_t e = static_cast<uint32_t>(y); e; e >>= 1, base *= base)
    if (e & 1) out *= base;
  return static_cast<int32_t>(out);
}

const std::vector<OpVersion> kNumbers = {{Opset::ios15, {{"x", kNumber, 'T'}, {"y", kNumber, 'T'}}}};
const std::vector<OpVersion> kLogical = {{Opset::ios15, {{"x", kBool}, {"y", kBool}}}};
const std::vector<OpVersion> kCompare = {
    {Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"y", kNumberOrBool, 'T'}}}};

const Op kOps[] = {
    {"add", kNumbers, "x + y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return add(x, y); }); }},
    {"sub", kNumbers, "x - y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return sub(x, y); }); }},
    {"mul", kNumbers, "x * y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return mul(x, y); }); }},
    {"real_div", kNumbers, "x / y; integers truncate toward zero", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return divide(x, y); }); }},
    {"floor_div", kNumbers, "x / y rounded down", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return floor_divide(x, y); }); }},
    {"mod", kNumbers, "the remainder, with the sign of y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return modulo(x, y); }); }},
    {"pow", kNumbers, "x to the power of y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return power(x, y); }); }},
    {"maximum", kNumbers, "the larger of x and y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return x < y ? y : x; }); }},
    {"minimum", kNumbers, "the smaller of x and y", infer_same,
     [](const OpCall& c) { run_number(c, [](auto x, auto y) { return y < x ? y : x; }); }},
    {"equal", kCompare, "x == y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x == y; }); }},
    {"not_equal", kCompare, "x != y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x != y; }); }},
    {"less", kNumbers, "x < y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x < y; }); }},
    {"less_equal", kNumbers, "x <= y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x <= y; }); }},
    {"greater", kNumbers, "x > y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x > y; }); }},
    {"greater_equal", kNumbers, "x >= y", infer_bool,
     [](const OpCall& c) { run_compare(c, [](auto x, auto y) { return x >= y; }); }},
    {"logical_and", kLogical, "x and y", infer_bool,
     [](const OpCall& c) { run_logical(c, [](bool x, bool y) { return x && y; }); }},
    {"logical_or", kLogical, "x or y", infer_bool,
     [](const OpCall& c) { run_logical(c, [](bool x, bool y) { return x || y; }); }},
    {"logical_xor", kLogical, "x or y, not both", infer_bool,
     [](const OpCall& c) { run_logical(c, [](bool x, bool y) { return x != y; }); }},
};

}  // namespace

std::span<const Op> ops_elementwise_binary() { return kOps; }

}  // namespace anemone::ops
