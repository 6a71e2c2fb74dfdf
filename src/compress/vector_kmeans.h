// K-means of short vectors: k-means++ starts, then Lloyd's steps. Same input, same table, whatever the number
// of threads.
//     std::vector<float> centres = vector_kmeans(points, 2, 16, pool);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anemone {

class ThreadPool;

// points: vectors of `width` values one after the other. k centres, one after the other.
std::vector<float> vector_kmeans(std::span<const float> points, int64_t width, int k, ThreadPool& pool);

// The nearest of k centres for each of `count` vectors. Value v of vector i is at[v * stride + i]; centres
// one after the other. Returns the sum of the squared distances.
double nearest_vectors(const float* at, int64_t stride, int64_t count, int64_t width,
                       std::span<const float> centres, uint8_t* codes);

}  // namespace anemone
