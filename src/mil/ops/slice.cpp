// Parts of a tensor, by numpy's rules: negative positions count from the end, ranges are clipped to the
// tensor.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

// The range along one dimension of known size: first position, step, number of positions.
struct Range {
  int64_t first = 0, step = 1, count = 0;
};

Range clipped(int64_t n, int64_t begin, int64_t end, int64_t step, bool from_start, bool to_end) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
  const int64_t first = from_start ? (step > 0 ? low : high) : place(begin);
  const int64_t last = to_end ? (step > 0 ? high : low) : place(end);
  const int64_t span = step > 0 ? last - first : first - last, by = step > 0 ? step : -step;
  return {first, step, span > 0 ? (span + by - 1) / by : 0};
}

// The parameters that slice_by_index and slice_update share.
struct SliceParams {
  std::vector<int64_t> begin, end, stride;  // begin, end: empty while not known
  std::vector<bool> begin_mask, end_mask, squeeze_mask;
};

std::vector<int64_t> positions(const OpCall& c, std::string_view param, size_t rank) {
  const Type& t = c.type(param);
  if (t.rank() != 1 || (t.dim(0).known() && t.dim(0) != Dim(static_cast<int64_t>(rank))))
    throw errorf("'{}' must have one entry per dimension ({})", param, rank).found(t.text());
  return c.known(param) ? c.integers(param) : std::vector<int64_t>{};
}

SliceParams slice_params(const OpCall& c) {
  const size_t rank = c.type("x").shape.size();
  SliceParams p{positions(c, "begin", rank),         positions(c, "end", rank),
                c.integers_or("stride", rank, 1),    c.flags_or("begin_mask", rank, false),
                c.flags_or("end_mask", rank, false), c.flags_or("squeeze_mask", rank, false)};
  for (const int64_t stride : p.stride)
    if (stride == 0) throw errorf("'stride' must not be 0");
  return p;
}

// The range of dimension i, which has n elements, when all values are known.
Range range_at(const SliceParams& p, size_t i, int64_t n) {
  if (!p.squeeze_mask[i])
    return clipped(n, p.begin_mask[i] ? 0 : p.begin[i], p.end_mask[i] ? 0 : p.end[i], p.stride[i],
                   p.begin_mask[i], p.end_mask[i]);
  const int64_t at = p.begin_mask[i] ? 0 : p.begin[i] < 0 ? p.begin[i] + n : p.begin[i];
  if (at < 0 || at >= n) throw errorf("index {} is outside dimension {} of size {}", at, i, n);
  return {at, 1, 1};
}

// The number of positions in dimension i, as far as it is known.
Dim size_at(const SliceParams& p, size_t i, Dim n) {
  const bool know_begin = p.begin_mask[i] || !p.begin.empty(), know_end = p.end_mask[i] || !p.end.empty();
  if (n.known() && know_begin && know_end) return range_at(p, i, n.size()).count;
  const int64_t stride = p.stride[i];
  const bool unit = stride == 1 || stride == -1;
  if (!n.known() && know_begin && know_end) {
    // What holds whatever the size is.
    const bool whole_begin =
        p.begin_mask[i] || (stride > 0 && p.begin[i] == 0) || (stride < 0 && p.begin[i] == -1);
    const bool whole_end = p.end_mask[i] || (stride > 0 && p.end[i] == INT32_MAX);
    if (unit && whole_begin && whole_end) return n;
    if (!p.begin_mask[i] && p.end_mask[i] && p.begin[i] == (stride > 0 ? -1 : 0)) return 1;
    if (!p.begin_mask[i] && !p.end_mask[i] && (p.begin[i] < 0) == (p.end[i] < 0)) {
      const int64_t span = stride > 0 ? p.end[i] - p.begin[i] : p.begin[i] - p.end[i], by = std::abs(stride);
      const int64_t count = span > 0 ? (span + by - 1) / by : 0;
      if (count <= 1) return count;
    }
  }
  // A dimension of one element is sliced for the sake of the others.
  return n == Dim(1) ? Dim(1) : Dim::unknown();
}

