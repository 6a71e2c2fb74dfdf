// Figures: how near one list of numbers is to another.
//     Figures f = compare(got, expected);
//     if (!f.within(0.97)) …                                // cosine, and not only the direction
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace anemone {

struct Figures {
  int64_t count = 0;
  double cosine = 1;    // of the two as vectors; 1 when both are zero
  double relative = 0;  // rms of the difference / rms of what was expected
  double mean_abs = 0, max_abs = 0;
  double psnr = 0;     // dB: 20 log10(largest |expected| / rms of the difference); capped at 200
  double largest = 0;  // magnitude in what was got
  bool finite = true;  // what was got has no NaN and no infinity

  // The direction is right, and so is the length: cosine >= least, and the relative error is at most what that
  // cosine allows (0.25 for 0.97).
  bool within(double least) const;
};
// The relative error that belongs to a cosine, where the error stands upright on what was expected.
double error_of_cosine(double cosine);

Figures compare(std::span<const float> got, std::span<const float> expected);

// Logits of one position.
struct LogitFigures {
  Figures values;
  int64_t best = 0, expected_best = 0;
  double overlap = 0;  // how many of the expected five best are among the got five best, as a part of one
  double divergence =
      0;  // Kullback-Leibler, of what the logits expect next: in nats, from the expected to the got
  bool same_best() const { return best == expected_best; }
};

LogitFigures compare_logits(std::span<const float> got, std::span<const float> expected);

// Kullback-Leibler divergence of the softmax of `got` from that of `expected`, in nats; infinite where `got` is not
// finite.
double divergence(std::span<const float> got, std::span<const float> expected);
int64_t best_of(std::span<const float> logits);  // the lowest of equals
// Whether fewer than `k` logits are larger than this one.
bool in_top(std::span<const float> logits, int64_t id, int64_t k);
// How far a logit is below the best, in standard deviations of them all.
double margin_below_best(std::span<const float> logits, int64_t id);

// "cosine 0.99987, error 1.6%, max |e| 0.021, PSNR 43 dB"
std::string text(const Figures& f);

}  // namespace anemone
