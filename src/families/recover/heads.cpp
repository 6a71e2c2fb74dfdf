// Which rows of a projection become which heads, and how they are rotated: asked of the graph with probes, since every
// exporter shapes heads in its own way.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "families/recover/recover.h"

namespace anemone::recover {
namespace {

// The nearest projection or norm that a value is made of.
struct Origin {
  std::optional<Linear> linear;
  std::optional<FoundNorm> norm;
  ValueId output() const { return linear ? linear->output : norm->output; }
};

Origin nearest_origin(Context& c, ValueId operand, const char* what) {
  std::vector<Origin> found;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {operand};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (v == kNone || !seen.insert(v).second || c.graph.constant(v)) continue;
    if (std::optional<Linear> linear = match_linear(c, v)) {
      found.push_back({std::move(linear), std::nullopt});
      continue;
    }
    if (std::optional<FoundNorm> norm = match_norm(c, v)) {
      found.push_back({std::nullopt, std::move(norm)});
      continue;
    }
    const Op* op = c.graph.producer(v);
    if (!op || op->type == "Shape") continue;
    if (seen.size() > 4096) break;
    for (const ValueId in : op->inputs) open.push_back(in);
  }
  if (found.size() != 1)
    throw c.graph.unexpected(operand,
                             fmt::format("{} made from one projection; {} were found", what, found.size()));
  return std::move(found[0]);
}

// At one token at position 0, where rotations do nothing: the operand's elements as numbers of the origin's.
struct Layout {
  std::vector<int64_t> from;
  double factor = 1;
};

Layout layout_of(Context& c, ValueId origin, const std::vector<int64_t>& dims, ValueId operand,
                 const char* what) {
  const auto at_zero = [&](bool counted) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
    Array probe = Array::filled(dims, 1);
    if (counted)
      for (size_t i = 0; i < probe.data.size(); ++i) probe.data[i] = static_cast<double>(i + 1);
    e.set(origin, std::move(probe));
    std::vector<double> out = e.value(operand).data;
    e.claim(c.graph);
    return out;
  };
  const std::vector<double> ones = at_zero(false), counted = at_zero(true);
  Layout out;
  if (ones.empty()) throw c.graph.unexpected(operand, fmt::format("{} of one token", what));
  out.factor =
      ones.back();  // the last of a head is not rotated where only a part is, so that its factor is the plain one
  for (size_t i = 0; i < ones.size(); ++i) {
    const double index = counted[i] / ones[i];
    if (!(ones[i] > 0) || !(std::abs(index - std::round(index)) <= 1e-2))
      throw c.graph.unexpected(operand, fmt::format("{}: heads that hold rows of their projection", what));
    out.from.push_back(static_cast<int64_t>(std::round(index)) - 1);
  }
  return out;
}

std::vector<int64_t> dims_at(Context& c, ValueId value) {
  Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
  return e.dims(value);
}

// Whether the value depends on the position: a probe of ones at position 0 and at 7.
bool turns(Context& c, ValueId origin, const std::vector<int64_t>& dims, ValueId operand) {
  std::vector<double> rows[2];
  for (const int64_t position : {0, 7}) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = position});
    e.set(origin, Array::filled(dims, 1));
    rows[position ? 1 : 0] = e.value(operand).data;
  }
  // A cache in front adds rows; the new one is the last of each head.
  return rows[1].size() == rows[0].size() && rows[0] != rows[1];
}

// An operator of this kind on the way from `target` back to `source`.
const Op* find_between(Context& c, ValueId target, ValueId source, std::string_view ending) {
  std::set<ValueId> seen;
  std::vector<ValueId> open = {target};
  while (!open.empty() && seen.size() < 4096) {
    const ValueId v = open.back();
    open.pop_back();
    if (v == kNone || v == source || !seen.insert(v).second) continue;
    const Op* op = c.graph.producer(v);
    if (!op || op->type == "Shape") continue;
    if (op->type.ends_with(ending)) return op;
    for (const ValueId in : op->inputs) open.push_back(in);
  }
  return nullptr;
}

}  // namespace

HeadSource trace_heads(Context& c, ValueId operand, const char* what) {
  HeadSource out;
  Origin origin = nearest_origin(c, operand, what);
  std::vector<int64_t> dims = dims_at(c, origin.output());
  const Layout near = layout_of(c, origin.output(), dims, operand, what);
  out.factor = near.factor;
  out.channels = near.from;
  out.turned = origin.output();
  if (!origin.norm) {
    out.linear = std::move(*origin.linear);
    return out;
  }
  out.norm = std::move(origin.norm);
  const bool early = turns(c, out.norm->output, dims, operand);
  Origin before = nearest_origin(c, out.norm->input, what);
  if (!before.linear)
    throw c.graph.unexpected(out.norm->input, fmt::format("{}: one norm behind its projection", what));
  out.linear = std::move(*before.linear);
  const std::vector<int64_t> wide = dims_at(c, out.linear.output);
  const Layout far = layout_of(c, out.linear.output, wide, out.norm->input, what);
  if (!early && turns(c, out.linear.output, wide, out.norm->input)) {
    out.norm_after_rope = true;
    out.turned = out.linear.output;
  }
  for (int64_t& channel : out.channels) channel = far.from.at(static_cast<size_t>(channel));
  return out;
}