Shape sliced_shape(const OpCall& c) {
  const SliceParams p = slice_params(c);
  const Shape& x = c.type("x").shape;
  Shape out;
  for (size_t i = 0; i < x.size(); ++i)
    if (!p.squeeze_mask[i]) out.push_back(size_at(p, i, x[i]));
  return out;
}

// The slice as a strided view of x.
struct View {
  int64_t base = 0;
  std::vector<int64_t> dims, strides;
};

View view_of(const std::vector<int64_t>& dims, const std::vector<Range>& ranges) {
  const std::vector<int64_t> dense = dense_strides(dims);
  View v;
  for (size_t i = 0; i < dims.size(); ++i) {
    v.base += ranges[i].first * dense[i];
    v.dims.push_back(ranges[i].count);
    v.strides.push_back(ranges[i].step * dense[i]);
  }
  if (element_count(v.dims) == 0) v.base = 0;
  return v;
}

View index_view(const OpCall& c) {
  const SliceParams p = slice_params(c);
  const std::vector<int64_t> dims = c.type("x").dims();
  std::vector<Range> ranges;
  for (size_t i = 0; i < dims.size(); ++i) ranges.push_back(range_at(p, i, dims[i]));
  return view_of(dims, ranges);
}

Types infer_index(const OpCall& c) { return {Type::tensor(c.type("x").dtype, sliced_shape(c))}; }

void run_index(const OpCall& c) {
  const View v = index_view(c);
  if (element_count(v.dims) != c.out_type().size())  // the type may have been known without the values
    throw errorf("the slice has the shape {}", shape_text(v.dims)).expected(c.out_type().text());
  copy_strided(c.pool(), c.data("x"), v.base, v.strides, v.dims, c.out());
}

// The elements follow each other: one position of the leading dimensions, a stretch of one, and all of the
// rest.
std::optional<int64_t> view_at(const OpCall& c) {
  if (!c.known("begin") || !c.known("end")) return std::nullopt;
  const View v = index_view(c);
  const std::vector<int64_t> dims = c.type("x").dims(), dense = dense_strides(dims);
  bool split = false;  // a dimension was met that is not taken whole
  for (size_t i = dims.size(); i-- > 0;) {
    if (v.dims[i] == 0 || (split && v.dims[i] != 1)) return std::nullopt;
    if (v.dims[i] > 1 && v.strides[i] != dense[i]) return std::nullopt;
    split |= v.dims[i] != dims[i];
  }
  return v.base;
}

Types infer_size(const OpCall& c) {
  const Type& x = c.type("x");
  const std::vector<int64_t> begin = positions(c, "begin", x.shape.size()),
                             size = positions(c, "size", x.shape.size());
  Shape out(x.shape.size(), Dim::unknown());
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] < -1) throw errorf("'size' has a negative entry").found(fmt::format("{}", size[i]));
    const bool know_begin = !begin.empty();
    if (size[i] >= 0)
      out[i] = size[i];
    else if (know_begin)
      out[i] = begin[i] < 0 ? Dim(-begin[i]) : plus(x.shape[i], -begin[i]);
    if (!x.shape[i].known() || !out[i].known()) continue;
    const int64_t n = x.shape[i].size(), first = !know_begin ? 0 : begin[i] < 0 ? begin[i] + n : begin[i];
    if (first < 0 || out[i].size() > n - first)
      throw errorf("the slice is outside dimension {} of size {}", i, n)
          .found(fmt::format("{} elements from {}", out[i].size(), first));
  }
  return {Type::tensor(x.dtype, out)};
}

