#include "families/weight_ref.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/checkpoint.h"

namespace anemone {
namespace {

// The matrix that a weight is taken from, as it is stored: `lines` of `length` elements from element `begin` on.
struct StoredMatrix {
  int64_t begin = 0, lines = 1, length = 1;
};

StoredMatrix stored_matrix(const TensorReader& tensor, const WeightRef& ref) {
  const bool stacked = ref.slice >= 0;
  const std::span<const int64_t> shape = tensor.shape();
  const std::span<const int64_t> own = shape.subspan(std::min(shape.size(), size_t{stacked}));
  StoredMatrix m;
  if (!own.empty()) {
    m.lines = own.front();
    for (const int64_t dimension : own.subspan(1)) m.length *= dimension;
  }
  if (stacked && ref.slice < tensor.rows()) m.begin = ref.slice * m.lines * m.length;
  return m;
}

Error outside(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end) {
  std::string part = fmt::format("rows {} to {}, columns {} to {}", ref.row_begin + begin,
                                 ref.row_begin + end, ref.column_begin, ref.column_begin + ref.columns);
  if (ref.transposed) part += " of its transpose";
  if (ref.slice >= 0) part = fmt::format("slice {}, {}", ref.slice, part);
  return errorf("tensor '{}' has no such part", printable(tensor.name()))
      .at(tensor.file())
      .found(shape_text(tensor.shape()))
      .expected("one that holds " + part);
}

// Whether all that rows [begin, end) may touch lies inside. Rows in pairs lie anywhere in their head, so whole heads
// must.
bool inside(const TensorReader& tensor, const WeightRef& ref, const StoredMatrix& m, int64_t begin,
            int64_t end) {
  if (ref.slice >= 0 && (tensor.shape().size() < 2 || ref.slice >= tensor.rows())) return false;
  if (begin < 0 || begin > end || end > ref.rows() || ref.row_begin < 0) return false;
  if (ref.interleaved_head < 0 || ref.interleaved_head % 2 != 0) return false;
  const int64_t head = std::max<int64_t>(ref.interleaved_head, 1);
  const int64_t out = ref.transposed ? m.length : m.lines, in = ref.transposed ? m.lines : m.length;
  return (ref.row_end + head - 1) / head * head <= out && ref.column_begin >= 0 && ref.columns >= 0 &&
         ref.columns <= in && ref.column_begin <= in - ref.columns;
}

// Rows of the model are lines of the file.
void read_lines(const TensorReader& tensor, const WeightRef& ref, const StoredMatrix& m, int64_t begin,
                int64_t end, std::span<float> out) {
  if (ref.interleaved_head == 0 && ref.columns == m.length) {
    const int64_t first = m.begin + (ref.row_begin + begin) * m.length;
    return tensor.read_elements(first, first + (end - begin) * m.length, out);
  }
  const auto columns = static_cast<size_t>(ref.columns);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t first = m.begin + ref.tensor_row(r) * m.length + ref.column_begin;
    tensor.read_elements(first, first + ref.columns,
                         out.subspan(static_cast<size_t>(r - begin) * columns, columns));
  }
}

// Rows of the model run across the lines of the file: of each line the stretch that holds all of them is decoded, some
// lines at a time, and turned.
void read_across(const TensorReader& tensor, const WeightRef& ref, const StoredMatrix& m, int64_t begin,
                 int64_t end, std::span<float> out) {
  constexpr int64_t kLines = 16;  // so many floats side by side are one cache line of `out`
  std::vector<int64_t> places(static_cast<size_t>(end - begin));
  for (int64_t r = begin; r < end; ++r) places[static_cast<size_t>(r - begin)] = ref.tensor_row(r);
  const auto [least, most] = std::minmax_element(places.begin(), places.end());
  const int64_t first = *least, width = *most + 1 - first;
  for (int64_t& place : places) place -= first;
  std::vector<float> stretches(static_cast<size_t>(kLines * width));
  for (int64_t column = 0; column < ref.columns; column += kLines) {
    const int64_t lines = std::min(kLines, ref.columns - column);
    for (int64_t i = 0; i < lines; ++i) {
      const int64_t at = m.begin + (ref.column_begin + column + i) * m.length + first;
      tensor.read_elements(
          at, at + width,
          std::span(stretches).subspan(static_cast<size_t>(i * width), static_cast<size_t>(width)));
    }
    for (size_t r = 0; r < places.size(); ++r) {
      float* to = out.data() + static_cast<int64_t>(r) * ref.columns + column;
      for (int64_t i = 0; i < lines; ++i) to[i] = stretches[static_cast<size_t>(i * width + places[r])];
    }
  }
}

}  // namespace

void read_rows(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end,
               std::span<float> out) {
  const StoredMatrix m = stored_matrix(tensor, ref);
  if (!inside(tensor, ref, m, begin, end)) throw outside(tensor, ref, begin, end);
  const int64_t count = (end - begin) * ref.columns;
  if (out.size() != static_cast<size_t>(count))
    throw errorf("rows {} to {} of a weight in tensor '{}' do not fit the buffer given", begin, end,
                 printable(tensor.name()))
        .found(fmt::format("room for {} elements", out.size()))
        .expected(std::to_string(count));
  if (count == 0) return;
  ref.transposed ? read_across(tensor, ref, m, begin, end, out) : read_lines(tensor, ref, m, begin, end, out);
}

void read_rows(const Checkpoint& checkpoint, const WeightRef& ref, int64_t begin, int64_t end,
               std::span<float> out) {
  read_rows(checkpoint.tensor(ref.tensor), ref, begin, end, out);
}

void release_rows(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end) noexcept {
  const StoredMatrix m = stored_matrix(tensor, ref);
  if (begin >= end || !inside(tensor, ref, m, begin, end)) return;
  if (!ref.transposed)
    return tensor.release_elements(m.begin + (ref.row_begin + begin) * m.length,
                                   m.begin + (ref.row_begin + end) * m.length);
  if (end < ref.rows()) return;
  tensor.release_elements(m.begin + ref.column_begin * m.length,
                          m.begin + (ref.column_begin + ref.columns) * m.length);
}

}  // namespace anemone
