// What the functions of the interpreter see: a node and its inputs as arrays.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/interpret/interpreter.h"

namespace anemone::interpret {

struct Names;

// A number of a tensor as a whole one. What no int64 has is as close as possible: hostile files have anything.
inline int64_t whole(double v) {
  return std::isnan(v) ? 0 : static_cast<int64_t>(std::clamp(v, -9.2e18, 9.2e18));
}

struct Context {
  const OnnxNode& node;
  std::vector<const OnnxArray*> in;  // empty for inputs that are left out
  Names* names = nullptr;            // for graphs inside the node

  bool has(size_t i) const { return i < in.size() && in[i]; }
  const OnnxArray& operator[](size_t i) const {
    if (!has(i)) throw errorf("input {} is missing", i);
    return *in[i];
  }
  std::vector<int64_t> ints(size_t i) const {
    std::vector<int64_t> out;
    // "To the end" is the largest int64, which a double rounds up.
    for (const double v : (*this)[i].data) out.push_back(whole(v));
    return out;
  }
};

using Arrays = std::vector<OnnxArray>;
using Function = Arrays (*)(const Context&);

// Functions by domain and name.
class Table {
 public:
  using Key = std::pair<std::string_view, std::string_view>;
  Function& operator[](std::string_view name) { return all_[{"", name}]; }
  Function& microsoft(std::string_view name) { return all_[{"com.microsoft", name}]; }
  const std::map<Key, Function>& all() const { return all_; }

 private:
  std::map<Key, Function> all_;
};

// One for each file.
void add_attention(Table& table);
void add_codes(Table& table);
void add_control(Table& table);
void add_elementwise(Table& table);
void add_losses(Table& table);
void add_movement(Table& table);
void add_norms(Table& table);
void add_products(Table& table);
void add_recurrent(Table& table);
void add_reductions(Table& table);
void add_sampling(Table& table);
void add_selection(Table& table);
void add_signals(Table& table);
void add_space(Table& table);
void add_windows(Table& table);

// Runs a graph inside of the node over these values, and gives its outputs.
Arrays run_inner(const OnnxGraph& graph, const Context& c, const Arrays& inputs);

// The most elements that a value may have, while a graph is computed on this thread.
int64_t& most_elements();

inline OnnxArray made(OnnxType type, std::vector<int64_t> dims) {
  OnnxArray a;
  a.type = type;
  for (const int64_t size : dims)
    if (size < 0) throw errorf("a value would have the shape {}", shape_text(dims));
  const int64_t count = element_count(dims);
  if (count < 0 || count > most_elements()) throw errorf("a value would have {} elements", count);
  a.data.resize(static_cast<size_t>(count));
  a.dims = std::move(dims);
  return a;
}

inline int64_t at_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) throw errorf("the axis {} is outside of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

inline std::vector<int64_t> strides_of(const std::vector<int64_t>& dims) {
  std::vector<int64_t> s(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) s[d - 1] = s[d] * dims[d];
  return s;
}

// Calls f(index) for every place of a shape, the last dimension fastest.
template <class F>
void each_place(const std::vector<int64_t>& dims, F f) {
  std::vector<int64_t> at(dims.size(), 0);
  for (int64_t left = element_count(dims); left > 0; --left) {
    f(at);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
}

// Where a place of a larger shape lies in one that is broadcast to it.
inline int64_t broadcast_at(const std::vector<int64_t>& at, const std::vector<int64_t>& dims) {
  int64_t place = 0;
  const size_t skip = at.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) place = place * dims[d] + (dims[d] == 1 ? 0 : at[d + skip]);
  return place;
}

std::vector<int64_t> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// The axes of a reduction: all of them where none is given.
std::vector<int64_t> reduced_axes(const Context& c, size_t input);

OnnxArray matmul_of(OnnxArray a, OnnxArray b);  // numpy.matmul
// The node's convolution of x with w, without a bias. The kernel, strides and pads are the node's attributes.
OnnxArray convolved(const Context& c, const OnnxArray& x, const OnnxArray& w);
OnnxArray softmax_of(const OnnxArray& x, size_t axis, bool logarithms);
// Whole numbers of few bits wrap around.
double wrapped(double v, OnnxType type);

}  // namespace anemone::interpret
