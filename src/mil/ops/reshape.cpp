// Another shape for the same elements.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// A 0 stands for the dimension of x at its place: counted from the right since iOS 17 (1 where x has none),
// from the left and for equal ranks before. For an empty x it may as well be meant.
Dim inherited(const Shape& from, size_t i, size_t rank, bool from_right) {
  if (product(from, 0, from.size()) == Dim(0)) return 0;
  if (from_right) return i + from.size() < rank ? Dim(1) : from[i + from.size() - rank];
  if (from.size() != rank) throw errorf("a 0 in 'shape' needs a shape of rank {}", from.size());
  return from[i];
}

// The shape asked for, with one -1 filled in from the number of elements.
Shape filled(const Shape& from, const std::vector<int64_t>& asked, bool from_right) {
  Shape out;
  Dim rest = product(from, 0, from.size());
  int open = -1;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == -1) {
      if (open >= 0) throw errorf("'shape' has more than one -1");
      open = static_cast<int>(i);
      out.push_back(1);
      continue;
    }
    if (asked[i] < -1) throw errorf("'shape' has a negative entry").found(fmt::format("{}", asked[i]));
    out.push_back(asked[i] == 0 ? inherited(from, i, asked.size(), from_right) : Dim(asked[i]));
  }
  const Dim have = product(out, 0, out.size());
  const std::optional<Dim> left = have == Dim(0) ? std::optional<Dim>(rest) : rest.over(have);
  const bool fits = open >= 0 ? left.has_value() : !rest.known() || rest == have;
  if (!fits)
    throw errorf("{} elements of {} cannot take another shape", rest.text(), shape_text(from))
        .found(shape_text(to_shape(asked)));
  if (open >= 0) out[static_cast<size_t>(open)] = have == Dim(0) ? Dim(0) : *left;
  return out;
}

Types infer_reshape(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& shape = c.type("shape");
  if (shape.rank() != 1) throw errorf("'shape' must be a vector").found(shape.text());
  if (c.known("shape"))
    return {Type::tensor(x.dtype, filled(x.shape, c.integers("shape"), c.since() >= Opset::ios17))};
  if (!shape.dim(0).known()) throw errorf("'shape' must have a fixed length");
  return {Type::tensor(x.dtype, Shape(static_cast<size_t>(shape.dim(0).size()), Dim::unknown()))};
}

// The dimensions begins[i] to ends[i] of each reference in turn, as Python slices them.
Types infer_like(const OpCall& c) {
  const Type& x = c.type("x");
  const int refs = c.count("ref_tensors");
  if (c.count("begins") != refs || c.count("ends") != refs || c.count("end_masks") != refs)
    throw errorf("'begins', 'ends' and 'end_masks' must have an entry for each of the {} references", refs);
  const auto only_one = [&](std::string_view param, int i) {
    const std::vector<int64_t> values = c.integers(param, i);
    if (values.size() != 1) throw errorf("each entry of '{}' must be one number", param);
    return values[0];
  };
  Shape out;
  for (int i = 0; i < refs; ++i) {
    const Shape& ref = c.type("ref_tensors", i).shape;
    const auto rank = static_cast<int64_t>(ref.size());
    const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    const int64_t begin = place(only_one("begins", i));
    const int64_t end = only_one("end_masks", i) ? rank : place(only_one("ends", i));
    for (int64_t d = begin; d < end; ++d) out.push_back(ref[static_cast<size_t>(d)]);
  }
  const Dim from = product(x.shape, 0, x.shape.size()), to = product(out, 0, out.size());
  if (from.known() && to.known() && from != to)
    throw errorf("{} elements of {} cannot take another shape", from.text(), shape_text(x.shape))
        .found(shape_text(out));
  return {Type::tensor(x.dtype, out)};
}

void run_copy(const OpCall& c) {
  std::memcpy(c.out(), c.data("x"), static_cast<size_t>(c.out_type().size()) * 4);
}

Types infer_expand_dims(const OpCall& c) {
  const Type& x = c.type("x");
  const std::vector<int64_t> axes = c.integers("axes");
  Shape out = x.shape;
  for (const int axis : normal_axes(axes, x.rank() + static_cast<int>(axes.size()), "axes"))
    out.insert(out.begin() + axis, Dim(1));
  return {Type::tensor(x.dtype, out)};
}

Types infer_squeeze(const OpCall& c) {
  const Type& x = c.type("x");
  std::vector<bool> drop(x.shape.size(), false);
  if (c.has("axes")) {
    for (const int axis : normal_axes(c.integers("axes"), x.rank(), "axes")) {
      // As in PyTorch, a dimension of another size stays.
      drop[static_cast<size_t>(axis)] = !x.dim(axis).known() || x.dim(axis) == Dim(1);
    }
  } else {
    for (size_t i = 0; i < drop.size(); ++i) drop[i] = x.shape[i] == Dim(1);
  }
  Shape out;
  for (size_t i = 0; i < drop.size(); ++i)
    if (!drop[i]) out.push_back(x.shape[i]);
  return {Type::tensor(x.dtype, out)};
}

Types infer_flatten(const OpCall& c) {
  const Type& x = c.type("x");
  int64_t axis = c.integer("axis");
  if (axis < -x.rank() || axis > x.rank())
    throw errorf("'axis' is outside the tensor").found(fmt::format("{}", axis));
  const auto cut = static_cast<size_t>(axis < 0 ? axis + x.rank() : axis);
  return {Type::tensor(x.dtype, {product(x.shape, 0, cut), product(x.shape, cut, x.shape.size())})};
}

std::vector<Param> like_params(DTypes x) {
  return {{"x", x, 'T'},
          {"ref_tensors", kAnyDType, 0, kMany},
          {"begins", kInt32, 0, kMany},
          {"ends", kInt32, 0, kMany},
          {"end_masks", kBool, 0, kMany}};
}

const Op kOps[] = {
    {.name = "reshape",
     .versions = {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"shape", kInt32}}},
                  {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"shape", kInt32 | kInt16 | kInt8}}}},
     .doc = "x in the shape given; one entry may be -1",
     .infer = infer_reshape,
     .run = run_copy,
     .view_of = "x"},
    {.name = "expand_dims",
     .versions = {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"axes", kInt32, 0, kConst}}},
                  {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"axes", kInt32, 0, kConst}}}},
     .doc = "x with dimensions of size 1 inserted; axes count in the result",
     .infer = infer_expand_dims,
     .run = run_copy,
     .view_of = "x"},
    {.name = "squeeze",
     .versions = {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"axes", kInt32, 0, kOptional | kConst}}},
                  {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"axes", kInt32, 0, kOptional | kConst}}}},
     .doc = "x without those of the dimensions named that have size 1, or without all of them",
     .infer = infer_squeeze,
     .run = run_copy,
     .view_of = "x"},
    {.name = "flatten2d",
     .versions = {{Opset::ios15,
                   {{"x", kNumberOrBool, 'T'}, {"axis", kInt32, 0, kOptional | kConst, int64_t{1}}}}},
     .doc = "x as a matrix: the dimensions before `axis` by the others",
     .infer = infer_flatten,
     .run = run_copy,
     .view_of = "x"},
    {.name = "reshape_like",
     .versions = {{Opset::ios16, like_params(kNumberOrBool)}, {Opset::ios17, like_params(kWideOrBool)}},
     .doc = "x in a shape put together from dimensions of other tensors",
     .infer = infer_like,
     .run = run_copy,
     .view_of = "x"},
};

}  // namespace

std::span<const Op> ops_reshape() { return kOps; }

}  // namespace anemone::ops
