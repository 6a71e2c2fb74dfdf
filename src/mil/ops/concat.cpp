// Tensors put together along a dimension, and taken apart.
#include <algorithm>
#include <cstring>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

DType common_dtype(const OpCall& c) {
  if (c.count("values") == 0) throw errorf("'values' is empty");
  const DType dtype = c.type("values").dtype;
  for (int i = 1; i < c.count("values"); ++i)
    if (c.type("values", i).dtype != dtype)
      throw errorf("'values' must have the same element type")
          .found(fmt::format("{} and {}", dtype_name(dtype), dtype_name(c.type("values", i).dtype)))
          .hint("insert a cast");
  return dtype;
}

// The shape that the inputs have together but for dimension `except`.
Shape common_shape(const OpCall& c, int except) {
  Shape out = c.type("values").shape;
  for (int i = 1; i < c.count("values"); ++i) {
    const Shape& other = c.type("values", i).shape;
    if (other.size() != out.size())
      throw errorf("'values' must have one rank")
          .found(fmt::format("{} and {}", shape_text(out), shape_text(other)));
    for (size_t d = 0; d < out.size(); ++d)
      if (static_cast<int>(d) != except) out[d] = merged(out[d], other[d]);
  }
  return out;
}

Types infer_concat(const OpCall& c) {
  const DType dtype = common_dtype(c);
  const int rank = c.type("values").rank(), n = c.count("values");
  if (rank == 0) {  // scalars become a vector
    common_shape(c, -1);
    return {Type::tensor(dtype, {Dim(n)})};
  }
  const int axis = normal_axis(c.integer("axis"), rank, "axis");
  const bool interleave = c.flag("interleave");
  Shape out = common_shape(c, interleave ? -1 : axis);
  Dim& along = out[static_cast<size_t>(axis)];
  if (interleave) {
    along = scaled(along, n);
  } else {
    Dim sum = c.type("values").dim(axis);
    for (int i = 1; i < n; ++i) {
      const Dim next = c.type("values", i).dim(axis);
      sum = next.known() ? plus(sum, next.size()) : sum == Dim(0) ? next : Dim::unknown();
    }
    along = sum;
  }
  return {Type::tensor(dtype, out)};
}

// Blocks of equal size from each input, in turn: out = in0[0] in1[0] … in0[1] in1[1] …
void interleave_blocks(const OpCall& c, int64_t rounds, const std::vector<int64_t>& blocks) {
  int64_t row = 0;
  for (const int64_t block : blocks) row += block;
  if (row == 0) return;
  auto* out = static_cast<uint32_t*>(c.out());
  c.pool().parallel_for(rounds, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    int64_t offset = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto* in = static_cast<const uint32_t*>(c.data("values", static_cast<int>(i)));
      const int64_t n = blocks[i];
      for (int64_t r = begin; r < end && n > 0; ++r)
        std::memcpy(out + r * row + offset, in + r * n, static_cast<size_t>(n) * 4);
      offset += n;
    }
  });
}

int64_t count_from(const Type& type, int begin, int end) {
  const std::vector<int64_t> dims = type.dims();
  return element_count(std::span(dims).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

void run_concat(const OpCall& c) {
  const Type& first = c.type("values");
  const int rank = first.rank();
  const int axis = rank == 0 ? 0 : normal_axis(c.integer("axis"), rank, "axis");
  const int cut = c.flag("interleave") && rank > 0 ? axis + 1 : axis;
  std::vector<int64_t> blocks;
  for (int i = 0; i < c.count("values"); ++i) blocks.push_back(count_from(c.type("values", i), cut, rank));
  interleave_blocks(c, count_from(first, 0, cut), blocks);
}

Types infer_stack(const OpCall& c) {
  const DType dtype = common_dtype(c);
  Shape out = common_shape(c, -1);
  const int axis = normal_axis(c.integer("axis"), static_cast<int>(out.size()) + 1, "axis");
  out.insert(out.begin() + axis, Dim(c.count("values")));
  return {Type::tensor(dtype, out)};
}

void run_stack(const OpCall& c) {
  const Type& first = c.type("values");
  const int axis = normal_axis(c.integer("axis"), first.rank() + 1, "axis");
  const std::vector<int64_t> blocks(static_cast<size_t>(c.count("values")),
                                    count_from(first, axis, first.rank()));
  interleave_blocks(c, count_from(first, 0, axis), blocks);
}

Types infer_split(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const Dim along = x.dim(axis);
  Shape sizes;
  if (c.has("split_sizes")) {
    Dim sum = 0;
    for (const int64_t size : c.integers("split_sizes")) {
      if (size < 0) throw errorf("'split_sizes' has a negative entry").found(fmt::format("{}", size));
      sizes.push_back(size);
      sum = plus(sum, size);
    }
    if (along.known() && along != sum)
      throw errorf("'split_sizes' do not add up").found(sum.text()).expected(along.text());
    if (c.has("num_splits") && c.integer("num_splits") != static_cast<int64_t>(sizes.size()))
      throw errorf("'num_splits' and 'split_sizes' do not agree");
  } else {
    if (!c.has("num_splits")) throw errorf("either 'num_splits' or 'split_sizes' is needed");
    const int64_t n = c.integer("num_splits");
    if (n < 1 || n > 60000) throw errorf("'num_splits' is out of range").found(fmt::format("{}", n));
    const std::optional<Dim> size = along.over(n);
    if (!size && along.known()) throw errorf("{} parts do not divide the dimension of {}", n, along.text());
    sizes.assign(static_cast<size_t>(n), size.value_or(Dim::unknown()));
  }
  Types out;
  for (const Dim size : sizes) {
    out.push_back(x);
    out.back().shape[static_cast<size_t>(axis)] = size;
  }
  return out;
}

void run_split(const OpCall& c) {
  const Type& x = c.type("x");
  const int axis = normal_axis(c.integer("axis"), x.rank(), "axis");
  const std::vector<int64_t> strides = dense_strides(x.dims());
  int64_t begin = 0;
  for (int i = 0; i < c.outputs(); ++i) {
    copy_strided(c.pool(), c.data("x"), begin * strides[static_cast<size_t>(axis)], strides,
                 c.out_type(i).dims(), c.out(i));
    begin += c.out_type(i).dim(axis).size();
  }
}

const Op kOps[] = {
    {"concat",
     {{Opset::ios15,
       {{"values", kAnyDType, 0, kMany},
        {"axis", kInt32, 0, kConst},
        {"interleave", kBool, 0, kOptional | kConst, false}}}},
     "the values one after the other along an axis; with interleave, one slice of each in turn",
     infer_concat,
     run_concat},
    {"stack",
     {{Opset::ios15, {{"values", kAnyDType, 0, kMany}, {"axis", kInt32, 0, kConst}}}},
     "the values, all of one shape, along a new axis",
     infer_stack,
     run_stack},
    {"split",
     {{Opset::ios15,
       {{"x", kNumberOrBool, 'T'},
        {"num_splits", kInt32, 0, kOptional | kConst},
        {"split_sizes", kInt32, 0, kOptional | kConst},
        {"axis", kInt32, 0, kConst}}}},
     "x cut along an axis into equal parts or parts of the sizes given",
     infer_split,
     run_split},
};

}  // namespace

std::span<const Op> ops_concat() { return kOps; }

}  // namespace anemone::ops
