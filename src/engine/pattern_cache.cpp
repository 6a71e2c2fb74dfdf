#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "engine/kernel_choice.h"
#include "engine/patterns.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

bool finite(const float* data, int64_t count) {
  uint32_t special = 0;  // an exponent of all ones
  for (int64_t i = 0; i < count; ++i)
    special |= (std::bit_cast<uint32_t>(data[i]) & 0x7f800000u) == 0x7f800000u;
  return special == 0;
}

// The rows that a one-hot changes: how many, then (row, token) of each; token -1 clears the row. -1 instead
// of the number: not a case for writing rows in place.
class ChangedRows : public WeightlessKernel {
 public:
  ChangedRows(int64_t rows, int64_t tokens) : rows_(rows), tokens_(tokens) {}

  std::string_view name() const override { return "changed rows"; }
  bool run(const FusedCall& c) const override {
    const float* write = c.floats(0);
    const float* keep = c.floats(1);
    auto* list = static_cast<int32_t*>(static_cast<void*>(c.out()));
    list[0] = 0;
    for (int64_t s = 0; s < rows_; ++s) {
      const float* line = write + s * tokens_;
      int32_t from = -1, ones = 0;
      bool odd = false;
      for (int64_t t = 0; t < tokens_; ++t) {
        if (line[t] == 0) continue;
        odd |= line[t] != 1;
        from = static_cast<int32_t>(t);
        ++ones;
      }
      if (ones == 0 && keep[s] == 1) continue;
      if (odd || ones > 1 || keep[s] != 0) {
        list[0] = -1;
        return true;
      }
      list[1 + 2 * list[0]] = static_cast<int32_t>(s);
      list[2 + 2 * list[0]] = from;
      ++list[0];
    }
    return true;
  }

 private:
  int64_t rows_, tokens_;
};

// Rows of a state in place, as floats or as halves.
class StateRows {
 public:
  StateRows(const Cell& cell, int64_t width) : cell_(cell), width_(width), row_(static_cast<size_t>(width)) {}

  bool finite_at(int64_t row) {
    if (!cell_.halves) return finite(floats(row), width_);
    halves_to_floats(reinterpret_cast<const std::byte*>(halves(row)), width_, row_.data());
    return finite(row_.data(), width_);
  }
  void clear(int64_t row) {
    cell_.halves ? void(std::fill_n(halves(row), width_, uint16_t{0}))
                 : void(std::fill_n(floats(row), width_, 0.0f));
  }
  // `count` rows from `row` on; part `part` of the bounds gets to know them as they are kept.
  void put(int64_t row, const float* fresh, int64_t count, int64_t part) {
    StateBounds* bounds = cell_.bounds;
    if (!cell_.halves) {
      std::copy_n(fresh, count * width_, floats(row));
      if (bounds) bounds->include(part, fresh, count);
      return;
    }
    for (int64_t r = 0; r < count; ++r, fresh += width_) {
      floats_to_halves(fresh, width_, halves(row + r));
      if (!bounds || !bounds->known()) continue;
      halves_to_floats(reinterpret_cast<const std::byte*>(halves(row + r)), width_, row_.data());
      bounds->include(part, row_.data(), 1);
    }
  }

 private:
  float* floats(int64_t row) const { return static_cast<float*>(cell_.data) + row * width_; }
  uint16_t* halves(int64_t row) const { return static_cast<uint16_t*>(cell_.data) + row * width_; }

  const Cell& cell_;
  int64_t width_;
  std::vector<float> row_;
};

// old * keep + write · rows, in the state itself. In: the list of changed rows, the new rows, the state.
class WriteRows : public WeightlessKernel {
 public:
  // `first`: the first of the state's parts that is written, `heads` of them.
  WriteRows(int64_t first, int64_t heads, int64_t rows, int64_t tokens, int64_t width)
      : first_(first), heads_(heads), rows_(rows), tokens_(tokens), width_(width) {}

  std::string_view name() const override { return "cache write"; }
  bool run(const FusedCall& c) const override {
    const auto* list = static_cast<const int32_t*>(c.data(0));
    const float* fresh = c.floats(1);
    StateRows state(c.cell(2), width_);
    StateBounds* bounds = c.cell(2).bounds;
    const auto row = [&](int64_t h, int32_t i) { return (first_ + h) * rows_ + list[1 + 2 * i]; };
    bool plain = list[0] < 0 || !finite(fresh, heads_ * tokens_ * width_);
    // What is kept times zero must be zero.
    for (int64_t h = 0; h < heads_ && !plain && !(bounds && bounds->known()); ++h)
      for (int32_t i = 0; i < list[0]; ++i) plain |= !state.finite_at(row(h, i));
    if (plain) {
      if (bounds) bounds->forget();
      return false;
    }
    for (int64_t h = 0; h < heads_; ++h)
      for (int32_t i = 0; i < list[0]; ++i) {
        const int32_t t = list[2 + 2 * i];
        t < 0 ? state.clear(row(h, i))
              : state.put(row(h, i), fresh + (h * tokens_ + t) * width_, 1, first_ + h);
      }
    return true;
  }

