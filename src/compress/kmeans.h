// K-means in one dimension, on a histogram: the true optimum, or a local one in a few steps.
//     std::vector<float> table = kmeans_table(histogram, 16, {});
// Clusters of a line are intervals, so the best partition follows by dynamic programming over the sorted
// distinct values: O(k n log n) with n at most 65,536 (Wu 1991; Grønlund et al. 2017), however many weights
// there are.
#pragma once

#include <cstdint>
#include <vector>

#include "compress/histogram.h"

namespace anemone {

// Where the clusters of the best partition in at most k clusters begin, and the number of values at the end.
std::vector<int64_t> optimal_partition(const Histogram& histogram, int k);
// Lloyd's steps on running sums, from a start that follows the cube root of the density.
std::vector<int64_t> lloyd_partition(const Histogram& histogram, int k);

struct TableOptions {
  bool fast = false;  // Lloyd instead of the optimum
  bool half = true;   // entries are rounded to fp16
};

// The centres of the clusters, ascending: k of them, the last repeated where there are fewer values.
std::vector<float> kmeans_table(const Histogram& histogram, int k, const TableOptions& options);

// The squared error when every value goes to the nearest entry of an ascending table.
double table_error(const Histogram& histogram, const std::vector<float>& table);

}  // namespace anemone
