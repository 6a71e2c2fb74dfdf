// One layer of the dynamic program behind exact one-dimensional k-means (compress/kmeans.h).
//     cluster_layer(sums, base, first, last, least, split);
// Values are sorted; weight[i] and sum[i] are the running sums over the values before i. With
//     spread(i, j) = the squared error of one cluster of the values [i, j)
//                  = square[j] - square[i] - (sum[j] - sum[i])^2 / (weight[j] - weight[i])
// and base[i] = (best cost of the values before i with one cluster less) - square[i], it finds for every j
// the split i that makes base[i] + spread(i, j) + square[i] least. The best split never moves left as j
// grows, so the search is divide and conquer: n log n steps, scanned with SIMD.
#pragma once

#include <cstdint>

namespace anemone {

// For every j in [first, last]: split[j], the best i in [first - 1, j - 1], and least[j], its
// base[i] - (sum[j] - sum[i])^2 / (weight[j] - weight[i]). first >= 1; weights strictly rise. Of equal splits
// the first is taken.
void cluster_layer(const double* weight, const double* sum, const double* base, int64_t first, int64_t last,
                   double* least, uint16_t* split) noexcept;

}  // namespace anemone
