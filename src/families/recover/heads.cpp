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

// Two vectors that are sent through a rotation: one to find its angles, one to check them.
constexpr double kFirst = 0.3, kSecond = 2.1;
double turned_probe(size_t i, double shift) {
  return 1 + std::sin(1.1 * static_cast<double>(i) + shift) * 0.7;
}

// What becomes of the first head of a value on its way to another one, by position.
struct Turning {
  Context& c;
  ValueId from, to;
  int64_t head_dim;
  double factor;
  std::vector<int64_t> dims = {};  // of `from` at one token
  int64_t half = 0;                // of the rotated elements
  bool pairs = false;              // elements 2i and 2i + 1 turn together

  std::vector<double> at(int64_t position, double shift) const {
    Evaluator e = evaluator(c, {.tokens = 1, .past = position});
    Array probe = Array::filled(dims, 0);
    for (size_t i = 0; i < probe.data.size(); ++i)
      probe.data[i] = turned_probe(i % static_cast<size_t>(head_dim), shift);
    e.set(from, std::move(probe));
    std::vector<double> out = e.value(to).data;
    e.claim(c.graph);
    out.resize(static_cast<size_t>(head_dim));
    return out;
  }
  size_t first(int64_t i) const { return static_cast<size_t>(pairs ? 2 * i : i); }
  size_t second(int64_t i) const { return static_cast<size_t>(pairs ? 2 * i + 1 : i + half); }

  // cos and sin of each pair, from what became of the first vector.
  RotationRow row(const std::vector<double>& y) const {
    RotationRow out;
    for (int64_t i = 0; i < half; ++i) {
      const double xa = turned_probe(first(i), kFirst), xb = turned_probe(second(i), kFirst);
      const double norm = (xa * xa + xb * xb) * factor;
      out.cos.push_back((xa * y[first(i)] + xb * y[second(i)]) / norm);
      out.sin.push_back((xa * y[second(i)] - xb * y[first(i)]) / norm);
    }
    return out;
  }
  // Whether the angles that the first vector shows turn the second one too.
  bool fits() const {
    if (2 * half > head_dim) return false;
    const RotationRow angles = row(at(7, kFirst));
    const std::vector<double> y = at(7, kSecond);
    for (int64_t i = 0; i < half; ++i) {
      const double cs = angles.cos[static_cast<size_t>(i)] * factor;
      const double sn = angles.sin[static_cast<size_t>(i)] * factor;
      const double xa = turned_probe(first(i), kSecond), xb = turned_probe(second(i), kSecond);
      if (std::abs(xa * cs - xb * sn - y[first(i)]) > 1e-4 ||
          std::abs(xb * cs + xa * sn - y[second(i)]) > 1e-4)
        return false;
    }
    return true;
  }
};

}  // namespace

HeadSource trace_heads(Context& c, ValueId operand, const char* what) {
  HeadSource out;
  out.operand = operand;
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
    if (ms || op->input(3) != kNone) {
      const size_t rope = rope_of_tables(c, op->input(ms ? 2 : 1), op->input(ms ? 3 : 2));
      // Where a part of a head is not rotated, the factor was taken there.
      const bool whole = c.ropes[rope].dims == head_dim;
      return FoundRotation{rope, op->node->integer("interleaved", 0) != 0,
                           whole ? c.ropes[rope].attention_factor : 1};
    }
  }
  // What is multiplied to all of it (a scale of the scores) is no part of the rotation.
  Turning turning{c, source.turned, target, head_dim, source.norm_after_rope ? 1 : source.factor};
  turning.dims = dims_at(c, source.turned);
  const std::vector<double> still = turning.at(0, kFirst), moved = turning.at(7, kFirst);
  int64_t turned = 0;
  for (int64_t i = 0; i < head_dim; ++i)
    if (std::abs(moved[static_cast<size_t>(i)] - still[static_cast<size_t>(i)]) > 1e-9) turned = i + 1;
  if (turned == 0) return std::nullopt;
  turning.half = (turned + 1) / 2;
  if (!turning.fits()) {
    turning.pairs = true;
    if (!turning.fits())
      throw c.graph.unexpected(
          operand, fmt::format("a rotation of the first {} elements of each head", 2 * turning.half));
  }
  const RotationRows rows = [&](int64_t position) -> std::optional<RotationRow> {
    try {
      return turning.row(turning.at(position, kFirst));
    } catch (const Error&) {
      return std::nullopt;  // beyond the end of a table
    }
  };
  return FoundRotation{rope_index(c, fit_rope(c, rows)), turning.pairs, 1};
}

}  // namespace anemone::recover
