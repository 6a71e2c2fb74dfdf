#include "measure/bench.h"

#include <doctest/doctest.h>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

TEST_CASE("a bundle is measured over fills, stage by stage") {
  const TempFolder folder;
  const auto path = folder.path() / "demo";
  const ConvertReport made = convert(source_dir() / "examples/demo_model/demo.gguf", path,
                                     {.context = {64}, .tokens = {{1, 1}, {4, 4}}, .threads = 1});
  const BenchReport r =
      bench(path, [] { return cpu_backend({.threads = 1}); }, {.fills = {3, 40}, .tokens = 4, .chip = "m4"});
  REQUIRE(r.rows.size() == 2);
  CHECK(r.rows[1].fill == 40);
  CHECK(r.stages.size() == made.info.stages.size());
  for (const BenchRow& row : r.rows) {
    CHECK(row.decode_ms > 0);
    CHECK(row.prefill_tokens_per_s > 0);
    REQUIRE(row.stage_ms.size() == r.stages.size());
    for (const double ms : row.stage_ms) CHECK(ms > 0);
    CHECK(row.predicted_ms > 0);
  }
  // Keys and values of every layer at 64 positions in fp16, and a mask that reads and writes them.
  const TokenWork work = token_work(made.info, path);
  CHECK(work.calls == 2);
  CHECK(work.kv_factor == 2);
  CHECK(static_cast<uint64_t>(work.weight_bytes) == r.weight_bytes);
  CHECK(error_of([&] { bench(path, [] { return cpu_backend({}); }, {.fills = {62}, .tokens = 4}); }) ==
        "a context of 64 has no room for 4 tokens behind 62");
}

TEST_CASE("powermetrics: the mean of the samples, by name") {
  const auto power = read_power(
      "*** Sampled system activity ***\nCPU 0 Power: 9 mW\nCPU Power: 1000 mW\nGPU Power: 20 mW\nANE Power: "
      "812 mW\n"
      "Combined Power (CPU + GPU + ANE): 1832 mW\n\nCPU Power: 2000 mW\nANE Power: 612 mW\n");
  REQUIRE(power.size() == 4);
  CHECK(power[0].name == "CPU");
  CHECK(power[0].watts == doctest::Approx(1.5));
  CHECK(power[2].name == "ANE");
  CHECK(power[2].watts == doctest::Approx(0.712));
  CHECK(power[2].samples == 2);
  CHECK(power[3].name == "Combined");
  CHECK(read_power("no power at all\n").empty());
}
