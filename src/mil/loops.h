// Loops that plain kernels share: element by element, with broadcasting, and over strided views.
//     map_float(c, "x", [](float x) { return std::max(x, 0.0f); });
//     map_pairs<float, float>(c, "x", "y", [](float x, float y) { return x + y; });
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "mil/op.h"

namespace anemone {

inline constexpr int64_t kMapGrain = 1 << 13;  // elements a thread takes at a time

// Row-major strides in elements.
std::vector<int64_t> dense_strides(std::span<const int64_t> dims);
// Strides of an input of shape `dims` walked along `out_dims`: 0 where it is broadcast.
std::vector<int64_t> broadcast_strides(std::span<const int64_t> dims, std::span<const int64_t> out_dims);

// The same walk in fewer dimensions: those of size 1 go, and neighbors that every input goes through in one stride
// become one. [1, C, T, 1] with one number per column is then [C, T], whose rows are long.
void join_dims(std::vector<int64_t>& dims, std::span<std::vector<int64_t>> strides);

// Walks all positions of `dims` in row-major order and keeps, for each set of strides, the offset of the
// position.
class Walker {
 public:
  Walker(std::span<const int64_t> dims, std::span<const std::vector<int64_t>> strides);
  void seek(int64_t position);
  void next();
  int64_t offset(int set) const { return offsets_[static_cast<size_t>(set)]; }
  std::span<const int64_t> index() const { return index_; }

 private:
  std::vector<int64_t> dims_, index_, offsets_;
  std::vector<std::vector<int64_t>> strides_;
};

template <class In, class Out, class F>
void map(const OpCall& c, const In* in, Out* out, int64_t count, F f) {
  c.pool().parallel_for(count, kMapGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
  });
}

template <class F>
void map_float(const OpCall& c, std::string_view param, F f) {
  map(c, c.floats(param), c.out_floats(), c.out_type().size(), f);
}

// One row of map_pairs; steps of 1 and 0 stand there as such, so that compilers see them.
template <class In, class Out, class F>
void map_row(const In* x, int64_t step_x, const In* y, int64_t step_y, Out* out, int64_t n, F f) {
  if (step_x == 1 && step_y == 1)
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
  else if (step_x == 1 && step_y == 0)
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], *y);
  else if (step_x == 0 && step_y == 1)
    for (int64_t i = 0; i < n; ++i) out[i] = f(*x, y[i]);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i * step_x], y[i * step_y]);
}

// out[i] = f(x[i], y[i]) with numpy broadcasting.
template <class In, class Out, class F>
void map_pairs(const OpCall& c, std::string_view param_x, std::string_view param_y, F f) {
  const auto* x = static_cast<const In*>(c.data(param_x));
  const auto* y = static_cast<const In*>(c.data(param_y));
  auto* out = static_cast<Out*>(c.out());
  std::vector<int64_t> dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const int64_t nx = c.type(param_x).size(), ny = c.type(param_y).size();
  if (nx == count && ny == count)
    return c.pool().parallel_for(count, kMapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = f(x[i], y[i]);
    });
  if (nx == count && ny == 1)
    return c.pool().parallel_for(count, kMapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = f(x[i], y[0]);
    });
  std::vector<int64_t> strides[] = {broadcast_strides(c.type(param_x).dims(), dims),
                                    broadcast_strides(c.type(param_y).dims(), dims)};
  join_dims(dims, strides);
  const int64_t row = dims.empty() ? 1 : dims.back();
  const int64_t step_x = dims.empty() ? 0 : strides[0].back(), step_y = dims.empty() ? 0 : strides[1].back();
  c.pool().parallel_for(count / row, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    Walker walk(dims, strides);
    for (int64_t r = begin; r < end; ++r) {
      walk.seek(r * row);
      map_row(x + walk.offset(0), step_x, y + walk.offset(1), step_y, out + r * row, row, f);
    }
  });
}

// Copies a strided view of 4-byte elements into a dense one: transpose, slice, tile, expand are all this.
// `base` is the element of `in` at position 0 of the output.
void copy_strided(ThreadPool& pool, const void* in, int64_t base, std::span<const int64_t> in_strides,
                  std::span<const int64_t> out_dims, void* out);

}  // namespace anemone
