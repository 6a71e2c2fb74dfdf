// Projections over weights as they are stored: those of one input run together, one that is added to
// something adds it on the way. Few positions read the weights where they lie; many widen a tile at a time and
// multiply. Positions at the end that repeat one another, as a host pads a short chunk, are computed once. In `fast`
// arithmetic the input is rounded to 8 bits once, for all threads and weights that take it so.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>

#include "engine/buffer.h"
#include "engine/fast_weight.h"
#include "engine/kernel_choice.h"
#include "engine/layers.h"
#include "engine/patterns.h"
#include "engine/weight_rows.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/matvec.h"

namespace anemone {
namespace {

constexpr int64_t kRows = WeightRows::kMost;  // of a weight that a thread takes at a time, for few positions
constexpr int64_t kTileRows = 24;  // the same for many in fp32, widened kGemmDepth columns at a time: 18 KiB
constexpr int64_t kFewRows = 4;    // of a weight widened at a time, for few positions

struct Weight {
  Weight(const std::shared_ptr<const StoredTensor>& stored, int64_t count, int64_t k, bool as_fast)
      : rows(stored, count, k) {
    if (as_fast) fast = FastWeight::make(stored->layout(), count, k);
  }

  WeightRows rows;
  std::optional<FastWeight> fast;  // in place of `rows`
  int bias = -1;                   // which input; -1: none
  bool halves = false;             // the result is declared fp16
  int constant = -1;               // which value of the function it is; -1: one that is bound in place
};

// The input in the forms that the weights take.
struct Activations {
  const float* x = nullptr;            // few: vectors one after the other; many: as gemm_packed wants them
  FastColumn columns[kMostPositions];  // few, rounded
  FastPanels panels;                   // many, rounded
  int64_t live = 0;                    // columns to compute; the others repeat the last of them
};

// What a thread works with; kept by it, because making one anew costs as much as some rows.
struct Tools {
  WeightRows::Room room;
  FastWeight::Room fast;
  std::vector<float> tile;
  FloatRoom expanded;  // the rows of a tile
  std::byte* bytes = nullptr;
};

Tools& own_tools() {
  thread_local Tools tools;
  return tools;
}

// The least n such that the columns from n - 1 on are the same, bit by bit.
int64_t distinct_columns(const float* x, int64_t rows, int64_t columns) {
  int64_t n = 1;
  for (int64_t i = 0; i < rows && n < columns; ++i, x += columns) {
    const auto repeats = [&](int64_t from) {
      return std::memcmp(x + from, x + from - 1, static_cast<size_t>(columns - from) * sizeof(float)) == 0;
    };
    if (repeats(n)) continue;
    for (n = columns; repeats(n - 1);) --n;
  }
  return n;
}

// In: x, then the biases, then what is added. Out: one for each weight; room for x as gemm wants it, for many
// positions; room for x as `fast` kernels want it.
class Projection : public FusedKernel {
 public:
  Projection(std::vector<Weight> weights, int64_t k, int64_t positions, int addend, bool fast)
      : weights_(std::move(weights)), k_(k), positions_(positions), addend_(addend), fast_(fast) {
    for (size_t w = 0; w < weights_.size(); ++w) {
      const int64_t rows = few_ ? kRows : weights_[w].fast ? fast_gemm_rows() : kTileRows;
      for (int64_t r = 0, end = weights_[w].rows.rows(); r < end; r += rows)
        units_.push_back({w, r, std::min(rows, end - r)});
    }
    for (const Weight& w : weights_) {
      (w.fast ? any_fast_ : any_exact_) = true;
      any_split_ = any_split_ || (w.fast && fast_splits(w.fast->kind()));
      any_fine_ = any_fine_ || (w.fast && w.fast->any_fine());
    }
  }

  // Elements of the room that run() needs for x in its two forms.
  int64_t exact_room() const { return few_ || !any_exact_ ? 0 : packed_size(positions_, k_); }
  int64_t fast_room() const {
    if (!any_fast_) return 0;
    return ((few_ ? positions_ * fast_column_bytes(k_) : fast_panels_bytes(k_, positions_)) + 3) / 4;
  }

