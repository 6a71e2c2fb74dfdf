// Attention as one step. Which columns matter is decided before anything is computed: a column that the mask
// takes away in every row adds exactly nothing when e^(its score - the row's largest) is zero in fp32, and
// how large a score can be follows from the query and from what is known about the keys (StateBounds). Keys and values
// that are kept as fp16 are read as they are.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "engine/buffer.h"
#include "engine/patterns.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"

namespace anemone {
namespace {

constexpr float kFar = -1000;      // a mask value below this takes a column away
constexpr float kVanishes = -150;  // e^x is zero in fp32 below -103.98; half rounds masked scores by up to 32
constexpr float kMostHalf = 65504;     // larger sums would leave the range of fp16
constexpr int64_t kFewRows = 8;        // of one head: up to here keys are read row by row
constexpr int64_t kRowBlock = 96;      // beyond: rows of one matrix product
constexpr int64_t kColumnBlock = 128;  // columns that a thread takes at a time, for few rows
constexpr int64_t kValueBlock = 512;   // columns whose values are summed up before they are added to others

// What a mask [rows, columns] leaves: see the members of Extent.
struct Extent {
  float first, last;  // all columns outside [first, last) are taken away in every row
  float outside;      // the largest mask value there
  float inside;       // the least of the rows' largest values
  float lowest;       // the smallest finite value
  float finite;       // 1: every value is finite
};

class MaskExtent : public WeightlessKernel {
 public:
  MaskExtent(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}

  std::string_view name() const override { return "mask extent"; }
  bool run(const FusedCall& c) const override {
    const float* mask = c.floats(0);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    int64_t first = columns_, last = 0;
    Extent e{0, 0, -kInfinity, kInfinity, 0, 1};
    for (int64_t r = 0; r < rows_; ++r) {
      const float* row = mask + r * columns_;
      // Comparisons are such that a NaN counts as a column that matters.
      int64_t a = 0, b = columns_;
      while (a < columns_ && row[a] < kFar) ++a;
      while (b > a && row[b - 1] < kFar) --b;
      first = std::min(first, a);
      last = std::max(last, b);
      float largest = -kInfinity;
      for (int64_t i = 0; i < columns_; ++i) {
        largest = std::max(largest, row[i]);
        if (std::isfinite(row[i]))
          e.lowest = std::min(e.lowest, row[i]);
        else
          e.finite = 0;
      }
      e.inside = std::min(e.inside, largest);
    }
    first = std::min(first, last);
    for (int64_t r = 0; r < rows_; ++r) {
      const float* row = mask + r * columns_;
      for (int64_t i = 0; i < first; ++i) e.outside = std::max(e.outside, row[i]);
      for (int64_t i = last; i < columns_; ++i) e.outside = std::max(e.outside, row[i]);
    }
    e.first = static_cast<float>(first);
    e.last = static_cast<float>(last);
    *static_cast<Extent*>(static_cast<void*>(c.out())) = e;
    return true;
  }

