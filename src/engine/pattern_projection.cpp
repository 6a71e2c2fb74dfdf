// Projections over weights as they are stored: those of one input run together, one that is added to
// something adds it on the way. Few positions read the weights where they lie; many widen a tile at a time and
// multiply. Positions at the end that repeat one another, as a host pads a short chunk, are computed once.
#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <optional>

#include "engine/kernel_choice.h"
#include "engine/patterns.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/matvec.h"

namespace anemone {
namespace {

constexpr int64_t kRows = 64;      // of a weight that a thread takes at a time, for few positions
constexpr int64_t kTileRows = 24;  // the same for many, widened kGemmDepth columns at a time: 18 KiB

struct Weight {
  std::shared_ptr<const StoredTensor> stored;
  StoredTensor::Form form;
  std::optional<WeightKind> kind;  // empty: only read() gives its elements; for many positions
  int64_t rows = 0;
  int bias = -1;        // which input; -1: none
  bool halves = false;  // the result is declared fp16
};

// The least n such that the columns from n - 1 on are the same, bit by bit.
int64_t distinct_columns(const float* x, int64_t rows, int64_t columns) {
  int64_t n = 1;
  for (int64_t i = 0; i < rows && n < columns; ++i, x += columns) {
    const auto bits = [&](int64_t t) { return std::bit_cast<uint32_t>(x[t]); };
    int64_t same = columns - 1;
    while (same >= n && bits(same - 1) == bits(columns - 1)) --same;
    n = std::max(n, same + 1);
  }
  return n;
}

// In: x, then the biases, then what is added. Out: one for each weight, and for many positions room for x as
// gemm wants it.
class Projection : public FusedKernel {
 public:
  Projection(std::vector<Weight> weights, int64_t k, int64_t positions, int addend)
      : weights_(std::move(weights)), k_(k), positions_(positions), addend_(addend) {
    const int64_t rows = positions_ <= kMostPositions ? kRows : kTileRows;
    for (size_t w = 0; w < weights_.size(); ++w)
      for (int64_t r = 0; r < weights_[w].rows; r += rows)
        units_.push_back({w, r, std::min(rows, weights_[w].rows - r)});
  }

  bool run(const FusedCall& c) const override {
    const float* x = c.floats(0);
    const bool few = positions_ <= kMostPositions;
    const int64_t live = few ? positions_ : distinct_columns(x, k_, positions_);
    std::vector<float> room;
    if (!few) {
      x = packed(c, x, live);
    } else if (positions_ > 1) {  // vectors one after the other: the input has its channels apart
      room.resize(static_cast<size_t>(k_ * positions_));
      for (int64_t i = 0; i < k_; ++i)
        for (int64_t t = 0; t < positions_; ++t)
          room[static_cast<size_t>(t * k_ + i)] = x[i * positions_ + t];
      x = room.data();
    }
    std::atomic<bool> fine = true;
    c.pool().parallel_for(static_cast<int64_t>(units_.size()), 1, [&](int64_t begin, int64_t end) {
      std::vector<float> tile(few ? 0 : static_cast<size_t>(kTileRows * kGemmDepth));
      for (int64_t u = begin; u < end; ++u) {
        const Unit& unit = units_[static_cast<size_t>(u)];
        few ? multiply_few(c, unit, x) : multiply_many(c, unit, x, live, tile.data());
        if (!finish(c, unit)) fine = false;
      }
    });
    return fine;
  }

 private:
  struct Unit {
    size_t weight;
    int64_t row, count;
  };

  static int64_t bytes_of(WeightKind kind) {
    return kind == WeightKind::fp32 ? 4 : kind == WeightKind::fp16 ? 2 : 1;
  }

