// Some elements of a tensor, and tensors that mark some.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

Arrays compress(const Context& c) {
  OnnxArray x = c[0];
  if (!c.node.attribute("axis")) x.dims = {x.size()};
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", 0), x.rank()));
  const int64_t n = x.dims[axis], inner = strides_of(x.dims)[axis];
  std::vector<int64_t> kept;
  for (int64_t k = 0; k < std::min(n, c[1].size()); ++k)
    if (c[1].data[static_cast<size_t>(k)] != 0) kept.push_back(k);
  std::vector<int64_t> dims = x.dims;
  dims[axis] = static_cast<int64_t>(kept.size());
  OnnxArray y = made(x.type, dims);
  auto out = y.data.begin();
  for (int64_t start = 0; start < x.size(); start += n * inner)
    for (const int64_t k : kept) out = std::copy_n(x.data.begin() + start + k * inner, inner, out);
  return {y};
}

// The places of what is not zero, one column for each.
Arrays non_zero(const Context& c) {
  std::vector<std::vector<int64_t>> found;
  size_t k = 0;
  each_place(c[0].dims, [&](const std::vector<int64_t>& at) {
    if (c[0].data[k++] != 0) found.push_back(at);
  });
  OnnxArray y = made(OnnxType::int64, {c[0].rank(), static_cast<int64_t>(found.size())});
  for (size_t column = 0; column < found.size(); ++column)
    for (size_t d = 0; d < c[0].dims.size(); ++d)
      y.data[d * found.size() + column] = static_cast<double>(found[column][d]);
  return {y};
}

Arrays one_hot(const Context& c) {
  const int64_t depth = c.ints(1).at(0);
  const auto axis = static_cast<size_t>(at_axis(c.node.integer("axis", -1), c[0].rank() + 1));
  std::vector<int64_t> dims = c[0].dims;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  OnnxArray y = made(c[2].type, dims);
  const double off = c[2].data.at(0), on = c[2].data.at(1);
  size_t k = 0;
  each_place(dims, [&](const std::vector<int64_t>& at) {
    std::vector<int64_t> place = at;
    place.erase(place.begin() + static_cast<std::ptrdiff_t>(axis));
    double index = c[0].data[static_cast<size_t>(broadcast_at(place, c[0].dims))];
    if (index < 0) index += static_cast<double>(depth);
    y.data[k++] = index == static_cast<double>(at[axis]) ? on : off;
  });
  return {y};
}

Arrays eye_like(const Context& c) {
  if (c[0].rank() != 2) throw errorf("a matrix is needed");
  const OnnxType type =
      c.node.attribute("dtype") ? onnx_type_from_code(c.node.integer("dtype", 1)) : c[0].type;
  const int64_t shift = c.node.integer("k", 0);
  OnnxArray y = made(type, c[0].dims);
  for (int64_t e = 0; e < y.size(); ++e)
    y.data[static_cast<size_t>(e)] = e % y.dims[1] - e / y.dims[1] == shift ? 1 : 0;
  return {y};
}

}  // namespace

void add_selection(Table& t) {
  t["Compress"] = compress;
  t["NonZero"] = non_zero;
  t["OneHot"] = one_hot;
  t["EyeLike"] = eye_like;
}

}  // namespace anemone::interpret