  std::string_view name() const override { return "projection"; }
  std::shared_ptr<const FusedKernel> for_layer(const LayerMap& map) const override {
    std::vector<Weight> weights;
    for (const Weight& w : weights_) {
      if (!map.replaces(w.constant)) {
        weights.push_back(w);
        continue;
      }
      const int other = map.value(w.constant);
      weights.emplace_back(map.info().stored(other), w.rows.rows(), k_, fast_);
      weights.back().bias = w.bias;
      weights.back().halves = w.halves;
      weights.back().constant = other;
    }
    auto out = std::make_shared<Projection>(std::move(weights), k_, positions_, addend_, fast_);
    return out->exact_room() == exact_room() && out->fast_room() == fast_room() ? out : nullptr;
  }
  bool run(const FusedCall& c) const override {
    std::vector<float> vectors;
    const Activations x = few_ ? gather(c, vectors) : pack(c);
    std::atomic<bool> fine = true;
    c.pool().parallel_for(static_cast<int64_t>(units_.size()), 1, [&](int64_t begin, int64_t end) {
      Tools& tools = own_tools();
      if (any_exact_ && !(few_ && in_place_))
        tools.tile.resize(static_cast<size_t>(few_ ? kFewRows * k_ : kTileRows * kGemmDepth));
      if (any_fast_ && !few_)
        tools.bytes = reinterpret_cast<std::byte*>(
            tools.expanded.at_least((fast_room_bytes(any_fine_, fast_gemm_rows(), k_) + 3) / 4));
      for (int64_t u = begin; u < end; ++u) {
        const Unit& unit = units_[static_cast<size_t>(u)];
        const Weight& w = weights_[unit.weight];
        if (w.fast) {
          w.fast->prepare(unit.row, unit.count, tools.fast);
          few_ ? fast_few(c, unit, x, tools) : fast_many(c, unit, x, tools);
        } else {
          w.rows.prepare(unit.row, unit.count, tools.room);
          few_ ? multiply_few(c, unit, x.x, tools.room, tools.tile.data())
               : multiply_many(c, unit, x.x, x.live, tools.room, tools.tile.data());
        }
        if (!finish(c, unit)) fine = false;
      }
    });
    return fine;
  }

  // One vector a call: sums of several then run in the same order.
  bool shareable() const override { return positions_ == 1; }

  bool shares(const FusedKernel& other) const override {
    if (this == &other) return true;
    const auto* p = dynamic_cast<const Projection*>(&other);
    return p && p->shareable() &&
           std::equal(weights_.begin(), weights_.end(), p->weights_.begin(), p->weights_.end(),
                      [](const Weight& a, const Weight& b) { return a.rows.same(b.rows); });
  }

  // Each call rounds its own input, on the thread that made it.
  void prepare(const FusedCall& c) const override {
    if (any_fast_) fast_column(c.floats(0), k_, any_split_, fast_place(c));
  }

  void run_together(std::span<FusedTurn> turns) const override {
    const auto columns = static_cast<int64_t>(turns.size());
    std::vector<float> x(static_cast<size_t>(any_exact_ ? k_ * columns : 0));
    std::vector<FastColumn> rounded;
    for (int64_t t = 0; t < columns; ++t) {
      const FusedTurn& turn = turns[static_cast<size_t>(t)];
      if (any_exact_) std::copy_n(turn.call.floats(0), k_, x.data() + t * k_);
      if (any_fast_)
        rounded.push_back(
            fast_column_at(static_cast<const Projection*>(turn.kernel)->fast_place(turn.call), k_));
    }
    std::vector<std::atomic<bool>> fine(turns.size());
    for (auto& f : fine) f = true;
    turns[0].call.pool().parallel_for(
        static_cast<int64_t>(units_.size()), 1, [&](int64_t begin, int64_t end) {
          Tools& tools = own_tools();
          tools.tile.resize(static_cast<size_t>(!any_exact_ || in_place_ ? 0 : kFewRows * k_));
          std::vector<float> tile(static_cast<size_t>(any_exact_ ? kRows * columns : 0));
          for (int64_t u = begin; u < end; ++u) {
            const Unit& unit = units_[static_cast<size_t>(u)];
            if (weights_[unit.weight].fast)
              fast_turns(unit, rounded, turns, tools);
            else
              exact_turns(unit, x.data(), turns, tools, tile.data());
            for (size_t t = 0; t < turns.size(); ++t)
              if (!static_cast<const Projection*>(turns[t].kernel)->finish(turns[t].call, unit))
                fine[t] = false;
          }
        });
    for (size_t t = 0; t < turns.size(); ++t) turns[t].done = fine[t];
  }