void run_size(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("x").dims(), begin = c.integers("begin"),
                             out = c.out_type().dims();
  std::vector<Range> ranges;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t first = begin[i] < 0 ? begin[i] + dims[i] : begin[i];
    if (first < 0 || out[i] > dims[i] - first)  // the type may have been known without `begin`
      throw errorf("the slice is outside dimension {} of size {}", i, dims[i])
          .found(fmt::format("{} elements from {}", out[i], begin[i]));
    ranges.push_back({first, 1, out[i]});
  }
  const View v = view_of(dims, ranges);
  copy_strided(c.pool(), c.data("x"), v.base, v.strides, v.dims, c.out());
}

Types infer_update(const OpCall& c) {
  const Type slice = Type::tensor(c.type("x").dtype, sliced_shape(c));
  const Type& update = c.type("update");
  if (!compatible(slice, update))
    throw errorf("'update' does not have the shape of the slice").found(update.text()).expected(slice.text());
  return {c.type("x")};
}

void run_update(const OpCall& c) {
  const View v = index_view(c);
  const int64_t count = element_count(v.dims);
  if (c.type("update").size() != count)
    throw errorf("'update' does not have the shape of the slice")
        .found(c.type("update").text())
        .expected(shape_text(v.dims));
  auto* out = static_cast<uint32_t*>(c.out());
  if (c.out() != c.data("x")) std::memcpy(out, c.data("x"), static_cast<size_t>(c.out_type().size()) * 4);
  if (count == 0) return;
  const auto* update = static_cast<const uint32_t*>(c.data("update"));
  const int64_t row = v.dims.empty() ? 1 : v.dims.back(), step = v.dims.empty() ? 1 : v.strides.back();
  const std::vector<int64_t> strides[] = {v.strides};
  c.pool().parallel_for(count / row, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    Walker walk(v.dims, strides);
    for (int64_t r = begin; r < end; ++r) {
      walk.seek(r * row);
      uint32_t* to = out + v.base + walk.offset(0);
      const uint32_t* from = update + r * row;
      for (int64_t i = 0; i < row; ++i) to[i * step] = from[i];
    }
  });
}

std::vector<Param> index_params(DTypes x, DTypes at, bool update) {
  std::vector<Param> out = {{"x", x, 'T'}};
  if (update) out.push_back({"update", x, 'T'});
  out.insert(out.end(), {{"begin", at, 'U'},
                         {"end", at, 'U'},
                         {"stride", at, 'U', kOptional | kConst},
                         {"begin_mask", kBool, 0, kOptional | kConst},
                         {"end_mask", kBool, 0, kOptional | kConst},
                         {"squeeze_mask", kBool, 0, kOptional | kConst}});
  return out;
}

constexpr DTypes kPosition = kInt32 | only(DType::int8) | only(DType::int16);

const Op kOps[] = {
    {.name = "slice_by_index",
     .versions = {{Opset::ios15, index_params(kNumberOrBool, kInt32, false)},
                  {Opset::ios17, index_params(kWideOrBool, kPosition, false)}},
     .doc = "x[begin:end:stride, …]; begin_mask and end_mask leave an end open, squeeze_mask takes one "
            "position",
     .infer = infer_index,
     .run = run_index,
     .view_of = "x",
     .view_at = view_at},
    {"slice_by_size",
     {{Opset::ios15, {{"x", kNumberOrBool, 'T'}, {"begin", kInt32}, {"size", kInt32}}},
      {Opset::ios17, {{"x", kWideOrBool, 'T'}, {"begin", kPosition, 'U'}, {"size", kPosition, 'U'}}}},
     "`size` elements of each dimension from `begin`; a size of -1 goes to the end",
     infer_size,
     run_size},
    {"slice_update",
     {{Opset::ios18, index_params(kWideOrBool, kPosition, true)}},
     "x with the slice that slice_by_index would give replaced by `update`",
     infer_update,
     run_update},
};

}  // namespace

std::span<const Op> ops_slice() { return kOps; }

}  // namespace anemone::ops