  void multiply_few(const FusedCall& c, const Unit& unit, const float* x) const {
    const Weight& w = weights_[unit.weight];
    const std::byte* rows = w.form.data + unit.row * k_ * bytes_of(*w.kind);
    float* out = c.out(unit.weight) + unit.row * positions_;
    if (positions_ == 1) return matvec(*w.kind, rows, unit.count, k_, x, 1, out, 0);
    float tile[kRows * kMostPositions];
    for (int64_t t = 0; t < positions_; t += kMostVectors)
      matvec(*w.kind, rows, unit.count, k_, x + t * k_, std::min(kMostVectors, positions_ - t),
             tile + t * kRows, kRows);
    for (int64_t i = 0; i < unit.count; ++i)
      for (int64_t t = 0; t < positions_; ++t) out[i * positions_ + t] = tile[t * kRows + i];
  }

  // The first `live` columns of x for gemm_packed, kGemmDepth rows after kGemmDepth rows.
  const float* packed(const FusedCall& c, const float* x, int64_t live) const {
    float* out = c.out(weights_.size());
    c.pool().parallel_for((k_ + kGemmDepth - 1) / kGemmDepth, 1, [&](int64_t begin, int64_t end) {
      for (int64_t from = begin * kGemmDepth; from < std::min(k_, end * kGemmDepth); from += kGemmDepth)
        pack_columns({x + from * positions_, positions_, 1}, live, std::min(kGemmDepth, k_ - from),
                     out + packed_size(live, from));
    });
    return out;
  }

  void multiply_many(const FusedCall& c, const Unit& unit, const float* x, int64_t live, float* tile) const {
    const Weight& w = weights_[unit.weight];
    float* out = c.out(unit.weight) + unit.row * positions_;
    for (int64_t from = 0; from < k_; from += kGemmDepth) {
      const int64_t depth = std::min(kGemmDepth, k_ - from);
      for (int64_t r = 0; r < unit.count; ++r) {
        const int64_t first = (unit.row + r) * k_ + from;
        if (w.kind)
          widen(*w.kind, w.form.data + first * bytes_of(*w.kind), depth, tile + r * depth);
        else
          w.stored->read(first, first + depth, tile + r * depth);
      }
      gemm_packed(unit.count, live, depth, tile, depth, x + packed_size(live, from), out, positions_,
                  from > 0);
    }
    for (int64_t r = 0; r < unit.count && live < positions_; ++r)
      std::fill(out + r * positions_ + live, out + (r + 1) * positions_, out[r * positions_ + live - 1]);
  }

  // Scales, biases and what is added; false when fp16 arithmetic may have a fault to report.
  bool finish(const FusedCall& c, const Unit& unit) const {
    const Weight& w = weights_[unit.weight];
    const float* bias = w.bias < 0 ? nullptr : c.floats(static_cast<size_t>(w.bias)) + unit.row;
    const int64_t count = unit.count * positions_;
    float* out = c.out(unit.weight) + unit.row * positions_;
    if (w.kind && w.form.scale && w.form.rows_per_scale == 1 && positions_ == 1) {
      const float* scale = w.form.scale + unit.row;
      for (int64_t i = 0; i < unit.count; ++i) out[i] *= scale[i];
    } else if (w.kind && w.form.scale) {
      for (int64_t i = 0; i < unit.count; ++i) {
        const float scale = w.form.scale[(unit.row + i) / w.form.rows_per_scale];
        for (int64_t t = 0; t < positions_; ++t) out[i * positions_ + t] *= scale;
      }
    }
    for (int64_t i = 0; bias && i < unit.count; ++i)
      for (int64_t t = 0; t < positions_; ++t) out[i * positions_ + t] += bias[i];
    const bool half = c.half() && w.halves;
    if (half) round_halves(out, count);
    if (half && c.watch() && !all_finite(out, count)) return false;
    if (addend_ < 0) return true;
    const float* add = c.floats(static_cast<size_t>(addend_)) + unit.row * positions_;
    for (int64_t i = 0; i < count; ++i) out[i] += add[i];
    if (half) round_halves(out, count);
    return !half || !c.watch() || all_finite(out, count);
  }

  const std::vector<Weight> weights_;
  const int64_t k_, positions_;
  const int addend_;
  std::vector<Unit> units_;
};

class Projections {
 public:
  explicit Projections(PlanEdit& edit) : edit_(edit) {}

