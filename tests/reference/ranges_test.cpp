#include "reference/ranges.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/golden_models.h"
#include "support/model_parts.h"

using namespace anemone;
using namespace anemone::test;

namespace {

double largest(const Array& array) {
  double most = 0;
  for (const float v : array.to_float()) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

LayerRange layer(double stream, double stream_sum, double inner = 1, double inner_sum = 1) {
  LayerRange r;
  r.stream.take(stream, "residual");
  r.stream_sum.take(stream_sum, "down");
  r.inner.take(inner, "q");
  r.inner_sum.take(inner_sum, "up");
  return r;
}

}  // namespace

TEST_CASE("ranges: blocks and stream reach what the goldens reach") {
  for (const GoldenModel& model : golden_models()) {
    const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(model.checkpoint));
    if (!is_decoder(*checkpoint) || !model.exact("")) continue;
    CAPTURE(model.name());
    const Reference reference(checkpoint, model.describe(*checkpoint));
    const auto ranges = measure_ranges(reference, read_ids(model.golden / "input_ids.npy"));
    REQUIRE(ranges.size() == reference.model().layers.size());
    const fs::path embedded = model.golden / "embed_out.npy";
    double into = fs::exists(embedded) ? largest(read_npy(embedded)) : 0;
    for (const LayerRange& r : ranges) {
      CAPTURE(r.layer);
      const auto golden = [&](const char* name) {
        return model.golden / (std::string(name) + "_" + std::to_string(r.layer) + ".npy");
      };
      if (fs::exists(golden("attn_out")))
        CHECK(std::abs(r.attention - largest(read_npy(golden("attn_out")))) < 1e-3);
      if (fs::exists(golden("mlp_out"))) CHECK(std::abs(r.mlp - largest(read_npy(golden("mlp_out")))) < 1e-3);
      const double out = fs::exists(golden("layer_out")) ? largest(read_npy(golden("layer_out"))) : 0;
      CHECK(r.residual > std::max(into, out) - 1e-3);
      CHECK(r.stream.value >= r.residual);
      // A sum ends at its result, so its largest is at least that.
      CHECK(r.stream_sum.value > std::max(r.attention, r.mlp) * 0.9999);
      into = out;
    }
  }
}

TEST_CASE("ranges: a running sum counts on its way, in the order of the columns") {
  const fs::path path = source_dir() / "examples" / "demo_model" / "demo.gguf";
  const auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(path));
  const Model model = describe(*checkpoint);
  ThreadPool pool(2);
  const ReferenceCheckpoint source(checkpoint);
  const ReferenceWeights weights(source, pool);
  const WeightRef& ref = mlp_of(model, 1).down.weight;
  const auto columns = static_cast<size_t>(ref.columns);
  std::vector<float> x(2 * columns);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i)) * 10;
  double expected = 0;
  for (int64_t r = 0; r < ref.rows(); ++r) {
    std::vector<float> row(columns);
    source.read(ref, r, r + 1, row);
    for (size_t t = 0; t < 2; ++t) {
      double sum = 0;
      for (size_t c = 0; c < columns; ++c)
        expected = std::max(expected, std::abs(sum += static_cast<double>(row[c]) * x[t * columns + c]));
    }
  }
  CHECK(weights.largest_running_sum(ref, x.data(), 2) == doctest::Approx(expected).epsilon(1e-4));
}

TEST_CASE("ranges: a residual scale is proposed only where the stream is near a limit") {
  CHECK(proposed_residual_scale(std::vector{layer(1000, 2000), layer(10, 20)}) == 1);
  // 24891 of 32768: sums have 1.3 times room; a quarter of that leaves 5.3.
  CHECK(proposed_residual_scale(std::vector{layer(24891, 24891), layer(10, 20)}) == 0.25);
  CHECK(proposed_residual_scale(std::vector{layer(60000, 100)}) == 0.25);
  CHECK(proposed_residual_scale(std::vector{layer(500000, 100)}) == 0.03125);
  // Large values that the scale does not reach are no reason.
  CHECK(proposed_residual_scale(std::vector{layer(10, 10, 60000, 30000)}) == 1);
  const LayerRange r = layer(24891, 16384, 100, 8192);
  CHECK(r.half_headroom() == doctest::Approx(65504.0 / 24891));
  CHECK(r.accumulator_headroom() == 2);
  CHECK(r.accumulator_headroom(0.25) == 4);
}
