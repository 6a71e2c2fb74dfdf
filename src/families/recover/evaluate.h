// Evaluator: computes small parts of a graph with numbers of our choice. Masks, positions, rotations, activations and
// the layout of heads are written in countless ways by exporters; what they compute is asked for instead.
//     Evaluator e(graph, {.tokens = 5, .past = 3});
//     e.set(q, probe);                                   // a value that is cut off from what makes it
//     const Array& scores = e.value(softmax_input);
// Everything is in double; whole numbers stay whole. A part that is too large or has an operator that is not known here
// is an Error. Nothing is computed twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "families/recover/graph.h"

namespace anemone::recover {

struct Array {
  std::vector<int64_t> dims;
  std::vector<double> data;
  bool whole = false;  // integers or booleans: division cuts

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  static Array filled(std::vector<int64_t> dims, double value, bool whole = false);
  static Array numbers(std::vector<double> data);  // of one dimension, whole
};

// One sequence: `past` tokens in the cache, then `tokens` new ones.
struct Probe {
  int64_t tokens = 1, past = 0;
};

// What an input of the graph is for: known by the config, or by the names that exporters agree on.
enum class InputRole { tokens, mask, positions, past, last_position, length, other };

class Evaluator {
 public:
  Evaluator(const Graph& graph, Probe probe) : graph_(graph), probe_(probe) {}

  void set(ValueId value, Array array);
  const Array& value(ValueId value);
  // The dimensions, also of values that depend on weights and are not computed here.
  std::vector<int64_t> dims(ValueId value);
  const Probe& probe() const { return probe_; }
  const Graph& graph() const { return graph_; }
  // Rows of a constant table at these positions, as [1, positions, width], also behind If.
  Array table_rows(ValueId table, const Array& positions);
  ValueId resolved(ValueId value);
  // Marks all that was computed as explained.
  void claim(Graph& graph) const;
  // Sizes of past inputs where the file leaves them open.
  int64_t kv_heads = 1, head_dim = 1;

 private:
  Array input(ValueId value) const;
  std::vector<int64_t> past_dims(ValueId value) const;
  Array run(const Op& op, ValueId wanted);
  Array rotary(const Op& op);
  std::vector<int64_t> infer(const Op& op, ValueId wanted);
  std::vector<int64_t> moved(const Op& op, ValueId wanted);

  const Graph& graph_;
  Probe probe_;
  std::unordered_map<ValueId, Array> known_;
  std::map<ValueId, std::vector<int64_t>> dims_;
  std::set<const Op*> ran_;
  int depth_ = 0;
};

InputRole role_of(const Graph& graph, std::string_view input);

// How one operator computes: outputs from inputs; inputs that are left out are nullptr.
struct Call {
  const Op& op;
  std::vector<const Array*> in;
  const Array& at(size_t i) const;
  const Array* find(size_t i) const { return i < in.size() ? in[i] : nullptr; }
};
using Compute = std::vector<Array> (*)(const Call&);
// nullptr for an operator that is not known.
Compute find_compute(std::string_view type);
Compute find_layout_compute(std::string_view type);  // evaluate_layout.cpp
Compute find_block_compute(std::string_view type);   // evaluate_blocks.cpp

// The most elements that an array may have here.
inline constexpr int64_t kMostElements = int64_t{1} << 23;
int64_t checked_elements(const std::vector<int64_t>& dims);
std::vector<int64_t> broadcast_dims(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
// The array with these dims, its elements repeated where a dimension is 1.
Array broadcast(const Array& array, const std::vector<int64_t>& dims);
// What a Reshape to these sizes makes of these dims.
std::vector<int64_t> reshaped(const std::vector<int64_t>& dims, std::vector<int64_t> sizes,
                              bool zero_is_zero);
int64_t wrapped(int64_t axis, int64_t rank);
std::vector<int64_t> integers_of(const Array& array);

}  // namespace anemone::recover