 private:
  int64_t rows_, columns_;
};

// The sum of |x[i]| * y[i], in parts that a compiler can keep side by side.
float largest_dot(const float* x, const float* y, int64_t n) {
  constexpr int64_t kParts = 8;
  float sums[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts)
    for (int64_t p = 0; p < kParts; ++p) sums[p] += std::abs(x[i + p]) * y[i + p];
  for (; i < n; ++i) sums[0] += std::abs(x[i]) * y[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

struct AttentionShape {
  int64_t heads = 0, rows = 0;  // heads of keys and values; rows of q per head
  int64_t columns = 0, dim = 0, value_dim = 0;
  int64_t mask_rows = 0;
  float scale = 1;
  bool halves = false;     // the values are declared fp16
  bool rounded = false;    // fp16 arithmetic: they are rounded on the way
  int64_t first_part = 0;  // of the state that holds the keys
};

// Where the keys or values of a head are: floats or halves.
struct HeadRows {
  HeadRows(const Cell& cell, int64_t offset)
      : halves(cell.halves), data(static_cast<const std::byte*>(cell.data)) {
    data += offset * (halves ? 2 : 4);
  }
  template <class F>
  void read(F f) const {
    halves ? f(reinterpret_cast<const uint16_t*>(data)) : f(reinterpret_cast<const float*>(data));
  }
  // As floats: where they are, or in `room`.
  const float* floats(int64_t count, FloatRoom& room) const {
    if (!halves) return reinterpret_cast<const float*>(data);
    float* out = room.at_least(count);
    halves_to_floats(data, count, out);
    return out;
  }
  bool halves;
  const std::byte* data;
};

// In: q, keys, values, mask, extent of the mask. Out: what is attended, and for few rows two rooms: in fp16 arithmetic
// the scores and the sums of blocks of columns, else the sums of parts of a softmax and what is known of each.
class Attention : public WeightlessKernel {
 public:
  explicit Attention(const AttentionShape& shape) : s_(shape) {}

  std::string_view name() const override { return "attention"; }
  bool run(const FusedCall& c) const override {
    const Extent extent = *static_cast<const Extent*>(c.data(4));
    Range range{0, s_.columns};
    if (can_skip(c, extent)) range = {static_cast<int64_t>(extent.first), static_cast<int64_t>(extent.last)};
    const bool half = c.half() && s_.halves;
    Watch watch{half && c.watch(), extent.finite != 0};
    if (s_.rows > kFewRows)
      many_rows(c, range, half, watch);
    else
      s_.rounded ? few_rows(c, range, half, watch) : one_pass(c, range);
    return watch.fine.load();
  }
  bool takes_halves(size_t input) const override { return input == 1 || input == 2; }

 private:
  struct Range {
    int64_t first, last;
    int64_t count() const { return last - first; }
  };
  // fp16 arithmetic: a result that is not finite may be a fault, which the plain way names.
  struct Watch {
    bool on, finite_mask;
    std::atomic<bool> fine = true;

    void check(const float* x, int64_t n) {
      if (on && !all_finite(x, n)) fine = false;
    }
    void check_masked(const float* x, int64_t n) {
      if (finite_mask) check(x, n);
    }
  };

  bool can_skip(const FusedCall& c, const Extent& e) const {
    const StateBounds* keys = c.cell(1).bounds;
    const StateBounds* values = c.cell(2).bounds;
    if (!keys || !values || !keys->known() || !values->known()) return false;
    if (keys->rows() != s_.columns || keys->width() != s_.dim || e.last <= e.first) return false;
    // No score is larger than this.
    const float* q = c.floats(0);
    double bound = 0;
    for (int64_t h = 0; h < s_.heads; ++h)
      for (int64_t r = 0; r < s_.rows; ++r, q += s_.dim) {
        const float* lanes = keys->lanes(s_.first_part + h);
        const float sum = largest_dot(q, lanes, s_.dim);
        if (!std::isfinite(sum)) return false;
        bound = std::max(bound, static_cast<double>(sum));
      }
    bound *= std::abs(s_.scale) * 1.001;  // the sum's own rounding, and that of fp16
    if (c.half() && s_.halves && (bound - e.lowest > kMostHalf || bound > kMostHalf * std::abs(s_.scale)))
      return false;
    return e.outside + bound - (e.inside - bound) < kVanishes;
  }

  const float* mask_row(const FusedCall& c, int64_t row) const {
    return c.floats(3) + row % s_.mask_rows * s_.columns;
  }

  void to_probabilities(const FusedCall& c, const Range& range, int64_t row, float* x, bool half,
                        Watch& watch) const {
    const int64_t n = range.count();
    if (half) round_halves(x, n);
    watch.check(x, n);
    scale_and_add(x, s_.scale, mask_row(c, row) + range.first, n, half);
    watch.check_masked(x, n);
    softmax(x, n);
    if (half) round_halves(x, n);
  }

  HeadRows keys(const FusedCall& c, int64_t head, int64_t column) const {
    return {c.cell(1), (head * s_.columns + column) * s_.dim};
  }
  HeadRows values(const FusedCall& c, int64_t head, int64_t column) const {
    return {c.cell(2), (head * s_.columns + column) * s_.value_dim};
  }

  // Keys and values once, part by part: each part has a softmax of its own, and the last loop joins them. How columns
  // are parted does not depend on the number of threads.
  void one_pass(const FusedCall& c, const Range& range) const {
    const int64_t n = range.count(), parts = (n + kColumnBlock - 1) / kColumnBlock;
    const int64_t size = s_.rows * s_.value_dim;
    float* sums = c.out(1);
    auto* stats = static_cast<SoftmaxPart*>(static_cast<void*>(c.out(2)));
    c.pool().parallel_for(s_.heads * parts, std::max<int64_t>(1, 64 / n), [&](int64_t begin, int64_t end) {
      float scores[kFewRows * kColumnBlock];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t h = unit / parts, at = range.first + unit % parts * kColumnBlock;
        const int64_t columns = std::min(kColumnBlock, range.last - at);
        keys(c, h, at).read([&](const auto* k) {
          attention_scores(c.floats(0) + h * s_.rows * s_.dim, s_.rows, s_.dim, k, columns, scores, columns);
        });
        for (int64_t r = 0; r < s_.rows; ++r) {
          float* x = scores + r * columns;
          scale_and_add(x, s_.scale, mask_row(c, h * s_.rows + r) + at, columns, false);
          stats[unit * s_.rows + r] = softmax_part(x, columns);
        }
        values(c, h, at).read([&](const auto* v) {
          attention_values(scores, columns, s_.rows, v, columns, s_.value_dim, 0, s_.value_dim,
                           sums + unit * size);
        });
      }
    });
    const int64_t grain = std::max<int64_t>(1, 256 / parts);
    c.pool().parallel_for(s_.heads * s_.rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row / s_.rows, r = row % s_.rows;
        join_parts(stats + h * parts * s_.rows + r, sums + h * parts * size + r * s_.value_dim, parts,
                   s_.rows, size, s_.value_dim, c.out() + row * s_.value_dim);
      }
    });
  }

