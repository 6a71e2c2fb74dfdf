// The base and the scaling of a rotation, from its angles. A rope is accepted only where it gives the angles of all
// positions that were looked at again.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "families/hparams.h"
#include "families/recover/recover.h"
#include "families/rope_params.h"

namespace anemone::recover {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int64_t kFar = int64_t{1} << 16;  // positions that are looked at
constexpr double kJump = 0.05;  // of an angle that does not continue those before; rounding gives less

// Angles of each frequency at a few positions, in turns of their own: what a table holds, without its rounding.
// Positions and angles count from `origin`.
struct Angles {
  int64_t origin = 0;
  std::vector<int64_t> positions;
  std::vector<std::vector<double>> at;  // of each position, in (-π, π]
  std::vector<double> frequency;
  double factor = 1;
  double rounding = 1e-6;  // of the table's numbers

  int64_t jump =
      0;  // the first position that was looked at whose angles do not continue those before; 0: none

  // Exporters compute angles in fp32, so far ones are off by some of their own last bits.
  double room(size_t row, double f) const {
    return 4 * rounding + 3e-7 * static_cast<double>(origin + positions[row]) * f + 1e-6;
  }
};

double wrap(double angle) { return angle - 2 * kPi * std::round(angle / (2 * kPi)); }

// The row at the origin, from which the others are counted.
RotationRow first_row(const Context& c, const RotationRows& rows, Angles& out) {
  const std::optional<RotationRow> still = rows(out.origin);
  if (!still || !rows(out.origin + 1) || still->cos.empty())
    throw Error("a table of a rotation has fewer than two positions").at(c.graph.model().path());
  out.factor = std::hypot(still->cos[0], still->sin[0]);
  for (size_t i = 0; i < still->cos.size(); ++i) {
    const bool turned = out.origin == 0 && (std::abs(still->sin[i]) > 1e-3 || !(still->cos[i] > 0));
    const double length = std::hypot(still->sin[i], still->cos[i]);
    if (!(out.factor > 0) || turned || std::abs(length - out.factor) > 1e-3 * out.factor)
      throw Error("a rotation that does not begin with the angle 0").at(c.graph.model().path());
  }
  return *still;
}

// Whether the frequencies so far explain the angles at a position; the turns of each are known to a small part.
bool continues(const Angles& so_far, const std::vector<double>& angles, int64_t position) {
  for (size_t i = 0; i < angles.size(); ++i)
    if (std::abs(wrap(so_far.frequency[i] * static_cast<double>(position) - angles[i])) > kJump) return false;
  return true;
}

std::vector<double> angles_from(const RotationRow& still, const RotationRow& row) {
  std::vector<double> out;
  for (size_t i = 0; i < row.cos.size(); ++i)
    out.push_back(wrap(std::atan2(row.sin[i], row.cos[i]) - std::atan2(still.sin[i], still.cos[i])));
  return out;
}

Angles read_angles(const Context& c, const RotationRows& rows, int64_t origin = 0) {
  Angles out;
  out.origin = origin;
  const RotationRow still = first_row(c, rows, out);
  const int64_t far = std::max<int64_t>(std::clamp<int64_t>(c.context - 1, 1, kFar) - origin, 1);
  for (int64_t p = 1;; p = std::min(2 * p, far)) {
    const std::optional<RotationRow> row = rows(origin + p);
    if (!row) break;
    std::vector<double> angles = angles_from(still, *row);
    if (p == 1) out.frequency = angles;
    if (!continues(out, angles, p)) {
      out.jump = p;
      break;
    }
    for (size_t i = 0; i < angles.size(); ++i) {
      const double length = std::hypot(row->sin[i], row->cos[i]) / out.factor;
      out.rounding = std::max(out.rounding, std::abs(length - 1));
      const double about = out.frequency[i] * static_cast<double>(p);
      out.frequency[i] =
          (angles[i] + 2 * kPi * std::round((about - angles[i]) / (2 * kPi))) / static_cast<double>(p);
    }
    out.positions.push_back(p);
    out.at.push_back(std::move(angles));
    if (p == far) break;
  }
  if (out.rounding > 2e-2)
    throw Error("cos and sin of a rotation are not of one angle").at(c.graph.model().path());
  return out;
}

// The largest fault over all angles, in units of what rounding explains.
double fault_of(const Angles& angles, const std::vector<double>& frequency) {
  double worst = 0;
  for (size_t row = 0; row < angles.positions.size(); ++row)
    for (size_t i = 0; i < frequency.size(); ++i) {
      const double off = wrap(frequency[i] * static_cast<double>(angles.positions[row]) - angles.at[row][i]);
      worst = std::max(worst, std::abs(off) / angles.room(row, frequency[i]));
    }
  return worst;
}

std::vector<double> plain_frequencies(double base, size_t half) {
  std::vector<double> out;
  for (size_t i = 0; i < half; ++i)
    out.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(half)));
  return out;
}

