#include "mil/loops.h"

#include <algorithm>
#include <cstring>

#include "base/shape.h"

namespace anemone {

std::vector<int64_t> dense_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> out(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride *= dims[i];
  }
  return out;
}

std::vector<int64_t> broadcast_strides(std::span<const int64_t> dims, std::span<const int64_t> out_dims) {
  std::vector<int64_t> out(out_dims.size(), 0);
  const std::vector<int64_t> dense = dense_strides(dims);
  const size_t shift = out_dims.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) out[i + shift] = dense[i];
  return out;
}

void join_dims(std::vector<int64_t>& dims, std::span<std::vector<int64_t>> strides) {
  size_t kept = 0;  // dimensions of the result
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const bool joins =
        kept > 0 && std::all_of(strides.begin(), strides.end(),
                                [&](const std::vector<int64_t>& s) { return s[kept - 1] == s[i] * dims[i]; });
    const size_t to = joins ? kept - 1 : kept++;
    dims[to] = joins ? dims[to] * dims[i] : dims[i];
    for (std::vector<int64_t>& s : strides) s[to] = s[i];
  }
  dims.resize(kept);
  for (std::vector<int64_t>& s : strides) s.resize(kept);
}

Walker::Walker(std::span<const int64_t> dims, std::span<const std::vector<int64_t>> strides)
    : dims_(dims.begin(), dims.end()),
      index_(dims.size(), 0),
      offsets_(strides.size(), 0),
      strides_(strides.begin(), strides.end()) {}

void Walker::seek(int64_t position) {
  std::fill(offsets_.begin(), offsets_.end(), 0);
  for (size_t i = dims_.size(); i-- > 0;) {
    index_[i] = position % dims_[i];
    position /= dims_[i];
    for (size_t s = 0; s < strides_.size(); ++s) offsets_[s] += index_[i] * strides_[s][i];
  }
}

void Walker::next() {
  for (size_t i = dims_.size(); i-- > 0;) {
    if (++index_[i] < dims_[i]) {
      for (size_t s = 0; s < strides_.size(); ++s) offsets_[s] += strides_[s][i];
      return;
    }
    index_[i] = 0;
    for (size_t s = 0; s < strides_.size(); ++s) offsets_[s] -= strides_[s][i] * (dims_[i] - 1);
  }
}

namespace {

// Leaves out dimensions of size 1 and joins neighbours that lie as one, so that the inner loop is long.
void join_dims(std::vector<int64_t>& dims, std::vector<int64_t>& strides) {
  size_t n = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    if (n > 0 && strides[n - 1] == strides[i] * dims[i]) {
      dims[n - 1] *= dims[i];
      strides[n - 1] = strides[i];
      continue;
    }
    dims[n] = dims[i];
    strides[n++] = strides[i];
  }
  dims.resize(n);
  strides.resize(n);
}

}  // namespace

void copy_strided(ThreadPool& pool, const void* in, int64_t base, std::span<const int64_t> in_strides,
                  std::span<const int64_t> out_dims, void* out) {
  const int64_t count = element_count(out_dims);
  if (count == 0) return;
  const auto* src = static_cast<const uint32_t*>(in) + base;
  auto* dst = static_cast<uint32_t*>(out);
  std::vector<int64_t> dims(out_dims.begin(), out_dims.end()), strides(in_strides.begin(), in_strides.end());
  join_dims(dims, strides);
  if (dims.empty()) {
    *dst = *src;
    return;
  }
  const int64_t row = dims.back(), step = strides.back();
  dims.pop_back();
  strides.pop_back();
  if (dims.empty())
    return pool.parallel_for(row, kMapGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dst[i] = src[i * step];
    });
  pool.parallel_for(count / row, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    Walker walk(dims, std::span(&strides, 1));
    walk.seek(begin);
    for (int64_t r = begin; r < end; ++r, walk.next()) {
      const uint32_t* from = src + walk.offset(0);
      uint32_t* to = dst + r * row;
      if (step == 1)
        std::memcpy(to, from, static_cast<size_t>(row) * 4);
      else
        for (int64_t i = 0; i < row; ++i) to[i] = from[i * step];
    }
  });
}

}  // namespace anemone