 private:
  int64_t first_, heads_, rows_, tokens_, width_;
};

// slice_update whose result is its own input's memory. In: the operation's operands, then the state. The binding is
// that of one layer; only its types are asked, elements come with the call.
class UpdateSlice : public WeightlessKernel {
 public:
  UpdateSlice(OpBinding binding, std::vector<Type> types)
      : binding_(std::move(binding)), types_(std::move(types)) {}

  std::string_view name() const override { return "cache write"; }
  bool run(const FusedCall& c) const override {
    std::vector<const void*> data;
    for (size_t i = 0; i < binding_.operands.size(); ++i) data.push_back(c.data(i));
    const Cell& cell = c.cell(binding_.operands.size());
    void* state = cell.data;
    const OpCall call(binding_, data, types_, std::span(&state, 1), c.pool());
    StateRows rows(cell, types_[0].rank() > 0 ? types_[0].dim(types_[0].rank() - 1).size() : 1);
    bool known;  // which rows are new
    if (cell.halves) {
      known = whole_slice(call) && each_rows(call, [&](int64_t part, int64_t row, const float* fresh,
                                                       int64_t count) { rows.put(row, fresh, count, part); });
      if (!known) run_wide(c, data, cell);
    } else {
      binding_.op->run(call);
      known = each_rows(call, [&](int64_t part, int64_t, const float* fresh, int64_t count) {
        if (cell.bounds) cell.bounds->include(part, fresh, count);
      });
    }
    if (!known && cell.bounds) cell.bounds->forget();
    return true;
  }

  bool takes_halves(size_t input) const override { return input == updated(); }

 private:
  // Which operand is what is updated.
  size_t updated() const {
    const Operand* x = find_operand(binding_, "x");
    return static_cast<size_t>(x - binding_.operands.data());
  }

  // Any other slice: over the whole state as floats.
  void run_wide(const FusedCall& c, std::vector<const void*> data, const Cell& cell) const {
    const int64_t count = types_[0].size();
    std::vector<float> wide(static_cast<size_t>(count));
    halves_to_floats(static_cast<const std::byte*>(cell.data), count, wide.data());
    data[updated()] = wide.data();
    void* out = wide.data();
    binding_.op->run(OpCall(binding_, data, types_, std::span(&out, 1), c.pool()));
    floats_to_halves(wide.data(), count, static_cast<uint16_t*>(cell.data));
  }

  // The update is as large as the slice from `begin` to `end`; else the operation says what is wrong.
  static bool whole_slice(const OpCall& c) {
    const std::vector<int64_t> all = c.out_type().dims(), part = c.type("update").dims();
    if (part.size() != all.size()) return false;
    const std::vector<int64_t> begin = c.integers("begin"), end = c.integers("end");
    const std::vector<bool> open = c.flags_or("begin_mask", all.size(), false),
                            to_end = c.flags_or("end_mask", all.size(), false),
                            squeezed = c.flags_or("squeeze_mask", all.size(), false);
    for (size_t i = 0; i < all.size(); ++i) {
      const int64_t from = open[i] ? 0 : begin[i] < 0 ? begin[i] + all[i] : begin[i];
      const int64_t to = to_end[i] ? all[i] : end[i] < 0 ? end[i] + all[i] : end[i];
      if (squeezed[i] || from < 0 || to > all[i] || to - from != part[i]) return false;
    }
    return true;
  }

  // f(part, row, fresh, count) for what is new, as rows of the state [.., S, D]; false when it does not lie so.
  template <class F>
  static bool each_rows(const OpCall& c, F f) {
    const std::vector<int64_t> all = c.out_type().dims(), part = c.type("update").dims();
    const size_t rank = all.size();
    if (part.size() != rank || part[rank - 1] != all[rank - 1]) return false;
    const std::vector<int64_t> begin = c.integers("begin"), stride = c.integers_or("stride", rank, 1);
    const std::vector<bool> open = c.flags_or("begin_mask", rank, false);
    std::vector<int64_t> first(rank);
    int64_t blocks = 1;
    for (size_t i = 0; i < rank; ++i) {
      if (stride[i] != 1) return false;
      first[i] = open[i] ? 0 : std::clamp<int64_t>(begin[i] < 0 ? begin[i] + all[i] : begin[i], 0, all[i]);
      if (i + 2 < rank) blocks *= part[i];
    }
    const auto* update = c.floats("update");
    const int64_t count = part[rank - 2];
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t rest = b, index = 0, step = 1;
      for (size_t i = rank - 2; i-- > 0;) {
        index += (first[i] + rest % part[i]) * step;
        rest /= part[i];
        step *= all[i];
      }
      f(index, index * all[rank - 2] + first[rank - 2], update + b * count * part[rank - 1], count);
    }
    return true;
  }

  OpBinding binding_;
  std::vector<Type> types_;
};