// A base that people would write, of at most four digits, or the one that fits best.
std::optional<double> fit_base(const Angles& angles) {
  const size_t half = angles.frequency.size();
  if (half < 2) return std::nullopt;
  const double last = angles.frequency.back();
  if (!(last > 0)) return std::nullopt;
  const double about = std::pow(last, -static_cast<double>(half) / static_cast<double>(half - 1));
  if (!(about > 1 && about < 1e15)) return std::nullopt;
  std::vector<double> tried;
  const double digits = std::floor(std::log10(about));
  for (const double shown : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}) {
    const double unit = std::pow(10.0, digits - shown);
    tried.push_back(std::round(about / unit) * unit);
  }
  tried.push_back(about);
  for (const double base : tried)
    if (base > 1 && fault_of(angles, plain_frequencies(base, half)) <= 1) return base;
  return std::nullopt;
}

// As fp16 tables hold it, a factor of 1 is 1, and one that exporters computed has few digits left.
double tidy_factor(double factor) { return std::abs(factor - 1) < 1e-4 ? 1 : factor; }

std::vector<double> divisors_of(const Angles& angles, double base) {
  std::vector<double> out;
  const std::vector<double> plain = plain_frequencies(base, angles.frequency.size());
  for (size_t i = 0; i < plain.size(); ++i) out.push_back(plain[i] / angles.frequency[i]);
  return out;
}

// What config.json says, where there is one with a rope.
std::optional<Rope> config_rope(const Context& c, int64_t dims) {
  const auto& config = c.graph.bundle().config;
  if (!config || !config->contains("model_type")) return std::nullopt;
  const bool says = config->contains("rope_theta") || config->contains("rope_parameters") ||
                    config->contains("rope_scaling");
  if (!says) return std::nullopt;
  try {
    const Checkpoint alone = Checkpoint::from_config(*config, "config.json");
    const Hparams hp(alone);
    return read_rope(hp, {.head_dim = std::max(dims, c.head_dim), .context = c.context});
  } catch (const Error&) {
    return std::nullopt;  // of a kind that is read from the tables
  }
}

RotationRows rows_of(Context& c, ValueId cos, ValueId sin) {
  return [&c, cos, sin](int64_t position) -> std::optional<RotationRow> {
    Evaluator e = evaluator(c, {.tokens = 1, .past = 0});
    const OnnxTensor* t = c.graph.constant(cos);
    if (!t || t->rank() != 2)
      throw c.graph.unexpected(cos, "a constant table [positions, half of the rotated size]");
    if (position >= t->dims()[0]) return std::nullopt;
    const Array at = Array::numbers({static_cast<double>(position)});
    return RotationRow{e.table_rows(cos, at).data, e.table_rows(sin, at).data};
  };
}

// The longest text for which the condition is still false; it is true for all longer ones.
int64_t threshold(Context& c, ValueId condition) {
  const auto holds = [&](int64_t total) {
    Evaluator e = evaluator(c, {.tokens = 1, .past = total - 1});
    const Array& value = e.value(condition);
    e.claim(c.graph);
    return value.size() > 0 && value.data[0] != 0;
  };
  int64_t below = 1, above = std::max<int64_t>(2, c.context);
  if (holds(below) || !holds(above)) return 0;
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (holds(middle) ? above : below) = middle;
  }
  return below;
}

// Two sets of frequencies, of which the length of the text chooses: `shorter` ends before a jump.
Rope fit_jump(const Context& c, const RotationRows& rows, const Angles& shorter) {
  int64_t below = shorter.positions.back(), above = shorter.jump;
  const RotationRow still = *rows(0);
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    const std::optional<RotationRow> row = rows(middle);
    if (!row) throw Error("a table of a rotation has a gap").at(c.graph.model().path());
    (continues(shorter, angles_from(still, *row), middle) ? below : above) = middle;
  }
  const Angles longer = read_angles(c, rows, above);
  const double fault = fault_of(longer, longer.frequency);
  if (longer.jump || fault > 1 || std::abs(longer.factor - shorter.factor) > 2e-3)
    throw Error("the angles of a rotation do not grow evenly with the position")
        .at(c.graph.model().path())
        .found(fmt::format("a jump at position {}", above + longer.jump))
        .expected("one jump, of longrope, and the same factor before and behind it");
  Rope rope;
  rope.dims = 2 * static_cast<int64_t>(shorter.frequency.size());
  rope.scaling = RopeScaling::longrope;
  rope.original_context = above;  // a text of one token more has a token at this position
  rope.attention_factor = tidy_factor(shorter.factor);
  rope.short_factors = divisors_of(shorter, rope.base);
  rope.long_factors = divisors_of(longer, rope.base);
  return rope;
}