std::optional<FoundRotation> find_rotation(Context& c, const HeadSource& source, ValueId operand,
                                           int64_t head_dim) {
  const ValueId target = source.norm_after_rope ? source.norm->input : operand;
  if (const Op* op = find_between(c, target, source.turned, "RotaryEmbedding")) {
    const bool ms = op->type.starts_with("ms.");
    if (ms || op->input(3) != kNone)
      return FoundRotation{rope_of_tables(c, op->input(ms ? 2 : 1), op->input(ms ? 3 : 2)),
                           op->node->integer("interleaved", 0) != 0};
  }
  const std::vector<int64_t> dims = dims_at(c, source.turned);
  // What becomes of a vector in each head at a position, the first head's elements.
  const auto turned = [&](int64_t position, double shift) -> std::vector<double> {
    Evaluator e = evaluator(c, {.tokens = 1, .past = position});
    Array probe = Array::filled(dims, 0);
    for (size_t i = 0; i < probe.data.size(); ++i)
      probe.data[i] =
          1 + std::sin(1.1 * static_cast<double>(i % static_cast<size_t>(head_dim)) + shift) * 0.7;
    e.set(source.turned, std::move(probe));
    std::vector<double> out = e.value(target).data;
    e.claim(c.graph);
    out.resize(static_cast<size_t>(head_dim));
    return out;
  };
  const auto x = [&](int64_t i, double shift) {
    return 1 + std::sin(1.1 * static_cast<double>(i) + shift) * 0.7;
  };
  const std::vector<double> still = turned(0, 0.3), moved = turned(7, 0.3), other = turned(7, 2.1);
  int64_t dims_turned = 0;
  for (int64_t i = 0; i < head_dim; ++i)
    if (std::abs(moved[static_cast<size_t>(i)] - still[static_cast<size_t>(i)]) > 1e-9) dims_turned = i + 1;
  if (dims_turned == 0) return std::nullopt;
  // What is multiplied to all of it (a scale of the scores) is no part of the rotation.
  const double factor = source.norm_after_rope ? 1 : source.factor;
  const auto fits = [&](int64_t dim, bool pairs) {
    for (int64_t i = 0; i < dim / 2; ++i) {
      const auto a = static_cast<size_t>(pairs ? 2 * i : i),
                 b = static_cast<size_t>(pairs ? 2 * i + 1 : i + dim / 2);
      const double xa = x(static_cast<int64_t>(a), 0.3), xb = x(static_cast<int64_t>(b), 0.3);
      const double norm = xa * xa + xb * xb;
      const double cs = (xa * moved[a] + xb * moved[b]) / norm, sn = (xa * moved[b] - xb * moved[a]) / norm;
      const double ya = x(static_cast<int64_t>(a), 2.1), yb = x(static_cast<int64_t>(b), 2.1);
      if (std::abs(ya * cs - yb * sn - other[a]) > 1e-4 || std::abs(yb * cs + ya * sn - other[b]) > 1e-4)
        return false;
    }
    return true;
  };
  dims_turned += dims_turned % 2;
  const bool halves = fits(dims_turned, false), pairs = !halves && fits(dims_turned, true);
  if (!halves && !pairs)
    throw c.graph.unexpected(operand,
                             fmt::format("a rotation of the first {} elements of each head", dims_turned));
  const int64_t half = dims_turned / 2;
  const RotationRows rows = [&, half, pairs](int64_t position) -> std::optional<RotationRow> {
    std::vector<double> y;
    try {
      y = turned(position, 0.3);
    } catch (const Error&) {
      return std::nullopt;  // beyond the end of a table
    }
    RotationRow row;
    for (int64_t i = 0; i < half; ++i) {
      const auto a = static_cast<size_t>(pairs ? 2 * i : i),
                 b = static_cast<size_t>(pairs ? 2 * i + 1 : i + half);
      const double xa = x(static_cast<int64_t>(a), 0.3), xb = x(static_cast<int64_t>(b), 0.3);
      const double norm = (xa * xa + xb * xb) * factor;
      row.cos.push_back((xa * y[a] + xb * y[b]) / norm);
      row.sin.push_back((xa * y[b] - xb * y[a]) / norm);
    }
    return row;
  };
  return FoundRotation{rope_index(c, fit_rope(c, rows)), pairs};
}

}  // namespace anemone::recover