  // Keys by blocks of columns, then softmax by rows, then values by blocks of columns.
  void few_rows(const FusedCall& c, const Range& range, bool half, Watch& watch) const {
    const int64_t n = range.count(), blocks = (n + kColumnBlock - 1) / kColumnBlock;
    float* scores = c.out(1);
    const int64_t row_work = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, n));
    c.pool().parallel_for(s_.heads * blocks, 2, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t h = unit / blocks, at = unit % blocks * kColumnBlock;
        keys(c, h, range.first + at).read([&](const auto* k) {
          attention_scores(c.floats(0) + h * s_.rows * s_.dim, s_.rows, s_.dim, k,
                           std::min(kColumnBlock, n - at), scores + h * s_.rows * n + at, n);
        });
      }
    });
    c.pool().parallel_for(s_.heads * s_.rows, row_work, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        to_probabilities(c, range, row, scores + row * n, half, watch);
    });
    // Sums of blocks of columns, added in order: the same on any number of threads.
    const int64_t parts = (n + kValueBlock - 1) / kValueBlock, size = s_.rows * s_.value_dim;
    float* sums = parts == 1 ? c.out() : c.out(2);
    c.pool().parallel_for(s_.heads * parts, std::max<int64_t>(1, 256 / n), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t h = unit / parts, from = unit % parts * kValueBlock;
        values(c, h, range.first + from).read([&](const auto* v) {
          attention_values(scores + h * s_.rows * n + from, n, s_.rows, v, std::min(kValueBlock, n - from),
                           s_.value_dim, 0, s_.value_dim, sums + unit * size);
        });
      }
    });
    for (int64_t h = 0; h < s_.heads && parts > 1; ++h) {
      float* out = c.out() + h * size;
      std::copy_n(sums + h * parts * size, size, out);
      for (int64_t p = 1; p < parts; ++p)
        for (int64_t i = 0; i < size; ++i) out[i] += sums[(h * parts + p) * size + i];
    }
    finish(c, 0, s_.heads * s_.rows, half, watch);
  }

  void many_rows(const FusedCall& c, const Range& range, bool half, Watch& watch) const {
    const int64_t n = range.count(), blocks = (s_.rows + kRowBlock - 1) / kRowBlock;
    c.pool().parallel_for(s_.heads * blocks, 1, [&](int64_t begin, int64_t end) {
      thread_local GemmScratch scratch;
      thread_local FloatRoom wide_keys, wide_values, room;
      const float *k = nullptr, *v = nullptr;
      int64_t head = -1;
      float* scores = room.at_least(std::min(s_.rows, kRowBlock) * n);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t h = unit / blocks, from = unit % blocks * kRowBlock;
        const int64_t rows = std::min(kRowBlock, s_.rows - from), row = h * s_.rows + from;
        if (head != h) {
          k = keys(c, h, range.first).floats(n * s_.dim, wide_keys);
          v = values(c, h, range.first).floats(n * s_.value_dim, wide_values);
          head = h;
        }
        gemm(rows, n, s_.dim, {c.floats(0) + row * s_.dim, s_.dim, 1}, {k, 1, s_.dim}, scores, n, false,
             scratch);
        for (int64_t r = 0; r < rows; ++r) to_probabilities(c, range, row + r, scores + r * n, half, watch);
        gemm(rows, s_.value_dim, n, {scores, n, 1}, {v, s_.value_dim, 1}, c.out() + row * s_.value_dim,
             s_.value_dim, false, scratch);
        finish(c, row, rows, half, watch);
      }
    });
  }

  void finish(const FusedCall& c, int64_t row, int64_t rows, bool half, Watch& watch) const {
    float* out = c.out() + row * s_.value_dim;
    if (half) round_halves(out, rows * s_.value_dim);
    watch.check(out, rows * s_.value_dim);
  }

  const AttentionShape s_;
};

