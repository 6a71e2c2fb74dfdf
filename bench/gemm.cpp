// How fast many tokens go through a projection, as a prompt does it: a weight as it is stored, widened a tile at a
// time and multiplied, on one core; beside it, what the core's multiply-adds could do at most (no memory at all).
//     bench_gemm [seconds per figure]
#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <tuple>
#include <vector>

#include "engine/buffer.h"
#include "kernels/gemm.h"
#include "kernels/matvec.h"
#include "timing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/gemm.cpp"  // from src
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anemone::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Multiply-adds that wait for nothing: 12 sums, as the kernel has.
int64_t MultiplyAdds(float* out) {
  const hn::ScalableTag<float> d;
  constexpr int64_t kSums = 12, kTimes = 20000;
  auto x = hn::Set(d, out[0]), y = hn::Set(d, out[1]);
  hn::Vec<decltype(d)> sums[kSums];
  for (int64_t s = 0; s < kSums; ++s) sums[s] = hn::Set(d, static_cast<float>(s));
  for (int64_t i = 0; i < kTimes; ++i)
    for (int64_t s = 0; s < kSums; ++s) sums[s] = hn::MulAdd(sums[s], x, y);
  for (int64_t s = 1; s < kSums; ++s) sums[0] = hn::Add(sums[0], sums[s]);
  out[2] = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  return 2 * kSums * kTimes * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace anemone::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
using namespace anemone;
using namespace anemone::bench;
namespace anemone {
HWY_EXPORT(MultiplyAdds);
}

int main(int argc, char** argv) {
  const double limit_s = argc > 1 ? std::atof(argv[1]) : 0.5;
  const Buffer weights(int64_t{16} << 20);
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < int64_t{2} << 20; ++i)
    reinterpret_cast<uint64_t*>(weights.data())[i] = random() & 0x3b3b3b3b3b3b3b3bull;  // small in every type
  float seeds[3] = {0.5f, 0.25f, 0};
  int64_t count = 0;
  const double took = best(limit_s, [&] { count = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(seeds); });
  const double most = 1e-9 * static_cast<double>(count) / took;
  fmt::print("multiply-adds alone: {:.1f} GFLOP/s\n", most);
  fmt::print("{:>5} {:>6} {:>6} {:>6} | {:>8} {:>6}\n", "kind", "rows", "k", "tokens", "GFLOP/s", "share");
  for (const auto& [kind, name, bytes] :
       {std::tuple(WeightKind::int8, "int8", 1), std::tuple(WeightKind::fp16, "fp16", 2),
        std::tuple(WeightKind::fp32, "fp32", 4)})
    for (const auto& [rows, k] : {std::pair(576, 576), std::pair(1536, 576), std::pair(576, 1536)})
      for (const int64_t tokens : {16, 44, 64}) {
        std::vector<float> x(static_cast<size_t>(k * tokens), 0.5f), out(static_cast<size_t>(rows * tokens));
        const Buffer room(static_cast<uint64_t>(packed_size(tokens, k)) * sizeof(float));
        float* const packed = static_cast<float*>(static_cast<void*>(room.data()));
        std::vector<float> tile(24 * kGemmDepth);
        const double s = best(limit_s, [&] {
          for (int64_t from = 0; from < k; from += kGemmDepth)
            pack_columns({x.data() + from * tokens, tokens, 1}, tokens, kGemmDepth,
                         packed + packed_size(tokens, from));
          for (int64_t r = 0; r < rows; r += 24)
            for (int64_t from = 0; from < k; from += kGemmDepth) {
              for (int64_t i = 0; i < 24; ++i)
                widen(kind, {weights.data() + ((r + i) * k + from) * bytes, nullptr},
                      weights.data() + weights.size(), kGemmDepth, tile.data() + i * kGemmDepth);
              gemm_packed(24, tokens, kGemmDepth, tile.data(), kGemmDepth, packed + packed_size(tokens, from),
                          out.data() + r * tokens, tokens, from > 0);
            }
        });
        const double speed = 2e-9 * static_cast<double>(rows * k * tokens) / s;
        fmt::print("{:>5} {:>6} {:>6} {:>6} | {:8.1f} {:5.0f}%\n", name, rows, k, tokens, speed,
                   100 * speed / most);
      }
}
#endif  // HWY_ONCE
