// WeightRef: which part of which tensor of a checkpoint is one weight of the model, and how to read it.
//     WeightRef q{"blk.0.attn_q.weight", 0, 2048, 1024};            // all of a matrix [2048, 1024]
//     WeightRef expert{"mlp.experts.gate_up_proj", 0, 64, 32};      // of a stack [experts, 32, 128], each [in, out]:
//     expert.slice = 5, expert.transposed = true;                   // the gate of expert 5
//     read_rows(checkpoint, expert, 0, 8, tile);                    // its rows 0 to 7, 32 floats each
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>

namespace anemone {

class Checkpoint;
class TensorReader;

// A matrix [rows, columns] of the model, or a vector (columns = 1), as it lies in a tensor. A fused tensor is shared
// by several of these.
//
// The tensor holds a matrix [out, in], or with `slice` a stack [slices, out, in] of them. More dimensions count as one:
// a convolution [channels, 1, taps] is a matrix [channels, taps], and a vector [n] is [n, 1]. The weight is the rows
// [row_begin, row_end) and the columns [column_begin, column_begin + columns) of that matrix. With `transposed` the
// tensor holds [in, out] instead; rows and columns are still those of [out, in].
struct WeightRef {
  std::string tensor;  // empty: the model has no such weight
  int64_t row_begin = 0, row_end = 0;
  int64_t columns = 0;
  // 0: rows are in order. Otherwise the rows of each head of this size are stored as pairs (q and k in GGUF files of
  // architecture `llama`; gate and up of gpt-oss, as one head): row 2i of a head is its row i, row 2i+1 is its row
  // i + head/2. Reading undoes it: row_begin and row_end count rows of the model. Heads begin at multiples of the size.
  int64_t interleaved_head = 0;
  int64_t slice = -1;  // which matrix of a stack; -1: the tensor is no stack
  bool transposed = false;
  int64_t column_begin = 0;
  // Rounding this weight costs the model more than rounding others. The code that stores weights decides what to do.
  bool sensitive = false;

  explicit operator bool() const { return !tensor.empty(); }
  // Where it lies. Weights are compared by that alone.
  auto place() const {
    return std::tie(tensor, row_begin, row_end, columns, interleaved_head, slice, transposed, column_begin);
  }
  bool operator==(const WeightRef& other) const { return place() == other.place(); }
  auto operator<=>(const WeightRef& other) const { return place() <=> other.place(); }
  int64_t rows() const { return row_end - row_begin; }
  // Where row `row` of the weight lies in the matrix [out, in].
  int64_t tensor_row(int64_t row) const {
    const int64_t at = row_begin + row;
    if (interleaved_head == 0) return at;
    const int64_t in_head = at % interleaved_head, half = interleaved_head / 2;
    return at - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
  }
};

// Rows [begin, end) of the weight in the order of the model, `columns` floats each. `tensor` is the one that `ref`
// names. Error when the tensor has no such part or `out` another size.
void read_rows(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end,
               std::span<float> out);
void read_rows(const Checkpoint& checkpoint, const WeightRef& ref, int64_t begin, int64_t end,
               std::span<float> out);

// Says that these rows were read: pages of the file that they lie in go back to the system. A hint: rows that lie
// elsewhere (in pairs) are read again when they are needed, and a transposed weight, whose every row is in all pages,
// is given back with its last row.
void release_rows(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end) noexcept;

}  // namespace anemone