int64_t last_dim(const Type& type, int from_end = 1) { return type.dim(type.rank() - from_end).size(); }

class AttentionPattern {
 public:
  explicit AttentionPattern(PlanEdit& edit) : edit_(edit) {}

  void run() {
    for (int i = 0; i < edit_.size(); ++i)
      if (edit_.is(i, "matmul")) match(i);
    for (auto& [mask, shared] : extents_) edit_.insert(std::move(shared.step), shared.at);
  }

 private:
  struct Shared {
    int id = -1, at = 0;
    Step step;
  };

  std::pair<bool, bool> transposed(int matmul) const {
    return edit_.with_call(
        matmul, [](const OpCall& c) { return std::pair(c.flag("transpose_x"), c.flag("transpose_y")); });
  }

  // The step that makes the value, where only `user` looks at it.
  int inner(const Source& source, int user) const {
    const int made = edit_.maker(source);
    return made >= 0 && edit_.only_for(source.id, user) ? made : -1;
  }

  // attended = softmax(…) · values
  void match(int attended) {
    if (transposed(attended) != std::pair(false, false)) return;
    const int softmax = inner(edit_.input(attended, "x"), attended);
    if (!edit_.is(softmax, "softmax")) return;
    const Type& p = edit_.step(softmax).types[0];
    const bool last_axis = edit_.with_call(softmax, [&](const OpCall& c) {
      const int64_t axis = c.integer("axis");
      return axis == -1 || axis == p.rank() - 1;
    });
    if (!last_axis || p.rank() < 2) return;
    const int masked = inner(edit_.input(softmax, "x"), softmax);
    if (!edit_.is(masked, "add")) return;
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")})
      if (match_scores(attended, softmax, masked, x, y)) return;
  }

  bool match_scores(int attended, int softmax, int masked, const char* x, const char* y) {
    int scores = inner(edit_.input(masked, x), masked);
    std::vector<int> steps{masked, softmax, attended};
    AttentionShape s;
    if (edit_.is(scores, "mul") || edit_.is(scores, "real_div")) {
      const int scaled = scores;
      const auto factor = scale_of(scaled);
      scores = inner(edit_.input(scaled, "x"), scaled);
      if (!factor || scores < 0) return false;
      s.scale = *factor;
      steps.push_back(scaled);
    }
    if (!edit_.is(scores, "matmul") || transposed(scores) != std::pair(false, true)) return false;
    steps.push_back(scores);
    const Source mask = edit_.input(masked, y), q = edit_.input(scores, "x"), keys = edit_.input(scores, "y"),
                 values = edit_.input(attended, "y");
    if (mask.id < 0 || q.id < 0 || keys.id < 0 || values.id < 0) return false;
    if (!shape_of(scores, masked, softmax, attended, edit_.input_type(masked, y), s)) return false;
    std::sort(steps.begin(), steps.end());
    for (const Source& in : {mask, q, keys, values})
      if (edit_.changed_between(in.id, steps.front(), attended)) return false;
    s.first_part = edit_.offset(keys.id) / (s.columns * s.dim);
    if (edit_.offset(keys.id) % (s.columns * s.dim) != 0) return false;
    apply(steps, attended, s, {q, keys, values, mask});
    return true;
  }