Rope fit_longrope(Context& c, const Op& choice, size_t cos_at, size_t sin_at) {
  const auto branch = [&](size_t which) {
    const std::vector<ValueId>& results = choice.branches[which];
    if (cos_at >= results.size() || sin_at >= results.size())
      throw c.graph.unexpected(choice, "two tables in a branch");
    Evaluator e = evaluator(c, {});
    const ValueId cos = e.resolved(results[cos_at]), sin = e.resolved(results[sin_at]);
    e.claim(c.graph);
    return read_angles(c, rows_of(c, cos, sin));
  };
  const Angles longer = branch(0), shorter = branch(1);
  if (longer.frequency.size() != shorter.frequency.size() || std::abs(longer.factor - shorter.factor) > 2e-3)
    throw c.graph.unexpected(choice, "tables for short and long texts of one size, with one factor")
        .found(fmt::format("factors {} and {}", shorter.factor, longer.factor));
  Rope rope;
  rope.dims = 2 * static_cast<int64_t>(shorter.frequency.size());
  rope.scaling = RopeScaling::longrope;
  rope.original_context = threshold(c, choice.input(0));
  if (rope.original_context < 1)
    throw c.graph.unexpected(choice, "a condition that the length of the text decides");
  rope.attention_factor = tidy_factor(shorter.factor);
  rope.short_factors = divisors_of(shorter, rope.base);
  rope.long_factors = divisors_of(longer, rope.base);
  c.graph.claim(choice);
  return rope;
}

}  // namespace

Rope fit_rope(const Context& c, const RotationRows& rows) {
  const Angles angles = read_angles(c, rows);
  if (angles.jump) return fit_jump(c, rows, angles);
  const size_t half = angles.frequency.size();
  Rope rope;
  rope.dims = 2 * static_cast<int64_t>(half);
  rope.attention_factor = tidy_factor(angles.factor);
  if (const std::optional<Rope> said = config_rope(c, rope.dims);
      said && said->scaling == RopeScaling::none && said->dims == rope.dims) {
    if (fault_of(angles, plain_frequencies(said->base, half)) <= 1) {
      rope.base = said->base;
      return rope;
    }
    // A model with two ropes says one of them here: the tables decide, and both are shown with --verbose.
  }
  if (const std::optional<double> base = fit_base(angles)) {
    rope.base = *base;
    return rope;
  }
  rope.scaling = RopeScaling::divisors;
  rope.divisors = divisors_of(angles, rope.base);
  for (const double d : rope.divisors)
    if (!(d > 0 && d < 1e15))
      throw Error("the angles of a rotation do not grow with the position").at(c.graph.model().path());
  if (const double fault = fault_of(angles, angles.frequency); fault > 1)
    throw Error("the angles of a rotation do not grow evenly with the position")
        .at(c.graph.model().path())
        .found(fmt::format("{:.3g} times the fault that rounding explains", fault));
  return rope;
}

size_t rope_index(Context& c, Rope rope) {
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-5 * (std::abs(a) + std::abs(b)); };
  const auto alike = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), near);
  };
  for (size_t i = 0; i < c.ropes.size(); ++i) {
    const Rope& r = c.ropes[i];
    if (r.dims == rope.dims && r.scaling == rope.scaling && near(r.base, rope.base) &&
        near(r.attention_factor, rope.attention_factor) && r.original_context == rope.original_context &&
        alike(r.divisors, rope.divisors) && alike(r.short_factors, rope.short_factors) &&
        alike(r.long_factors, rope.long_factors))
      return i;
  }
  if (rope.scaling == RopeScaling::none)
    c.inferred.push_back(fmt::format("rope: base {:.9g}, {} of each head (from the angles of the graph)",
                                     rope.base, rope.dims));
  if (rope.scaling == RopeScaling::longrope)
    c.inferred.push_back(
        fmt::format("rope: longrope, a choice at {} positions, cos and sin times {:.6g} (from the graph)",
                    rope.original_context, rope.attention_factor));
  if (rope.scaling == RopeScaling::divisors)
    c.inferred.push_back(
        fmt::format("rope: {} frequencies as the tables of the graph have them, {} of each head",
                    rope.divisors.size(), rope.dims));
  c.ropes.push_back(std::move(rope));
  return c.ropes.size() - 1;
}

size_t rope_of_tables(Context& c, ValueId cos, ValueId sin) {
  cos = c.graph.through(cos);
  sin = c.graph.through(sin);
  const Op* choice = c.graph.producer(cos);
  if (choice && choice->type == "If" && c.graph.producer(sin) == choice) {
    const auto at = [&](ValueId value) {
      return static_cast<size_t>(std::find(choice->outputs.begin(), choice->outputs.end(), value) -
                                 choice->outputs.begin());
    };
    if (!c.graph.claimed(*choice)) return rope_index(c, fit_longrope(c, *choice, at(cos), at(sin)));
    for (size_t i = 0; i < c.ropes.size(); ++i)
      if (c.ropes[i].scaling == RopeScaling::longrope) return i;
    return rope_index(c, fit_longrope(c, *choice, at(cos), at(sin)));
  }
  return rope_index(c, fit_rope(c, rows_of(c, cos, sin)));
}

}  // namespace anemone::recover
