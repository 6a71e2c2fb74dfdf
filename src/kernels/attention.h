// What attention is made of, over plain rows in memory, on one core; callers split the work.
//     attention_scores(q, rows, dim, k, columns, scores, stride);        // scores[r][j] = q[r] · k[j]
//     softmax(scores + r * stride, columns);                             // in place
//     attention_values(scores, stride, rows, v, columns, dim, 0, dim, out);
// For few rows (decoding): keys and values are read once, where they lie, as floats or as halves. Many rows are a job
// for gemm. Long rows go in parts, each with a softmax of its own, and are joined at the end:
//     stats[p] = softmax_part(scores of part p, columns);   attention_values(…, sums + p * dim);
//     join_parts(stats, sums, parts, 1, dim, dim, out);
#pragma once

#include <cstdint>

namespace anemone {

// scores[r * stride + j] = sum over i of q[r * dim + i] * k[j * dim + i], for `columns` rows of k.
void attention_scores(const float* q, int64_t rows, int64_t dim, const float* k, int64_t columns,
                      float* scores, int64_t stride) noexcept;
void attention_scores(const float* q, int64_t rows, int64_t dim, const uint16_t* k, int64_t columns,
                      float* scores, int64_t stride) noexcept;
// x = e^(x - largest) / sum of those, as the softmax op gives it (NaN where that gives NaN). n > 0.
void softmax(float* x, int64_t n) noexcept;
// out[r * dim + i] = sum over j of p[r * stride + j] * v[j * dim + i], for i in [begin, end).
void attention_values(const float* p, int64_t stride, int64_t rows, const float* v, int64_t columns,
                      int64_t dim, int64_t begin, int64_t end, float* out) noexcept;
void attention_values(const float* p, int64_t stride, int64_t rows, const uint16_t* v, int64_t columns,
                      int64_t dim, int64_t begin, int64_t end, float* out) noexcept;

// A part of a row, before it is known how large the others are.
struct SoftmaxPart {
  float largest = 0, sum = 0;  // sum of e^(x - largest); where all are -infinity it is 0
};
// x = e^(x - largest). n > 0.
SoftmaxPart softmax_part(float* x, int64_t n) noexcept;
// out[i] = the sum over the parts of sums[p * sums_stride + i], weighed as in a softmax over all of them. What is known
// of part p is stats[p * stats_stride].
void join_parts(const SoftmaxPart* stats, const float* sums, int64_t parts, int64_t stats_stride,
                int64_t sums_stride, int64_t dim, float* out) noexcept;

// x[i] = x[i] * scale + add[i]; with `half`, the product and the sum are rounded to half.
void scale_and_add(float* x, float scale, const float* add, int64_t n, bool half) noexcept;
bool all_finite(const float* x, int64_t n) noexcept;

// The plain twins.
void attention_scores_plain(const float* q, int64_t rows, int64_t dim, const float* k, int64_t columns,
                            float* scores, int64_t stride) noexcept;
void attention_scores_plain(const float* q, int64_t rows, int64_t dim, const uint16_t* k, int64_t columns,
                            float* scores, int64_t stride) noexcept;
void softmax_plain(float* x, int64_t n) noexcept;
void attention_values_plain(const float* p, int64_t stride, int64_t rows, const float* v, int64_t columns,
                            int64_t dim, int64_t begin, int64_t end, float* out) noexcept;
void attention_values_plain(const float* p, int64_t stride, int64_t rows, const uint16_t* v, int64_t columns,
                            int64_t dim, int64_t begin, int64_t end, float* out) noexcept;

}  // namespace anemone
