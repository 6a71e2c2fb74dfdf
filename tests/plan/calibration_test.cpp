#include "plan/calibration.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace anemone;

TEST_CASE("the cost of a token reproduces 14 published runs") {
  const CostFit& c = calibration();
  size_t fitted = 0, outside = 0;
  for (const CalibrationPoint& p : calibration_points()) {
    ++(p.fitted ? fitted : outside);
    MESSAGE(p.model << ", " << p.setting << ", " << p.chip << ": "
                    << std::round(1000 * relative_error(p, c.constants)) / 10 << "%"
                    << (p.fitted ? "" : " (not in the fit)"));
  }
  CHECK(fitted == 14);
  CHECK(outside == 7);
  MESSAGE("mean error " << c.in_sample.mean << ", run left out " << c.left_out.mean << ", model left out "
                        << c.model_out.mean << ", outside " << c.outside.mean);
  CHECK(c.in_sample.mean <= 0.12);
  CHECK(c.left_out.mean >= c.in_sample.mean);  // honest: a left-out run is harder
  CHECK(c.left_out.mean <= 0.12);
  CHECK(c.model_out.mean <= 0.12);
  CHECK(c.outside.mean <= 0.12);
  // Independent figures: an activation path of about 24 GB/s (M1, M5), calls of 0.6 ms for models around 2048.
  CHECK(c.constants.activation_gbps > 18);
  CHECK(c.constants.activation_gbps < 28);
  CHECK(c.constants.us_per_channel * 2048 > 300);
  CHECK(c.constants.us_per_channel * 2048 < 900);
}

// numpy.linalg.lstsq over the same 14 rows gives these two constants.
TEST_CASE("the fit is the least-squares solution") {
  CHECK(calibration().constants.activation_gbps == doctest::Approx(22.10910).epsilon(1e-5));
  CHECK(calibration().constants.us_per_channel == doctest::Approx(0.2706948).epsilon(1e-5));
}