 private:
  struct Unit {
    size_t weight;
    int64_t row, count;
  };

  // Where the rounded input of a call lies.
  std::byte* fast_place(const FusedCall& c) const {
    return reinterpret_cast<std::byte*>(c.out(weights_.size() + (!few_ && any_exact_ ? 1 : 0)));
  }

  // The rows of a unit for all turns, kFastColumns at a time.
  void fast_turns(const Unit& unit, std::span<const FastColumn> x, std::span<const FusedTurn> turns,
                  Tools& tools) const {
    const FastWeight& w = *weights_[unit.weight].fast;
    w.prepare(unit.row, unit.count, tools.fast);
    for (size_t t = 0; t < turns.size(); t += kFastColumns) {
      const size_t some = std::min(static_cast<size_t>(kFastColumns), turns.size() - t);
      w.by_side(unit.row, unit.count, [&](int64_t from, int64_t count, bool fine) {
        float* out[kFastColumns];
        for (size_t i = 0; i < some; ++i) out[i] = turns[t + i].call.out(unit.weight) + unit.row + from;
        fast_matvec(w.kind(), w.block(), fine, tools.fast.rows + from, count, k_, x.data() + t,
                    static_cast<int64_t>(some), out);
      });
    }
  }

  void exact_turns(const Unit& unit, const float* x, std::span<const FusedTurn> turns, Tools& tools,
                   float* tile) const {
    weights_[unit.weight].rows.prepare(unit.row, unit.count, tools.room);
    multiply_columns(unit, x, static_cast<int64_t>(turns.size()), tools.room, tools.tile.data(), tile);
    for (size_t t = 0; t < turns.size(); ++t)
      std::copy_n(tile + static_cast<int64_t>(t) * kRows, unit.count,
                  turns[t].call.out(unit.weight) + unit.row);
  }

  // Few positions: vectors one after the other, where the input has its channels apart.
  Activations gather(const FusedCall& c, std::vector<float>& vectors) const {
    Activations out{.x = c.floats(0), .live = positions_};
    if (positions_ > 1) {
      vectors.resize(static_cast<size_t>(k_ * positions_));
      for (int64_t i = 0; i < k_; ++i)
        for (int64_t t = 0; t < positions_; ++t)
          vectors[static_cast<size_t>(t * k_ + i)] = out.x[i * positions_ + t];
      out.x = vectors.data();
    }
    for (int64_t t = 0; t < positions_ && any_fast_; ++t)
      out.columns[t] = fast_column(out.x + t * k_, k_, any_split_, fast_place(c) + t * fast_column_bytes(k_));
    return out;
  }

  Activations pack(const FusedCall& c) const {
    const float* x = c.floats(0);
    Activations out{.live = distinct_columns(x, k_, positions_)};
    if (any_exact_) out.x = packed(c, x, out.live);
    if (!any_fast_) return out;
    std::byte* panels = fast_place(c);
    const int64_t width = fast_panel_columns();
    c.pool().parallel_for((out.live + width - 1) / width, 1, [&](int64_t begin, int64_t end) {
      fast_pack(x, positions_, k_, out.live, begin, end, panels);
    });
    out.panels = {k_, out.live, panels};
    return out;
  }