// One blend: three steps, and what they work on.
struct Blend {
  int kept, placed, sum;  // steps
  Source write, keep, rows;
  int64_t tokens;
};

class CacheWrites {
 public:
  explicit CacheWrites(PlanEdit& edit) : edit_(edit) {}

  void run() {
    for (int w = 0; w < edit_.size(); ++w) {
      if (!edit_.writes_state(w)) continue;
      const Source data = edit_.step(w).in[0];
      const int state = edit_.step(w).in[1].id;
      if (data.id < 0 || !edit_.owns_state(state) || edit_.step(w).types[0].rank() < 2) continue;
      if (!blends(w, state)) slices(w, state);
    }
    for (auto& [key, shared] : lists_) edit_.insert(std::move(shared.step), shared.at);
  }

 private:
  struct List {
    int id = -1, at = 0;
    Step step;
  };

  // The value is one number per row of a state [.., S, D].
  static bool per_row(const Type& type, const Type& state) {
    const int rank = type.rank();
    return rank >= 2 && type.size() == type.dim(rank - 2).size() &&
           type.dim(rank - 2) == state.dim(state.rank() - 2);
  }

  // write · rows: as a product of matrices, or, for one token, by broadcasting.
  bool match_placed(int step, const Type& part, Blend& b) const {
    const int64_t rows = part.dim(part.rank() - 2).size(), width = part.dim(part.rank() - 1).size();
    const int64_t heads = part.size() / (rows * width);
    const auto take = [&](const char* x, const char* y) {
      const Type& write = edit_.input_type(step, x);
      const Type& fresh = edit_.input_type(step, y);
      if (write.rank() < 2 || fresh.rank() < 2 || write.rank() > part.rank() || fresh.rank() > part.rank())
        return false;
      b.write = edit_.input(step, x);
      b.rows = edit_.input(step, y);
      b.tokens = write.dim(write.rank() - 1).size();
      // One matrix [S, T] for all heads; new rows [heads, T, D].
      return b.write.id >= 0 && b.rows.id >= 0 && b.tokens > 0 && write.size() == rows * b.tokens &&
             write.dim(write.rank() - 2).size() == rows && fresh.size() == heads * b.tokens * width &&
             fresh.dim(fresh.rank() - 1).size() == width && fresh.dim(fresh.rank() - 2).size() == b.tokens;
    };
    if (edit_.is(step, "matmul"))
      return edit_.with_call(step, [](const OpCall& c) {
        return !c.flag("transpose_x") && !c.flag("transpose_y");
      }) && take("x", "y");
    return edit_.is(step, "mul") && ((take("x", "y") && b.tokens == 1) || (take("y", "x") && b.tokens == 1));
  }

