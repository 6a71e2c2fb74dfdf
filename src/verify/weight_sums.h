// Sums: what is added up while a weight is compared with its source, element by element, and then judged.
//     Sums sums;  sums.add(wanted, stored);  …
//     judge(figures, sums, loss, how);                   // fills figures.problem
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/element_bound.h"
#include "verify/pruned_values.h"
#include "verify/stretch_loss.h"
#include "verify/weights_check.h"

namespace anemone {

// More strays than this part of a weight are no accident: what weighs errors by their use, or makes up for the error
// of one column in the next, does not take the nearest number.
inline constexpr double kFewStrays = 0.02;
// Elements by the entry of the palette that they are.
class Entries {
 public:
  explicit Entries(size_t count = 0) : all_(count), strays_(count) {}

  void add(size_t entry, bool stray) {
    ++all_[entry];
    strays_[entry] += stray ? 1 : 0;
  }
  void add(const Entries& other) {
    all_.resize(std::max(all_.size(), other.all_.size()));
    strays_.resize(all_.size());
    for (size_t i = 0; i < other.all_.size(); ++i) {
      all_[i] += other.all_[i];
      strays_[i] += other.strays_[i];
    }
  }
  // The strays of entries that most of their elements do not fit.
  int64_t in_wrong_entries() const {
    int64_t out = 0;
    for (size_t i = 0; i < all_.size(); ++i)
      if (2 * strays_[i] > all_[i]) out += strays_[i];
    return out;
  }

 private:
  std::vector<int64_t> all_, strays_;
};

// A row that was rounded to near numbers, and not to the nearest, still has its size.
inline constexpr double kRowGain = 0.3;

// What the rows that share a palette lose.
struct PaletteLoss {
  double errors = 0, squares = 0, largest = 0;
  int64_t count = 0;

  void add(const PaletteLoss& other) {
    errors += other.errors;
    squares += other.squares;
    largest = std::max(largest, other.largest);
    count += other.count;
  }
};

struct Sums {
  double ww = 0, ss = 0, ws = 0, ee = 0, max_abs = 0;
  int64_t count = 0, strays = 0, far = 0;  // far: also where errors of other columns are made up for
  Stray first, first_far;
  double bias = 0;                    // the sum of all errors
  double steps = 0, step_errors = 0;  // squares, of integers that were not cut off
  Stray scaled_row;                   // of a row that is another size: want and have are its squares
  std::map<int64_t, PaletteLoss> palettes;
  Pruned pruned;
  Entries entries;

  void add(double wanted, double stored) {
    const double e = std::abs(stored - wanted);
    bias += stored - wanted;
    ww += wanted * wanted;
    ss += stored * stored;
    ws += wanted * stored;
    ee += e * e;
    max_abs = std::max(max_abs, e);
    ++count;
  }
  void add(const Sums& other) {
    ww += other.ww;
    ss += other.ss;
    ws += other.ws;
    ee += other.ee;
    max_abs = std::max(max_abs, other.max_abs);
    count += other.count;
    if (strays == 0) first = other.first;
    if (far == 0) first_far = other.first_far;
    strays += other.strays;
    far += other.far;
    bias += other.bias;
    steps += other.steps;
    step_errors += other.step_errors;
    if (scaled_row.row < 0) scaled_row = other.scaled_row;
    for (const auto& [palette, loss] : other.palettes) palettes[palette].add(loss);
    pruned.add(other.pruned);
    entries.add(other.entries);
  }
  // More strays than a few are no accident, unless they are all of some entries of a palette.
  bool few_strays() const {
    return static_cast<double>(strays - entries.in_wrong_entries()) <=
           kFewStrays * static_cast<double>(count);
  }
};

// How a weight is judged.
struct WeightJudging {
  const ElementBound* bound = nullptr;  // of a weight in a package
  bool bounded = true;                  // its form says how far an element may be away
  std::string coarse;                   // a scale that is coarser than the source asks for
};

void judge(WeightFigures& w, const Sums& s, const StretchLoss& loss, const WeightJudging& how);

}  // namespace anemone