  void fast_few(const FusedCall& c, const Unit& unit, const Activations& x, const Tools& tools) const {
    const FastWeight& w = *weights_[unit.weight].fast;
    float* out = c.out(unit.weight) + unit.row * positions_;
    float tile[kRows * kMostPositions];
    w.by_side(unit.row, unit.count, [&](int64_t from, int64_t count, bool fine) {
      float* to[kMostPositions];
      for (int64_t t = 0; t < positions_; ++t) to[t] = (positions_ == 1 ? out : tile + t * kRows) + from;
      fast_matvec(w.kind(), w.block(), fine, tools.fast.rows + from, count, k_, x.columns, positions_, to);
    });
    if (positions_ == 1) return;
    for (int64_t i = 0; i < unit.count; ++i)
      for (int64_t t = 0; t < positions_; ++t) out[i * positions_ + t] = tile[t * kRows + i];
  }

  void fast_many(const FusedCall& c, const Unit& unit, const Activations& x, const Tools& tools) const {
    const FastWeight& w = *weights_[unit.weight].fast;
    float* out = c.out(unit.weight) + unit.row * positions_;
    w.by_side(unit.row, unit.count, [&](int64_t from, int64_t count, bool fine) {
      fast_gemm(w.kind(), w.block(), fine, tools.fast.rows + from, count, x.panels, out + from * positions_,
                positions_, tools.bytes);
    });
    repeat_last(out, unit.count, x.live);
  }

  // The columns behind the live ones.
  void repeat_last(float* out, int64_t rows, int64_t live) const {
    for (int64_t r = 0; r < rows && live < positions_; ++r)
      std::fill(out + r * positions_ + live, out + (r + 1) * positions_, out[r * positions_ + live - 1]);
  }

  void multiply_few(const FusedCall& c, const Unit& unit, const float* x, const WeightRows::Room& room,
                    float* wide) const {
    float* out = c.out(unit.weight) + unit.row * positions_;
    float tile[kRows * kMostPositions];
    float* to = positions_ == 1 ? out : tile;
    multiply_columns(unit, x, positions_, room, wide, to);
    for (int64_t i = 0; i < unit.count && positions_ > 1; ++i)
      for (int64_t t = 0; t < positions_; ++t) out[i * positions_ + t] = tile[t * kRows + i];
  }

  // The rows of a unit times `columns` vectors: kRows results for each.
  void multiply_columns(const Unit& unit, const float* x, int64_t columns, const WeightRows::Room& room,
                        float* wide, float* to) const {
    const WeightRows& w = weights_[unit.weight].rows;
    for (int64_t r = 0; r < unit.count && !w.in_place(); r += kFewRows) {
      const int64_t count = std::min(kFewRows, unit.count - r);
      for (int64_t i = 0; i < count; ++i) w.widen(room, r + i, 0, k_, wide + i * k_);
      for (int64_t t = 0; t < columns; t += kMostVectors)
        matvec(WeightKind::fp32, reinterpret_cast<const std::byte*>(wide), count, k_, x + t * k_,
               std::min(kMostVectors, columns - t), to + t * kRows + r, kRows);
    }
    for (int64_t t = 0; t < columns && w.in_place(); t += kMostVectors)
      w.multiply(room, unit.count, x + t * k_, std::min(kMostVectors, columns - t), to + t * kRows, kRows);
  }

  // The first `live` columns of x for gemm_packed, kGemmDepth rows after kGemmDepth rows.
  const float* packed(const FusedCall& c, const float* x, int64_t live) const {
    float* out = c.out(weights_.size());
    const int64_t width = panel_columns(), panels = (live + width - 1) / width;
    c.pool().parallel_for((k_ + kGemmDepth - 1) / kGemmDepth * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t from = unit / panels * kGemmDepth, depth = std::min(kGemmDepth, k_ - from);
        const int64_t column = unit % panels * width;
        pack_columns({x + from * positions_ + column, positions_, 1}, std::min(width, live - column), depth,
                     out + packed_size(live, from) + column * depth);
      }
    });
    return out;
  }

