// Blocks of pixels as channels and back; triangles; determinants; columns of images.
#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

void depth_to_space(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> d = n.dims(x);
  const int64_t b = n.node.integer("blocksize", 1);
  if (d.size() != 4 || b < 1 || d[1] % (b * b))
    throw errorf("blocksize {} does not fit the shape {}", b, shape_text(d));
  const bool columns = n.node.text("mode", "DCR") == "CRD";
  const int64_t c = d[1] / (b * b);
  // In two steps of rank 5: rows, then columns.
  if (columns) x = n.reshape(n.transpose(n.reshape(x, {d[0], c, b * b, d[2], d[3]}), {0, 2, 1, 3, 4}), d);
  // Now channels are (row, column, channel).
  x = n.transpose(n.reshape(x, {d[0], b, b * c, d[2], d[3]}), {0, 2, 3, 1, 4});  // N, b*c, H, b, W
  x = n.reshape(x, {d[0], b * c, d[2] * b, d[3]});
  x = n.transpose(n.reshape(x, {d[0], b, c, d[2] * b, d[3]}), {0, 2, 3, 4, 1});  // N, c, H*b, W, b
  n.out(n.reshape(x, {d[0], c, d[2] * b, d[3] * b}));
}

void space_to_depth(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> d = n.dims(x);
  const int64_t b = n.node.integer("blocksize", 1);
  if (d.size() != 4 || b < 1 || d[2] % b || d[3] % b)
    throw errorf("blocksize {} does not fit the shape {}", b, shape_text(d));
  const bool columns = n.node.text("mode", "DCR") == "CRD";
  const int64_t h = d[2] / b, w = d[3] / b;
  x = n.transpose(n.reshape(x, {d[0], d[1], d[2], w, b}), {0, 4, 1, 2, 3});  // N, column, C, H, w
  x = n.reshape(x, {d[0], b * d[1], h, b, w});
  x = n.transpose(x, {0, 3, 1, 2, 4});           // N, row, column * C, h, w
  x = n.reshape(x, {d[0], b * b * d[1], h, w});  // channels: row, column, C
  if (columns)
    x = n.reshape(n.transpose(n.reshape(x, {d[0], b * b, d[1], h, w}), {0, 2, 1, 3, 4}),
                  {d[0], b * b * d[1], h, w});
  n.out(x);
}

void trilu(OnnxCall& n) {
  Value* x = n.in(0);
  const bool upper = n.node.integer("upper", 1) != 0;
  const int64_t k = n.has(1) ? n.ints(1).at(0) : 0;
  const std::vector<int64_t> d = n.dims(x);
  const int64_t rows = d.at(d.size() - 2), columns = d.back();
  std::vector<int64_t> keep;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) keep.push_back(upper ? c - r >= k : c - r <= k);
  Value* mask = n.op("not_equal", {{"x", n.int_values(keep, {rows, columns})}, {"y", n.i(0)}});
  n.out(n.select(mask, x, n.one(x->type.dtype, 0)));
}

// By the first row, then the next: for matrices of at most 4 rows.
Value* determinant(OnnxCall& n, Value* x, const std::vector<int64_t>& rows,
                   const std::vector<int64_t>& columns) {
  const int64_t rank = x->type.rank();
  const auto entry = [&](int64_t r, int64_t c) {
    return n.squeeze(n.slice(n.slice(x, rank - 2, r, r + 1), rank - 1, c, c + 1), {rank - 2, rank - 1});
  };
  if (rows.size() == 1) return entry(rows[0], columns[0]);
  Value* sum = nullptr;
  const std::vector<int64_t> below(rows.begin() + 1, rows.end());
  for (size_t k = 0; k < columns.size(); ++k) {
    std::vector<int64_t> others = columns;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
    Value* term = n.mul(entry(rows[0], columns[k]), determinant(n, x, below, others));
    sum = !sum ? term : k % 2 ? n.sub(sum, term) : n.add(sum, term);
  }
  return sum;
}

void det(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> d = n.dims(x);
  const int64_t size = d.empty() ? 0 : d.back();
  if (d.size() < 2 || d[d.size() - 2] != size) throw errorf("Det takes square matrices").found(shape_text(d));
  if (size > 4) throw n.refused(fmt::format("Det of matrices with {} rows", size));
  std::vector<int64_t> all;
  for (int64_t k = 0; k < size; ++k) all.push_back(k);
  n.out(determinant(n, x, all, all));
}

// Columns added back to where they lie in the image: one scatter over known places.
void col2im(OnnxCall& n) {
  Value* x = n.in(0);
  const std::vector<int64_t> image = n.ints(1), block = n.ints(2), d = n.dims(x);
  const size_t rank = image.size();
  const std::vector<int64_t> strides = n.node.integers("strides", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> dilations = n.node.integers("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = n.node.integers("pads", std::vector<int64_t>(2 * rank, 0));
  if (block.size() != rank || strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank)
    throw errorf("block_shape, strides, dilations or pads do not have one entry per dimension of the image");
  for (size_t k = 0; k < rank; ++k)
    if (block[k] < 1 || strides[k] < 1 || image[k] < 1)
      throw errorf("a block, a stride or a size is below 1").found(shape_text(block));
  const int64_t taps = element_count(block), channels = d.at(1) / taps, columns = d.at(2);
  std::vector<int64_t> padded(rank), steps(rank);
  for (size_t k = 0; k < rank; ++k) {
    padded[k] = image[k] + pads[k] + pads[k + rank];
    steps[k] = (padded[k] - dilations[k] * (block[k] - 1) - 1) / strides[k] + 1;
  }
  if (element_count(steps) != columns) throw errorf("{} columns do not fit the image", columns);
  std::vector<int64_t> places;
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t tap = t, column = c, place = 0, scale = 1;
      for (size_t k = rank; k-- > 0;) {
        place += scale * (column % steps[k] * strides[k] + tap % block[k] * dilations[k]);
        scale *= padded[k];
        tap /= block[k];
        column /= steps[k];
      }
      places.push_back(place);
    }
  const int64_t room = element_count(padded);
  Value* y = n.op("scatter", {{"data", n.filled({d[0] * channels, room}, 0, DType::fp32)},
                              {"indices", n.int_values(places, {taps * columns})},
                              {"updates", n.reshape(x, {d[0] * channels, taps * columns})},
                              {"axis", n.i(1)},
                              {"mode", n.text("add")}});
  std::vector<int64_t> shape = {d[0], channels};
  shape.insert(shape.end(), padded.begin(), padded.end());
  y = n.reshape(y, shape);
  for (size_t k = 0; k < rank; ++k)
    if (pads[k] || pads[k + rank])
      y = n.slice(y, static_cast<int64_t>(k) + 2, pads[k], padded[k] - pads[k + rank]);
  n.out(y);
}

const OnnxOp kOps[] = {{"DepthToSpace", depth_to_space},
                       {"SpaceToDepth", space_to_depth},
                       {"Trilu", trilu},
                       {"Det", det},
                       {"Col2Im", col2im}};

}  // namespace

std::span<const OnnxOp> onnx_space() { return kOps; }

}  // namespace anemone::onnx_ops
