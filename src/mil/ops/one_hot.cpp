// Indices as vectors with one element set.
#include <algorithm>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

DType value_dtype(const OpCall& c) {
  if (c.has("on_value")) return c.type("on_value").dtype;
  return c.has("off_value") ? c.type("off_value").dtype : DType::int32;
}

int axis_of(const OpCall& c) { return normal_axis(c.integer("axis"), c.type("indices").rank() + 1, "axis"); }

Types infer(const OpCall& c) {
  Shape out = c.type("indices").shape;
  Dim size = Dim::unknown();
  if (c.known("one_hot_vector_size")) {
    const int64_t n = c.integer("one_hot_vector_size");
    if (n < 0) throw errorf("'one_hot_vector_size' is negative").found(fmt::format("{}", n));
    size = n;
  }
  out.insert(out.begin() + axis_of(c), size);
  return {Type::tensor(value_dtype(c), out)};
}

// The bits of on_value and off_value.
uint32_t value_bits(const OpCall& c, std::string_view param, bool set) {
  const bool is_float = c.out_type().is_float();
  if (!c.has(param)) return !set ? 0 : is_float ? 0x3f800000u : 1u;
  if (c.type(param).size() != 1) throw errorf("'{}' must be one number", param).found(c.type(param).text());
  return *static_cast<const uint32_t*>(c.data(param));
}

// An index outside the vector sets nothing.
void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.out_type().dims();
  const auto axis = static_cast<size_t>(axis_of(c));
  const int64_t size = dims[axis];
  const int64_t inner = element_count(std::span(dims).subspan(axis + 1));
  const int64_t outer = element_count(std::span(dims).first(axis));
  const uint32_t on = value_bits(c, "on_value", true), off = value_bits(c, "off_value", false);
  const int32_t* indices = c.ints("indices");
  auto* out = static_cast<uint32_t*>(c.out());
  if (inner == 0) return;
  c.pool().parallel_for(outer * size, std::max<int64_t>(1, kMapGrain / inner),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            const int32_t* index = indices + r / size * inner;
                            for (int64_t i = 0; i < inner; ++i)
                              out[r * inner + i] = index[i] == r % size ? on : off;
                          }
                        });
}

const Op kOps[] = {{
    "one_hot",
    {{Opset::ios15,
      {{"indices", kIndex},
       {"one_hot_vector_size", kIndex},
       {"axis", kInt32, 0, kOptional | kConst, int64_t{-1}},
       {"on_value", kNumberOrBool, 'T', kOptional | kConst},
       {"off_value", kNumberOrBool, 'T', kOptional | kConst}}}},
    "for each index a vector along a new axis that is on_value at the index and off_value elsewhere",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_one_hot() { return kOps; }

}  // namespace anemone::ops
