// Frequencies of each scaling. Expected values are worked out by hand from the published formulas, or come
// from files that other tools made.
#include "reference/rope.h"

#include <doctest/doctest.h>

#include <cmath>

#include "families/family.h"
#include "support/golden_models.h"

using namespace anemone;

namespace {

Rope plain(int64_t dims, double base) {
  Rope rope;
  rope.dims = dims;
  rope.base = base;
  return rope;
}

std::vector<double> frequencies(const Rope& rope, int64_t positions = 1,
                                LongRope choice = LongRope::by_length) {
  return rotary_frequencies(rope, positions, choice);
}

}  // namespace

TEST_CASE("plain and linear frequencies are powers of the base") {
  Rope rope = plain(4, 10000);
  CHECK(frequencies(rope)[0] == doctest::Approx(1));
  CHECK(frequencies(rope)[1] == doctest::Approx(0.01));
  rope.scaling = RopeScaling::linear;
  rope.factor = 8;
  CHECK(frequencies(rope)[1] == doctest::Approx(0.00125));
}

TEST_CASE("Hunyuan's alpha stretches the base to 11,158,839.93") {
  Rope rope = plain(128, 10000);
  rope.scaling = RopeScaling::ntk_alpha;
  rope.alpha = 1000;
  CHECK(std::pow(frequencies(rope)[1], -64.0) == doctest::Approx(11158839.93).epsilon(1e-9));
}

TEST_CASE("a dynamic base grows with the sequence, beyond the context that the model was made for") {
  Rope rope = plain(8, 10000);
  rope.scaling = RopeScaling::dynamic;
  rope.factor = 2;
  rope.original_context = 24;
  CHECK(frequencies(rope, 24)[1] == doctest::Approx(0.1));
  CHECK(frequencies(rope, 36)[1] == doctest::Approx(0.0793700516));  // transformers' values
  CHECK(frequencies(rope, 36)[3] == doctest::Approx(0.0005));
}

TEST_CASE("longrope chooses by the positions in use, or as told") {
  Rope rope = plain(4, 100);
  rope.scaling = RopeScaling::longrope;
  rope.original_context = 32;
  rope.short_factors = {1, 2};
  rope.long_factors = {4, 8};
  CHECK(frequencies(rope, 32)[0] == 1);
  CHECK(frequencies(rope, 32)[1] == doctest::Approx(0.05));
  CHECK(frequencies(rope, 33)[0] == 0.25);
  CHECK(frequencies(rope, 1, LongRope::long_factors)[1] == doctest::Approx(0.0125));
  CHECK(frequencies(rope, 99, LongRope::short_factors)[1] == doctest::Approx(0.05));
}

TEST_CASE("YaRN keeps fast waves, stretches slow ones and ramps in between") {
  // base 10^4, 8 dims, original 1000: d(n) = 8 ln(1000 / 2πn) / (2 ln 10^4): d(32) = 0.697, d(1) = 2.202, cut
  // to 0 and 3: ramps 0, 1/3, 2/3, 1.
  Rope rope = plain(8, 10000);
  rope.scaling = RopeScaling::yarn;
  rope.factor = 4;
  rope.original_context = 1000;
  const std::vector<double> f = frequencies(rope);
  CHECK(f[0] == doctest::Approx(1));
  CHECK(f[1] == doctest::Approx(0.1 * (1 - 1.0 / 3 + 1.0 / 12)));
  CHECK(f[2] == doctest::Approx(0.01 * (1 - 2.0 / 3 + 1.0 / 6)));
  CHECK(f[3] == doctest::Approx(0.001 / 4));
}

TEST_CASE("llama3's formula gives the divisors that converters write into GGUF files") {
  int compared = 0;
  for (const test::GoldenModel& model : test::golden_models()) {
    if (model.variant.empty()) continue;
    const Checkpoint gguf = Checkpoint::open(model.checkpoint);
    if (!gguf.find("rope_freqs.weight")) continue;
    const Model from_gguf = describe(gguf),
                from_config = describe(Checkpoint::open(model.checkpoint.parent_path()));
    REQUIRE(from_config.ropes.at(0).scaling == RopeScaling::llama3);
    const std::vector<double> a = frequencies(from_gguf.ropes.at(0)), b = frequencies(from_config.ropes[0]);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-6));
    ++compared;
  }
  MESSAGE(compared << " files compared");
}
