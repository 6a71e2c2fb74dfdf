#include <doctest/doctest.h>

#include "verify/climber.h"

using namespace anemone;

namespace {

// The scale that is proposed by the packages' values alone; 0 where none is.
double proposed(const Magnitudes& largest) {
  const VerifyOptions options;
  Climber climber{.options = options};
  Rung rung;
  measure_magnitudes(climber, 2, largest, rung);
  return climber.report.proposed_scale;
}

}  // namespace

TEST_CASE("verify: magnitudes belong to their layers") {
  const VerifyOptions options;
  Climber climber{.options = options};
  climber.first_layer = 4;
  Rung rung;
  measure_magnitudes(climber, 2, {{{"embed_out"}, 9}, {{"q", 0}, 3}, {{"layer_out", 0}, 2}, {{"k", 1}, 5}},
                     rung);
  const std::vector<LayerMagnitude>& m = climber.report.magnitudes;
  REQUIRE(m.size() == 2);
  CHECK(m[0].layer == 4);
  CHECK(m[0].value.value == 3);
  CHECK(m[0].value.where == "q");
  CHECK(m[1].layer == 5);
  CHECK(m[1].value.value == 5);
  CHECK(m[1].value.where == "k");
  CHECK(rung.notes.empty());
}

// Half ends at 65504, the accumulator at 32768; a scale is proposed below 2 times, and leaves 4 times.
TEST_CASE("verify: a residual scale is proposed for what it reaches") {
  CHECK(proposed({{{"mlp_out", 1}, 20000}}) == 0.25);  // 32768 / 20000 = 1.64; 1.64 / 4 = 0.41
  CHECK(proposed({{{"attn_out", 0}, 10000}}) == 0);    // 3.3
  // The stream is added up outside of the accumulator.
  CHECK(proposed({{{"attn_residual", 0}, 20000}, {{"attn_out", 0}, 10}}) == 0);  // 65504 / 20000 = 3.3
  CHECK(proposed({{{"layer_out", 0}, 40000}}) == 0.25);                          // 1.64 again
  CHECK(proposed({{{"q", 0}, 30000}}) == 0);                                     // it stands behind a norm
}
