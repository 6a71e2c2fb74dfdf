// Short chains that every decoder has: the norm of a token, the rotation of positions, the gate. For fp32
// arithmetic; in fp16 each operation of a chain rounds, and they run one by one.
#include <algorithm>
#include <optional>

#include "engine/patterns.h"
#include "kernels/chains.h"

namespace anemone {
namespace {

constexpr int64_t kGrain = 1 << 12;  // elements a thread takes at a time
constexpr int64_t kColumns = 16;     // tokens side by side

// In: x, and the gain where there is one.
class Norm : public WeightlessKernel {
 public:
  Norm(int64_t outer, int64_t n, int64_t inner, const RmsRule& rule, bool gain)
      : outer_(outer), n_(n), inner_(inner), rule_(rule), gain_(gain) {}

  std::string_view name() const override { return "norm"; }
  bool run(const FusedCall& c) const override {
    const int64_t blocks = (inner_ + kColumns - 1) / kColumns, unit = n_ * std::min(inner_, kColumns);
    c.pool().parallel_for(
        outer_ * blocks, std::max<int64_t>(1, kGrain / unit), [&](int64_t begin, int64_t end) {
          for (int64_t u = begin; u < end; ++u) {
            const int64_t at = u / blocks * n_ * inner_, from = u % blocks * kColumns;
            rms_norm(c.floats(0) + at, c.out() + at, n_, inner_, from, std::min(inner_, from + kColumns),
                     gain_ ? c.floats(1) : nullptr, rule_);
          }
        });
    return true;
  }

 private:
  const int64_t outer_, n_, inner_;
  const RmsRule rule_;
  const bool gain_;
};

// In: x [.., rows, dim], cos and sin [rows or 1, pairs].
class Rotation : public WeightlessKernel {
 public:
  Rotation(int64_t rows, int64_t table_rows, int64_t dim, int64_t pairs)
      : rows_(rows), table_rows_(table_rows), dim_(dim), pairs_(pairs) {}

  std::string_view name() const override { return "rotation"; }
  bool run(const FusedCall& c) const override {
    c.pool().parallel_for(rows_, std::max<int64_t>(1, kGrain / dim_), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t t = r % table_rows_ * pairs_;
        const float* x = c.floats(0) + r * dim_;
        float* out = c.out() + r * dim_;
        rotate(x, c.floats(1) + t, c.floats(2) + t, pairs_, out);
        std::copy(x + 2 * pairs_, x + dim_, out + 2 * pairs_);
      }
    });
    return true;
  }

 private:
  const int64_t rows_, table_rows_, dim_, pairs_;
};

// In: x, and what it gates where there is something.
class Gate : public WeightlessKernel {
 public:
  Gate(int64_t count, bool up) : count_(count), up_(up) {}

  std::string_view name() const override { return "gate"; }
  bool run(const FusedCall& c) const override {
    c.pool().parallel_for(count_, kGrain, [&](int64_t begin, int64_t end) {
      gate(c.floats(0) + begin, up_ ? c.floats(1) + begin : nullptr, end - begin, c.out() + begin);
    });
    return true;
  }

 private:
  const int64_t count_;
  const bool up_;
};

class Chains {
 public:
  explicit Chains(PlanEdit& edit) : edit_(edit) {}

  void run() {
    for (int i = 0; i < edit_.size(); ++i) {
      if (edit_.is(i, "rsqrt"))
        match_norm(i);
      else if (edit_.is(i, "concat"))
        match_rotation(i);
      else if (edit_.is(i, "sigmoid"))
        match_gate(i);
    }
  }

 private:
  int out(int step) const { return edit_.step(step).out[0]; }
  const Type& out_type(int step) const { return edit_.step(step).types[0]; }
  int maker(int step, const char* param) const { return edit_.maker(edit_.input(step, param)); }
  bool same(const Source& a, const Source& b) const { return a.id >= 0 && a.id == b.id; }

  // Only these steps look at what `step` makes.
  bool users_are(int step, std::vector<int> users) const {
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    return edit_.users(out(step)) == users && !edit_.stays(out(step));
  }

  std::optional<float> number(int step, const char* param) const {
    const Source& s = edit_.input(step, param);
    if (!s.fixed || edit_.input_type(step, param).size() != 1) return std::nullopt;
    return *static_cast<const float*>(s.fixed);
  }

