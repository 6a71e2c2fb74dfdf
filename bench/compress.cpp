// How fast weights are compressed: a matrix of random normal halves, tables or scales and packed codes made in
// memory. bench/compress_peers.py sets coremltools beside it.
//     bench_compress [rows=4864] [columns=896] [threads=0] [runs=3]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <random>

#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "compress/recipe.h"

using namespace anemone;

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 4864, columns = argc > 2 ? std::atoll(argv[2]) : 896;
  ThreadPool pool(argc > 3 ? std::atoi(argv[3]) : 0);
  const int runs = argc > 4 ? std::atoi(argv[4]) : 3;
  const auto count = static_cast<size_t>(rows * columns);

  std::vector<float> values(count);
  std::mt19937_64 random(0);
  std::normal_distribution<float> normal(0, 0.02f);
  for (float& v : values) v = round_to_half(normal(random));
  const Constant constant = Constant::numbers(values, DType::fp16, {rows, columns, 1, 1});
  Weight weight;
  weight.name = "w";
  weight.type = constant.type;
  weight.stored = stored_constant(constant);

  const std::pair<const char*, const char*> forms[] = {
      {"palette4", R"({"palettize": 4})"},
      {"palette4_fast", R"({"palettize": {"bits": 4, "fast": true}})"},
      {"palette4_group16", R"({"palettize": {"bits": 4, "group": 16}})"},
      {"palette4_group16_fast", R"({"palettize": {"bits": 4, "group": 16, "fast": true}})"},
      {"palette8", R"({"palettize": 8})"},
      {"int8", R"({"quantize": "int8"})"},
      {"int8_tensor", R"({"quantize": {"type": "int8", "per": "tensor"}})"},
      {"int4_block32", R"({"quantize": {"type": "int4", "block": 32}})"},
  };
  for (const auto& [name, rule] : forms) {
    const Recipe recipe = parse_recipe(fmt::format("{{\"rules\": [{}]}}", rule));
    std::vector<double> seconds, work;
    for (int run = 0; run < runs; ++run) {
      const auto start = std::chrono::steady_clock::now();
      const std::clock_t before = std::clock();
      const auto e = encode(weight, recipe.rules[0].form, pool);
      const int bits = dtype_bits(e->code_dtype);
      std::vector<std::byte> packed(count * static_cast<size_t>(bits) / 8);
      pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
        std::vector<uint8_t> codes(static_cast<size_t>((end - begin) * columns));
        e->codes(begin, end, codes.data());
        pack_codes(codes.data(), (end - begin) * columns, bits, packed.data() + begin * columns * bits / 8);
      });
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      work.push_back(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
    }
    std::sort(seconds.begin(), seconds.end());
    std::sort(work.begin(), work.end());
    const double per_weight = 1e9 / static_cast<double>(count);
    fmt::print("{:<22} {:9.2f} ns/weight, {:9.2f} of all cores' time (medians of {})\n", name,
               seconds[seconds.size() / 2] * per_weight, work[work.size() / 2] * per_weight, runs);
  }
}