  void multiply_many(const FusedCall& c, const Unit& unit, const float* x, int64_t live,
                     const WeightRows::Room& room, float* tile) const {
    const WeightRows& w = weights_[unit.weight].rows;
    float* out = c.out(unit.weight) + unit.row * positions_;
    for (int64_t from = 0; from < k_; from += kGemmDepth) {
      const int64_t depth = std::min(kGemmDepth, k_ - from);
      for (int64_t r = 0; r < unit.count; ++r) {
        w.widen(room, r, from, depth, tile + r * depth);
        w.fetch(unit.row + r + kTileRows, from, depth);
      }
      gemm_packed(unit.count, live, depth, tile, depth, x + packed_size(live, from), out, positions_,
                  from > 0);
    }
    repeat_last(out, unit.count, live);
  }

  // Scales, biases and what is added; false when fp16 arithmetic may have a fault to report.
  bool finish(const FusedCall& c, const Unit& unit) const {
    const Weight& w = weights_[unit.weight];
    const float* bias = w.bias < 0 ? nullptr : c.floats(static_cast<size_t>(w.bias)) + unit.row;
    const int64_t count = unit.count * positions_;
    float* out = c.out(unit.weight) + unit.row * positions_;
    const bool scaled = w.rows.scaled() && !w.fast;  // `fast` products have their scales already
    if (scaled && addend_ >= 0 && !bias && !c.half()) {
      const float* add = c.floats(static_cast<size_t>(addend_)) + unit.row * positions_;
      for (int64_t i = 0; i < unit.count; ++i)
        scale_and_add(out + i * positions_, w.rows.scale(unit.row + i), add + i * positions_, positions_,
                      false);
      return true;
    }
    if (const float* scales = w.rows.row_scales(); scales && positions_ == 1 && scaled) {
      const float* scale = scales + unit.row;
      for (int64_t i = 0; i < unit.count; ++i) out[i] *= scale[i];
    } else if (scaled) {
      for (int64_t i = 0; i < unit.count; ++i) {
        const float scale = w.rows.scale(unit.row + i);
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
  const bool in_place_ =
      std::all_of(weights_.begin(), weights_.end(), [](const Weight& w) { return w.rows.in_place(); });
  const int64_t k_, positions_;
  const bool few_ = positions_ <= kMostPositions;
  const int addend_;
  const bool fast_;  // arithmetic
  bool any_fast_ = false, any_exact_ = false, any_split_ = false, any_fine_ = false;
  std::vector<Unit> units_;
};

class Projections {
 public:
  explicit Projections(PlanEdit& edit) : edit_(edit) {}

  void run() {
    std::map<int, std::vector<int>> by_input;  // x → steps
    for (int i = 0; i < edit_.size(); ++i)
      if (edit_.is(i, "conv") && is_conv1x1(edit_.binding(i), edit_.step(i).types) && fits(i)) {
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
  // There is something to compute.
  bool fits(int step) const {
    const Operand* weight = find_operand(edit_.binding(step), "weight");
    return edit_.step(step).types[0].size() > 0 && weight->type.shape[1] != Dim(0);
  }

  bool constant_bias(int step) const {
    const Source& bias = edit_.input(step, "bias");
    return bias.id < 0;
  }

  Weight weight_of(int step) const {
    const Operand* operand = find_operand(edit_.binding(step), "weight");
    const Shape& shape = operand->type.shape;
    Weight w(operand->stored, shape[0].size(), shape[1].size(), edit_.fast());
    w.halves = edit_.step(step).types[0].dtype == DType::fp16;
    w.constant = edit_.constant(step, "weight");
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
    const int64_t positions = fused.types[0].size() / weights[0].rows.rows();
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
    auto kernel = std::make_shared<Projection>(std::move(weights), k, positions, addend, edit_.fast());
    for (const int64_t room : {kernel->exact_room(), kernel->fast_room()}) {
      if (room == 0) continue;
      fused.out.push_back(edit_.new_value());
      fused.types.push_back(Type::tensor(DType::fp32, {room}));
    }
    fused.work = RunFused{std::move(kernel)};
    edit_.replace(steps, std::move(fused), at);
  }

  PlanEdit& edit_;
};

}  // namespace

void fuse_projections(PlanEdit& edit) { Projections(edit).run(); }

}  // namespace anemone