  // A step of op `op` with one operand made by a step (given back) and the other one number.
  struct WithNumber {
    int made = -1;
    float number = 0;
  };
  std::optional<WithNumber> with_number(int step, std::string_view op) const {
    if (!edit_.is(step, op)) return std::nullopt;
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")})
      if (const auto value = number(step, y)) return WithNumber{maker(step, x), *value};
    return std::nullopt;
  }

  // The single axis of a reduction that keeps its dimensions; -1: something else.
  int axis_of(int step) const {
    return edit_.with_call(step, [&](const OpCall& c) {
      if (!c.has("axes") || !c.known("axes") || !c.flag("keep_dims")) return -1;
      const auto axes = c.integers("axes");
      const int rank = c.type("x").rank();
      if (axes.size() != 1) return -1;
      return static_cast<int>(axes[0] < 0 ? axes[0] + rank : axes[0]);
    });
  }

  struct NormParts {
    std::vector<int> steps;
    Source x;
    RmsRule rule;
    int axis = -1;
  };

  // x * rsqrt(mean(x * x) + eps) [* gain], x perhaps over its largest magnitude (see RmsRule).
  void match_norm(int rsqrt) {
    NormParts p;
    const int sum = maker(rsqrt, "x");
    if (!edit_.is(sum, "add") || !users_are(sum, {rsqrt}) || edit_.users(out(rsqrt)).size() != 1) return;
    const int normal = edit_.users(out(rsqrt))[0];
    if (!edit_.is(normal, "mul") || !users_are(rsqrt, {normal})) return;
    p.rule.rsqrt_eps =
        edit_.with_call(rsqrt, [](const OpCall& c) { return static_cast<float>(c.number("epsilon")); });
    p.steps = {sum, rsqrt, normal};
    const bool scaled = match_scaled(sum, normal, rsqrt, p);
    if (!scaled && !match_simple(sum, normal, rsqrt, p)) return;
    apply_norm(normal, p);
  }

  // The mean of squares among the operands of `sum`; its squared value in `squared`.
  bool match_mean(int mean, int sum, NormParts& p, Source& squared) const {
    if (!edit_.is(mean, "reduce_mean") || !users_are(mean, {sum})) return false;
    p.axis = axis_of(mean);
    const int square = maker(mean, "x");
    if (p.axis < 0 || square < 0 || !users_are(square, {mean})) return false;
    if (edit_.is(square, "mul") && same(edit_.input(square, "x"), edit_.input(square, "y")))
      squared = edit_.input(square, "x");
    else if (edit_.is(square, "square"))
      squared = edit_.input(square, "x");
    else
      return false;
    p.steps.insert(p.steps.end(), {mean, square});
    return true;
  }

  bool multiplies(int normal, int rsqrt, const Source& value) const {
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")})
      if (same(edit_.input(normal, x), value) && edit_.maker(edit_.input(normal, y)) == rsqrt) return true;
    return false;
  }

  bool match_simple(int sum, int normal, int rsqrt, NormParts& p) const {
    const auto with = with_number(sum, "add");
    NormParts found = p;
    if (!with || !match_mean(with->made, sum, found, found.x) || !multiplies(normal, rsqrt, found.x))
      return false;
    found.rule.eps = with->number;
    p = found;
    return true;
  }

