#include "verify/weight_sums.h"

#include "base/error.h"
#include "verify/package_weights.h"

namespace anemone {
namespace {

constexpr double kMostDecibels = 200;

// Of such a weight, the part that may be far away. Calibrated palettes of the demo model reach 0.00012 with 4 bits and
// 0.0013 with 2.
double few_far(int bits) { return bits < 4 ? 0.003 : 0.0005; }

// A stretch whose error is nearly as large as itself, and far above the others'. Calibrated palettes of the demo model
// reach 0.25 with 4 bits; with 2 bits 6 and 10 times the others.
constexpr double kLostStretch = 0.7, kAboveOthers = 12;

std::string stray_text(const std::string& form, int64_t count, const Stray& first) {
  return fmt::format(
      "has {} element{} that {} does not explain, first in row {}, column {}: {:.5g} is stored, the source "
      "has {:.5g}, "
      "and {:.2g} may lie between them",
      count, count == 1 ? "" : "s", form, first.row, first.column, first.have, first.want, first.limit);
}

// How far from 1 a gain may be. `noise` is the share of a weight's squares that is noise. Integers of few bits clip
// outliers, which makes a weight smaller as a whole. Entries of a palette are means, or cells of equal width: they lose
// no more than the noise.
double gain_slack(const std::string& form, double noise) {
  if (form.starts_with("lut")) return 0.01 + 2 * noise;
  return (form_bits(form) < 6 ? 0.03 : 0.005) + 2 * noise;
}

// Rounding errors of integers in steps, rms: 0.29 to the nearest, 0.41 if it was rounded twice, more where errors of
// other columns are made up for.
constexpr double kStepError = 1;
// The mean of all errors as a part of their rms: 0 but for chance.
constexpr double kBias = 0.5;
// What pruning costs, between the least possible (0) and that of zeros anywhere (1). Patterns of n in m reach 0.25.
constexpr double kPruningExcess = 0.5;

// What is wrong with a weight as a whole, though each element may be explained; or nothing.
std::string whole_problem(const WeightFigures& w, const Sums& s, const ElementBound* bound) {
  if (s.steps > 0 && s.step_errors > kStepError * kStepError * s.steps)
    return fmt::format("is rounded too coarsely: its errors are {:.2g} steps of {}",
                       std::sqrt(s.step_errors / s.steps), w.form);
  constexpr int64_t kMany = 2048;
  if (s.count >= kMany && form_bits(w.form) < 16 &&
      std::abs(s.bias) > kBias * std::sqrt(static_cast<double>(s.count) * s.ee))
    return fmt::format("is shifted: its values are {:.2g} too {} on the average",
                       std::abs(s.bias) / static_cast<double>(s.count), s.bias > 0 ? "large" : "small");
  if (s.scaled_row.row >= 0 && form_bits(w.form) >= 4)
    return fmt::format("row {} is scaled: it fits the source best when multiplied by {:.3g}",
                       s.scaled_row.row, s.scaled_row.want / s.scaled_row.have);
  const size_t entries = bound ? bound->palette_entries() : 0;
  for (const auto& [palette, loss] : s.palettes) {
    // Few entries with errors that make up for each other lose as much as there is.
    const bool nearest = s.few_strays();
    if (entries < 2 || loss.squares == 0 || (entries <= 4 && !nearest)) continue;
    // What entries at equal distances would lose at most.
    const double even = loss.largest / static_cast<double>(entries - 1),
                 most = (nearest ? 1.5 : 4) * even * even * static_cast<double>(loss.count);
    const double part = entries > 4 ? 0.75 : 0.9;
    if (loss.errors <= part * loss.squares && loss.errors <= most + 0x1p-24 * loss.squares) continue;
    return fmt::format(
        "has a palette that does not fit its rows, {} to {}: the error is {:.2g} of their size",
        palette * bound->rows_of_palette(), (palette + 1) * bound->rows_of_palette() - 1,
        std::sqrt(loss.errors / loss.squares));
  }
  return "";
}

}  // namespace

void judge(WeightFigures& w, const Sums& s, const StretchLoss& loss, const WeightJudging& how) {
  const bool bounded = how.bounded;
  w.sqnr = s.ee > 0 ? std::min(kMostDecibels, 10 * std::log10(s.ww / s.ee)) : kMostDecibels;
  w.gain = s.ss > 0 ? s.ws / s.ss : (s.ww > 0 ? 0 : 1);
  w.max_abs = s.max_abs;
  if (!std::isfinite(s.ee)) {
    w.sqnr = -kMostDecibels;
    w.problem = "holds a value that is not finite";
    return;
  }
  const double noise = s.ww > 0 && s.ss > 0 ? 1 - s.ws * s.ws / s.ww / s.ss : 0;
  const bool few = s.few_strays();
  const std::optional<StretchLoss::Lost> lost = loss.worst();
  const bool explained = (bounded && s.strays == 0) || (w.form == kPlainSparse && s.pruned.too_large() == 0);
  // Integers in steps that the source asks for, each the nearest: nothing is left to be wrong. Few different values in
  // the source (MXFP4) may all be rounded the same way.
  const bool nearest = bounded && s.strays == 0 && how.bound && how.bound->scales() > 0;
  const std::string whole = nearest ? "" : whole_problem(w, s, how.bound);
  if (!how.coarse.empty())
    w.problem = how.coarse;
  else if (!nearest && std::abs(w.gain - 1) > gain_slack(w.form, std::max(0.0, noise)))
    w.problem = fmt::format("is scaled: the values fit the source best when multiplied by {:.4g}", w.gain);
  else if (bounded && s.strays > 0 && few)
    w.problem = stray_text(w.form, s.strays, s.first);
  else if (!whole.empty())
    w.problem = whole;
  else if (w.form.ends_with(kPlainSparse) && s.pruned.excess() > kPruningExcess)
    w.problem = fmt::format(
        "is pruned where its values are large: the zeros cost {:.0f}% of what zeros anywhere would, the "
        "largest in "
        "row {}, column {}: the source has {:.5g} there",
        100 * s.pruned.excess(), s.pruned.largest().row, s.pruned.largest().column, s.pruned.largest().want);
  else if (w.sqnr < least_sqnr(w.form))
    w.problem = fmt::format("differs from its source: SQNR {:.1f} dB, at least {:.0f} expected for {}",
                            w.sqnr, least_sqnr(w.form), w.form);
  else if (bounded && static_cast<double>(s.far) > few_far(form_bits(w.form)) * static_cast<double>(s.count))
    w.problem = stray_text(w.form, s.far, s.first_far);
  else if (w.form == kPlainSparse && s.pruned.too_large() > 0 &&
           static_cast<double>(s.pruned.too_large()) <= kFewStrays * static_cast<double>(s.count))
    w.problem = fmt::format(
        "has {} zero{} where larger values stand than some that were kept, the largest in row {}, column {}: "
        "the source "
        "has {:.5g} there, and {:.5g} was kept",
        s.pruned.too_large(), s.pruned.too_large() == 1 ? "" : "s", s.pruned.largest().row,
        s.pruned.largest().column, s.pruned.largest().want, s.pruned.least_kept());
  else if (!explained && lost && lost->loss > kLostStretch && lost->loss > kAboveOthers * lost->median)
    w.problem = fmt::format(
        "is wrong in row {}, from column {} on: the error is {:.2g} of the row's own size there, and {:.2g} "
        "elsewhere",
        lost->row, lost->column, std::sqrt(lost->loss), std::sqrt(lost->median));
}

}  // namespace anemone