  // part = old * keep + placed, where `old` is the state from element `offset` on.
  std::optional<Blend> match_blend(int value, int user, int state, int64_t offset) const {
    Blend b;
    b.sum = edit_.maker(value);
    if (!edit_.is(b.sum, "add") || edit_.root(value) != value) return std::nullopt;
    const Type& part = edit_.step(b.sum).types[0];
    if (part.rank() < 2 || part.size() == 0) return std::nullopt;
    for (const auto& [left, right] : {std::pair("x", "y"), std::pair("y", "x")}) {
      b.kept = edit_.maker(edit_.input(b.sum, left));
      b.placed = edit_.maker(edit_.input(b.sum, right));
      if (b.kept == b.placed || !edit_.is(b.kept, "mul") || b.placed < 0) continue;
      if (!edit_.only_for(edit_.step(b.kept).out[0], b.sum) ||
          !edit_.only_for(edit_.step(b.placed).out[0], b.sum))
        continue;
      for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")}) {
        const Source old = edit_.input(b.kept, x);
        b.keep = edit_.input(b.kept, y);
        if (old.id < 0 || b.keep.id < 0 || edit_.root(old.id) != state || edit_.offset(old.id) != offset)
          continue;
        if (edit_.input_type(b.kept, x).shape != part.shape || !per_row(edit_.input_type(b.kept, y), part))
          continue;
        if (match_placed(b.placed, part, b) && edit_.step(b.placed).types[0].shape == part.shape &&
            user > b.sum)
          return b;
      }
    }
    return std::nullopt;
  }

  bool blends(int w, int state) {
    const int data = edit_.step(w).in[0].id;
    std::vector<int> parts{data};
    const int concat = edit_.maker(data);
    const bool joined = edit_.is(concat, "concat");
    if (joined) {
      const bool first_axis = edit_.with_call(
          concat, [&](const OpCall& c) { return c.integer("axis") == 0 && !c.flag("interleave"); });
      if (!first_axis || !edit_.only_for(data, w)) return false;
      parts.clear();
      for (int i = 0; i < edit_.count(concat, "values"); ++i) {
        const Source& part = edit_.input(concat, "values", i);
        if (part.id < 0) return false;
        parts.push_back(part.id);
      }
    }
    std::vector<Blend> found;
    std::vector<int> readers{w};
    int64_t offset = 0;
    for (const int part : parts) {
      const auto blend = match_blend(part, joined ? concat : w, state, offset);
      if (!blend) return false;
      found.push_back(*blend);
      readers.push_back(blend->kept);
      offset += edit_.step(blend->sum).types[0].size();
    }
    std::sort(readers.begin(), readers.end());
    if (edit_.users(state) != readers || offset != edit_.step(w).types[0].size()) return false;
    const Type content = edit_.step(w).types[0];
    offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) offset += apply(found[i], parts[i], state, offset, content);
    if (joined) edit_.remove(concat);
    edit_.remove(w);
    return true;
  }

  int64_t apply(const Blend& b, int value, int state, int64_t offset, const Type& content) {
    const Type part = edit_.step(b.sum).types[0];
    const int64_t rows = content.dim(content.rank() - 2).size(),
                  width = content.dim(content.rank() - 1).size();
    const int64_t heads = part.size() / (rows * width);
    List& list = lists_[{b.write.id, b.keep.id}];
    if (list.id < 0) {
      list.id = edit_.new_value();
      list.at = b.sum;
      list.step = {RunFused{std::make_shared<ChangedRows>(rows, b.tokens)},
                   {b.write, b.keep},
                   {Type::tensor(DType::int32, {2 * rows + 1})},
                   {list.id},
                   edit_.step(b.sum).operation};
    }
    list.at = std::min(list.at, b.sum);
    auto kernel = std::make_shared<WriteRows>(offset / (rows * width), heads, rows, b.tokens, width);
    // The plain way looks at `write` and `keep`, so they must still be there.
    Step step{RunFused{.kernel = std::move(kernel), .writes = state},
              {{list.id, nullptr}, b.rows, {state, nullptr}, b.write, b.keep}};
    std::vector<int> steps{b.kept, b.placed, b.sum};
    std::sort(steps.begin(), steps.end());
    edit_.replace(steps, std::move(step), b.sum);
    edit_.make_view(value, state, offset, part, b.sum);
    return part.size();
  }

  // A chain of slice updates from the state's content to what is written.
  void slices(int w, int state) {
    std::vector<int> chain;  // steps, last first
    int value = edit_.step(w).in[0].id, user = w;
    while (edit_.root(value) != state) {
      const int step = edit_.maker(value);
      if (!edit_.is(step, "slice_update") || edit_.root(value) != value) return;
      // Nothing looks at this value when the next one takes its memory.
      if (user != w && (edit_.users(value).back() != user || edit_.stays(value))) return;
      chain.push_back(step);
      user = step;
      const Source& x = edit_.input(step, "x");
      if (x.id < 0) return;
      value = x.id;
    }
    if (chain.empty() || edit_.users(state) != std::vector<int>{chain.back(), w} || edit_.offset(value) != 0)
      return;
    for (const int step : chain)
      if (edit_.step(step).types[0].size() != edit_.step(w).types[0].size()) return;
    std::reverse(chain.begin(), chain.end());
    for (const int at : chain) {
      const Step& old = edit_.step(at);
      const int id = old.out[0];
      const Type type = old.types[0];
      auto kernel = std::make_shared<UpdateSlice>(edit_.binding(at), old.types);
      Step step{RunFused{.kernel = std::move(kernel), .writes = state}, old.in};
      step.in.push_back({state, nullptr});
      edit_.replace({at}, std::move(step), at);
      edit_.make_view(id, state, 0, type, at);
    }
    edit_.remove(w);
  }

  PlanEdit& edit_;
  std::map<std::pair<int, int>, List> lists_;
};

}  // namespace

void fuse_cache_writes(PlanEdit& edit) { CacheWrites(edit).run(); }

}  // namespace anemone