  bool match_scaled(int sum, int normal, int rsqrt, NormParts& p) const {
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")}) {
      NormParts found = p;
      Source squared;
      const int eps = maker(sum, y);
      if (!match_mean(maker(sum, x), sum, found, squared) || !edit_.is(eps, "mul") || !users_are(eps, {sum}))
        continue;
      const int scaled = edit_.maker(squared), root = maker(eps, "x");
      if (!edit_.is(scaled, "real_div") || !edit_.is(root, "real_div") ||
          !multiplies(normal, rsqrt, squared) || !same(edit_.input(eps, "x"), edit_.input(eps, "y")) ||
          !users_are(root, {eps}))
        continue;
      const auto square_step = found.steps.back();
      if (!users_are(scaled, {square_step, normal})) continue;
      const int floor = maker(scaled, "y");
      const auto least = with_number(floor, "maximum");
      const auto root_eps = number(root, "x");
      if (!least || !root_eps || least->number <= 0 || maker(root, "y") != floor ||
          !users_are(floor, {scaled, root}))
        continue;
      const int largest = least->made, magnitude = largest < 0 ? -1 : maker(largest, "x");
      if (!edit_.is(largest, "reduce_max") || axis_of(largest) != found.axis || !users_are(largest, {floor}))
        continue;
      if (!edit_.is(magnitude, "abs") || !users_are(magnitude, {largest})) continue;
      found.x = edit_.input(scaled, "x");
      if (!same(found.x, edit_.input(magnitude, "x"))) continue;
      found.rule.floor = least->number;
      found.rule.root_eps = *root_eps;
      found.steps.insert(found.steps.end(), {eps, scaled, root, floor, largest, magnitude});
      p = found;
      return true;
    }
    return false;
  }

  void apply_norm(int normal, NormParts& p) {
    const Type type = out_type(normal);
    const std::vector<int64_t> dims = type.dims();
    if (p.axis >= type.rank() || type.size() == 0) return;
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < type.rank(); ++i)
      (i < p.axis ? outer : i > p.axis ? inner : outer) *= i == p.axis ? 1 : dims[static_cast<size_t>(i)];
    const int64_t n = dims[static_cast<size_t>(p.axis)];
    Step step;
    step.in = {p.x};
    int at = normal;
    // A gain of one value per position along the axis.
    const auto& users = edit_.users(out(normal));
    if (users.size() == 1 && edit_.is(users[0], "mul") && !edit_.stays(out(normal))) {
      const int last = users[0];
      for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")}) {
        const Type& gain = edit_.input_type(last, y);
        const Source& source = edit_.input(last, y);
        if (edit_.maker(edit_.input(last, x)) != normal || out_type(last).shape != type.shape) continue;
        const int along = p.axis - (type.rank() - gain.rank());
        if (along < 0 || gain.size() != n || gain.dim(along).size() != n || (source.id < 0 && !source.fixed))
          continue;
        step.in.push_back(source);
        p.steps.push_back(last);
        at = last;
        break;
      }
    }
    const bool has_gain = step.in.size() > 1;
    std::sort(p.steps.begin(), p.steps.end());
    if (edit_.changed_between(p.x.id, p.steps.front(), at)) return;
    step.work = RunFused{std::make_shared<Norm>(outer, n, inner, p.rule, has_gain)};
    step.out = edit_.step(at).out;
    step.types = edit_.step(at).types;
    edit_.replace(p.steps, std::move(step), at);
  }

  // A product of a part of x and a table, and what they are.
  struct Term {
    int step = -1, slice = -1;
    Source table;
  };
  std::optional<Term> term(int mul, int user) const {
    if (!edit_.is(mul, "mul") || !users_are(mul, {user})) return std::nullopt;
    for (const auto& [x, y] : {std::pair("x", "y"), std::pair("y", "x")})
      if (edit_.is(maker(mul, x), "slice_by_index") && edit_.input(mul, y).id >= 0 &&
          !edit_.is(maker(mul, y), "slice_by_index"))
        return Term{mul, maker(mul, x), edit_.input(mul, y)};
    return std::nullopt;
  }

  // The slice is x[.., begin : begin + its width] of the last axis alone.
  bool slices_last(int step, const Source& x, int64_t begin) const {
    if (!edit_.is(step, "slice_by_index") || !same(edit_.input(step, "x"), x)) return false;
    const Type& from = edit_.input_type(step, "x");
    const Type& to = out_type(step);
    if (to.rank() != from.rank()) return false;
    for (int i = 0; i + 1 < from.rank(); ++i)
      if (to.dim(i) != from.dim(i)) return false;
    return edit_.with_call(step, [&](const OpCall& c) {
      const size_t rank = static_cast<size_t>(from.rank());
      if (!c.known("begin") || c.integers_or("stride", rank, 1) != std::vector<int64_t>(rank, 1))
        return false;
      const int64_t first = c.integers("begin")[rank - 1];
      const int64_t n = from.dim(from.rank() - 1).size();
      return (c.flags_or("begin_mask", rank, false)[rank - 1] ? 0 : first < 0 ? first + n : first) == begin;
    });
  }

  // concat(a * cos - b * sin, b * cos + a * sin [, rest]) with a, b, rest the parts of x.
  void match_rotation(int concat) {
    const int count = edit_.count(concat, "values");
    const Type type = out_type(concat);
    if ((count != 2 && count != 3) || type.rank() < 2 || type.size() == 0) return;
    const bool along_last = edit_.with_call(concat, [&](const OpCall& c) {
      const int64_t axis = c.integer("axis");
      return !c.flag("interleave") && (axis == -1 || axis == type.rank() - 1);
    });
    const int low = edit_.maker(edit_.input(concat, "values", 0)),
              high = edit_.maker(edit_.input(concat, "values", 1));
    if (!along_last || !edit_.is(low, "sub") || !edit_.is(high, "add") || !users_are(low, {concat}) ||
        !users_are(high, {concat}))
      return;
    const auto ac = term(maker(low, "x"), low), bs = term(maker(low, "y"), low);
    auto bc = term(maker(high, "x"), high), as = term(maker(high, "y"), high);
    if (!ac || !bs || !bc || !as) return;
    if (bc->slice == ac->slice) std::swap(bc, as);
    if (as->slice != ac->slice || bc->slice != bs->slice || !same(ac->table, bc->table) ||
        !same(bs->table, as->table))
      return;
    const int a = ac->slice, b = bs->slice;
    const Source x = edit_.input(a, "x");
    if (out_type(a).rank() != type.rank() || out_type(b).rank() != type.rank()) return;
    const int64_t pairs = out_type(a).dim(type.rank() - 1).size(), dim = type.dim(type.rank() - 1).size();
    std::vector<int> steps{a, b, ac->step, bs->step, bc->step, as->step, low, high, concat};
    if (!slices_last(a, x, 0) || !slices_last(b, x, pairs) || !users_are(a, {ac->step, as->step}) ||
        !users_are(b, {bs->step, bc->step}) || edit_.input_type(a, "x").shape != type.shape)
      return;
    if (out_type(b).dim(type.rank() - 1).size() != pairs || (count == 2) != (2 * pairs == dim)) return;
    if (count == 3) {
      const int rest = edit_.maker(edit_.input(concat, "values", 2));
      if (!slices_last(rest, x, 2 * pairs) || !users_are(rest, {concat})) return;
      steps.push_back(rest);
    }
    const int64_t rows = type.size() / dim, tokens = type.dim(type.rank() - 2).size();
    const Type &cos = table_type(ac->step, ac->table), &sin = table_type(bs->step, bs->table);
    if (cos.shape != sin.shape || cos.rank() < 2 || cos.dim(cos.rank() - 1).size() != pairs) return;
    const int64_t table_rows = cos.dim(cos.rank() - 2).size();
    if (cos.size() != table_rows * pairs || (table_rows != tokens && table_rows != 1)) return;
    std::sort(steps.begin(), steps.end());
    for (const Source& in : {x, ac->table, bs->table})
      if (edit_.changed_between(in.id, steps.front(), concat)) return;
    Step step{RunFused{std::make_shared<Rotation>(rows, table_rows, dim, pairs)},
              {x, ac->table, bs->table},
              edit_.step(concat).types,
              edit_.step(concat).out};
    edit_.replace(steps, std::move(step), concat);
  }

  const Type& table_type(int mul, const Source& table) const {
    return edit_.input(mul, "x").id == table.id ? edit_.input_type(mul, "x") : edit_.input_type(mul, "y");
  }

  // x * sigmoid(x) [* up]
  void match_gate(int sigmoid) {
    const auto& users = edit_.users(out(sigmoid));
    const Source x = edit_.input(sigmoid, "x");
    if (users.size() != 1 || x.id < 0 || edit_.stays(out(sigmoid))) return;
    const int product = users[0];
    if (!edit_.is(product, "mul")) return;
    const bool both = (same(edit_.input(product, "x"), x) && maker(product, "y") == sigmoid) ||
                      (same(edit_.input(product, "y"), x) && maker(product, "x") == sigmoid);
    const Type type = out_type(product);
    if (!both || type.shape != out_type(sigmoid).shape) return;
    std::vector<int> steps{sigmoid, product};
    Step step;
    step.in = {x};
    int at = product;
    const auto& then = edit_.users(out(product));
    if (then.size() == 1 && edit_.is(then[0], "mul") && !edit_.stays(out(product))) {
      const int last = then[0];
      for (const auto& [a, b] : {std::pair("x", "y"), std::pair("y", "x")}) {
        if (maker(last, a) != product || edit_.input(last, b).id < 0 || maker(last, b) == product) continue;
        if (edit_.input_type(last, b).shape != type.shape || edit_.input_type(last, a).shape != type.shape)
          continue;
        step.in.push_back(edit_.input(last, b));
        steps.push_back(last);
        at = last;
        break;
      }
    }
    for (const Source& in : step.in)
      if (edit_.changed_between(in.id, sigmoid, at)) return;
    step.work = RunFused{std::make_shared<Gate>(type.size(), step.in.size() > 1)};
    step.out = edit_.step(at).out;
    step.types = edit_.step(at).types;
    edit_.replace(steps, std::move(step), at);
  }

  PlanEdit& edit_;
};

}  // namespace

void fuse_chains(PlanEdit& edit) { Chains(edit).run(); }

}  // namespace anemone
