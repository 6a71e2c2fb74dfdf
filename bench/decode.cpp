// How fast one core decodes each block type, beside a memcpy of the same output size in the same run.
//     bench_decode [seconds per figure]
//     bench_decode model.gguf          reads every tensor of a checkpoint as fp16 on all cores
// "cache": 64 Ki elements over and over, as the converter works, in row tiles; "memory": 64 Mi elements once
// each time.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/dequant.h"
#include "timing.h"

using namespace anemone;
using namespace anemone::bench;

namespace {

void measure(const char* where, int64_t elements, double limit_s) {
  const auto count = static_cast<size_t>(elements);
  std::vector<std::byte> in(count * 4);
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= in.size(); i += 8) {
    const uint64_t word = random() & 0xbfffbfffbfffbfffull;  // no half or bfloat16 in it is infinite or NaN
    std::memcpy(in.data() + i, &word, 8);
  }
  std::vector<float> floats(count);
  std::vector<uint16_t> halves(count);
  const int repeats = static_cast<int>(std::max<int64_t>(1, (int64_t{1} << 22) / elements));
  const auto time = [&](auto body) {
    return best(limit_s,
                [&] {
                  for (int i = 0; i < repeats; ++i) body();
                }) /
           repeats;
  };
  const double half_bytes = 2e-9 * static_cast<double>(elements), float_bytes = 2 * half_bytes;
  const double copy = time([&] { std::memcpy(halves.data(), in.data(), 2 * count); });
  fmt::print("{}: {} elements; memcpy of the fp16 bytes {:.1f} GB/s\n", where, elements, half_bytes / copy);
  fmt::print("{:8} | {:>11} {:>11} {:>8} | {:>11} {:>11}   GB/s per core\n", "type", "fp16 out", "fp16 in",
             "of copy", "fp32 out", "fp32 in");
  for (uint32_t id = 0; id < 300; ++id) {
    const BlockInfo* info = block_info(static_cast<BlockType>(id));
    if (!info || !info->decodes || info->bytes > 4 * info->elements) continue;
    const double in_bytes = 1e-9 * static_cast<double>(block_bytes(*info, elements));
    const double half = time([&] { decode_blocks(info->type, in.data(), elements, halves.data()); });
    const double full = time([&] { decode_blocks(info->type, in.data(), elements, floats.data()); });
    fmt::print("{:8} | {:11.2f} {:11.2f} {:7.0f}% | {:11.2f} {:11.2f}\n", info->name, half_bytes / half,
               in_bytes / half, 100 * copy / half, float_bytes / full, in_bytes / full);
  }
}

void measure_checkpoint(const char* path) {
  const double start = seconds();
  const Checkpoint checkpoint = Checkpoint::open(path);
  const double opened = seconds();
  ThreadPool pool;
  int64_t largest = 0, total = 0;
  for (const TensorReader& tensor : checkpoint.tensors()) {
    largest = std::max(largest, tensor.rows() * tensor.row_elements());
    total += tensor.rows() * tensor.row_elements();
  }
  std::vector<uint16_t> halves(static_cast<size_t>(largest));
  const double took = best(3, [&] {
    for (const TensorReader& tensor : checkpoint.tensors())
      tensor.read_all(pool,
                      std::span(halves).first(static_cast<size_t>(tensor.rows() * tensor.row_elements())));
  });
  const double out_bytes = 2 * static_cast<double>(total);
  fmt::print("{}: opened in {:.1f} ms; {} threads: fp16 out {:.2f} GB/s, in {:.2f} GB/s ({:.0f} MB stored)\n",
             path, 1e3 * (opened - start), pool.threads(), 1e-9 * out_bytes / took,
             1e-9 * static_cast<double>(checkpoint.stored_bytes()) / took,
             1e-6 * static_cast<double>(checkpoint.stored_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::atof(argv[1]) == 0) return measure_checkpoint(argv[1]), 0;
  const double limit_s = argc > 1 ? std::atof(argv[1]) : 0.3;
  measure("cache", int64_t{1} << 16, limit_s);
  measure("memory", int64_t{1} << 26, limit_s);
}