  // x times, or over, one number that is a constant.
  std::optional<float> scale_of(int step) const {
    const Source& y = edit_.input(step, "y");
    if (!y.fixed || edit_.input_type(step, "y").size() != 1) return std::nullopt;
    const float value = *static_cast<const float*>(y.fixed);
    if (edit_.is(step, "mul")) return value;
    int exponent = 0;
    if (std::frexp(value, &exponent) != 0.5f) return std::nullopt;  // only for 2^n is it a product as well
    return 1 / value;
  }

  bool shape_of(int scores, int masked, int softmax, int attended, const Type& mask,
                AttentionShape& s) const {
    const Type& q = edit_.input_type(scores, "x");
    const Type& k = edit_.input_type(scores, "y");
    const Type& p = edit_.input_type(attended, "x");
    const Type& v = edit_.input_type(attended, "y");
    const Type& sum = edit_.step(masked).types[0];
    if (q.rank() < 2 || k.rank() != q.rank() || p.rank() != q.rank() || v.rank() != q.rank() ||
        sum.rank() < 2 || mask.rank() < 2)
      return false;
    if (q.size() == 0 || k.size() == 0 || v.size() == 0) return false;
    for (int i = 0; i + 2 < q.rank(); ++i)
      if (q.dim(i) != k.dim(i) || q.dim(i) != p.dim(i) || q.dim(i) != v.dim(i)) return false;
    s.rows = last_dim(q, 2);
    s.dim = last_dim(q);
    s.columns = last_dim(k, 2);
    s.value_dim = last_dim(v);
    s.heads = q.size() / (s.rows * s.dim);
    s.mask_rows = last_dim(mask, 2);
    // Views between the steps keep the rows whole.
    const int64_t count = s.heads * s.rows * s.columns;
    if (last_dim(p) != s.columns || last_dim(p, 2) != s.rows || last_dim(v, 2) != s.columns) return false;
    if (last_dim(sum) != s.columns || sum.size() != count || last_dim(mask) != s.columns) return false;
    if (mask.size() != s.mask_rows * s.columns || (s.mask_rows != last_dim(sum, 2) && s.mask_rows != 1))
      return false;
    if (last_dim(edit_.step(softmax).types[0]) != s.columns) return false;
    const DType dtype = sum.dtype;
    for (const int step : {scores, softmax, attended})
      if (edit_.step(step).types[0].dtype != dtype) return false;
    s.halves = dtype == DType::fp16;
    s.rounded = s.halves && edit_.half();
    return true;
  }

  void apply(const std::vector<int>& steps, int attended, const AttentionShape& s, std::vector<Source> in) {
    Shared& extent = extents_[{in[3].id, s.mask_rows}];
    if (extent.id < 0) {
      extent.id = edit_.new_value();
      extent.at = attended;
      extent.step = {RunFused{std::make_shared<MaskExtent>(s.mask_rows, s.columns)},
                     {in[3]},
                     {Type::tensor(DType::fp32, {static_cast<int64_t>(sizeof(Extent) / sizeof(float))})},
                     {extent.id},
                     edit_.step(attended).operation};
    }
    Step step;
    step.work = RunFused{std::make_shared<Attention>(s)};
    in.push_back({extent.id, nullptr});
    step.in = std::move(in);
    step.out = edit_.step(attended).out;
    step.types = edit_.step(attended).types;
    if (s.rows <= kFewRows) {
      const auto add_room = [&](Shape shape) {
        step.out.push_back(edit_.new_value());
        step.types.push_back(Type::tensor(DType::fp32, std::move(shape)));
      };
      const int64_t block = s.rounded ? kValueBlock : kColumnBlock, parts = (s.columns + block - 1) / block;
      if (s.rounded) add_room({s.heads * s.rows, s.columns});
      add_room({s.heads * parts, s.rows, s.value_dim});
      if (!s.rounded) add_room({s.heads * parts, s.rows, 2});
    }
    edit_.replace(steps, std::move(step), attended);
  }

  PlanEdit& edit_;
  std::map<std::pair<int, int64_t>, Shared> extents_;  // by mask and its rows
};

}  // namespace

void fuse_attention(PlanEdit& edit) { AttentionPattern(edit).run(); }

}  // namespace anemone
