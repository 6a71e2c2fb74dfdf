// The rows of a cache: filled with known numbers, and compared with what a truth says was written.
//     fill_with_known(caches, c.heads());
//     CacheRows rows(c, {arithmetic}, truth);
//     rows.expect(64, 0);                                   // row 64 holds the truth's token 0
//     std::string problem = rows.problem(before, caches);
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "verify/climber.h"

namespace anemone {

// Small numbers that half holds exactly, different for neighbours; zeros where a row is only filled up. `heads`: the
// head's own width, by layer; 0 where it is not known: the whole row. What recurrent layers remember stays zero: it is
// seen from the first token on.
void fill_with_known(Caches& caches, const std::vector<int64_t>& heads);

class CacheRows {
 public:
  CacheRows(const Climber& c, const Judging& how, const Golden& truth) : c_(c), how_(how), truth_(truth) {}

  // Row `row` was written with token `token` of the truth.
  void expect(int64_t row, int64_t token) { tokens_[row] = token; }
  // Row `row` may have changed.
  void allow(int64_t row) { allowed_.insert(row); }
  // Every layer's rows, before and after: the expected ones are right, and none changed that may not. What is wrong
  // first, or nothing.
  std::string problem(const std::vector<LayerCache>& before, const Caches& after) {
    return problem(before, after, static_cast<int64_t>(after.layers.size()) - 1);
  }
  // The same of the layers up to `last` alone: what drifts in a layer may come from its cache.
  std::string problem(const std::vector<LayerCache>& before, const Caches& after, int64_t last);
  int64_t compared() const { return compared_; }

 private:
  std::string side_problem(size_t layer, const char* side, const std::vector<LayerCache>& before,
                           const Caches& after);

  const Climber& c_;
  Judging how_;
  const Golden& truth_;
  std::map<int64_t, int64_t> tokens_;  // by row
  std::set<int64_t> allowed_;
  int64_t compared_ = 0;
};

}  // namespace anemone