  void run() {
    std::map<int, std::vector<int>> by_input;  // x → steps
    for (int i = 0; i < edit_.size(); ++i)
      if (edit_.is(i, "conv") && is_conv1x1(edit_.step(i).binding, edit_.step(i).types) && fits(i)) {
        const Source x = edit_.input(i, "x");
        if (x.id >= 0) by_input[x.id].push_back(i);
      }
    for (const auto& [x, steps] : by_input) {
      // The first comes first anyway; the others need nothing but x and constants.
      std::vector<int> group;
      for (const int step : steps)
        if (!edit_.changed_between(x, steps[0], step) && constant_bias(step)) group.push_back(step);
      if (!group.empty()) apply(x, group);
    }
  }

 private:
  // There is something to compute, from a weight that can be read in place or for many positions.
  bool fits(int step) const {
    const Operand* weight = find_operand(edit_.step(step).binding, "weight");
    const int64_t size = edit_.step(step).types[0].size(), rows = weight->type.shape[0].size();
    return size > 0 && (size / rows > kMostPositions || weight_kind(weight->stored.get()));
  }

  bool constant_bias(int step) const {
    const Source& bias = edit_.input(step, "bias");
    return bias.id < 0;
  }

  Weight weight_of(int step) const {
    const Operand* operand = find_operand(edit_.step(step).binding, "weight");
    Weight w;
    w.stored = operand->stored;
    w.form = operand->stored->form();
    w.kind = weight_kind(operand->stored.get());
    w.rows = operand->type.shape[0].size();
    w.halves = edit_.step(step).types[0].dtype == DType::fp16;
    return w;
  }

  // A step that does nothing but add the projection to a value of the same shape.
  int adder(int step, Source& other) const {
    const int id = edit_.step(step).out[0];
    const auto& users = edit_.users(id);
    if (users.size() != 1 || edit_.stays(id) || !edit_.is(users[0], "add")) return -1;
    const Type& type = edit_.step(step).types[0];
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")}) {
      other = edit_.input(users[0], y);
      if (edit_.maker(edit_.input(users[0], x)) != step || other.id < 0 || edit_.maker(other) == step)
        continue;
      if (edit_.input_type(users[0], x).shape != type.shape ||
          edit_.input_type(users[0], y).shape != type.shape)
        continue;
      if (edit_.step(users[0]).types[0].dtype == type.dtype) return users[0];
    }
    return -1;
  }

  void apply(int x, const std::vector<int>& group) {
    Step fused;
    fused.in = {{x, nullptr}};
    std::vector<Weight> weights;
    std::vector<int> steps = group;
    int at = group[0], addend = -1;
    for (const int step : group) {
      weights.push_back(weight_of(step));
      if (const Source& bias = edit_.input(step, "bias"); bias.fixed) {
        weights.back().bias = static_cast<int>(fused.in.size());
        fused.in.push_back(bias);
      }
      fused.out.push_back(edit_.step(step).out[0]);
      fused.types.push_back(edit_.step(step).types[0]);
    }
    const int64_t k = edit_.input_type(group[0], "x").dim(1).size();
    const int64_t positions = fused.types[0].size() / weights[0].rows;
    Source other;
    if (const int sum = group.size() == 1 ? adder(at, other) : -1;
        sum >= 0 && !edit_.changed_between(x, at, sum) && !edit_.changed_between(other.id, at, sum)) {
      addend = static_cast<int>(fused.in.size());
      fused.in.push_back(other);
      fused.out = edit_.step(sum).out;
      fused.types = edit_.step(sum).types;
      steps.push_back(sum);
      at = sum;
    }
    if (positions > kMostPositions) {
      fused.out.push_back(edit_.new_value());
      fused.types.push_back(Type::tensor(DType::fp32, {packed_size(positions, k)}));
    }
    fused.fused = std::make_shared<Projection>(std::move(weights), k, positions, addend);
    edit_.replace(steps, std::move(fused), at);
  }

  PlanEdit& edit_;
};

}  // namespace

void fuse_projections(PlanEdit& edit) { Projections(edit).run(); }

}  // namespace anemone
