#include "plan/calibration.h"

#include <cmath>
#include <vector>

#include "base/error.h"

namespace anemone {
namespace {

constexpr double kMB = 1e6;

// Bytes of keys and values in fp16.
constexpr double kv(double layers, double kv_heads, double head_dim, double slots) {
  return layers * kv_heads * head_dim * slots * 4;
}

constexpr double kPhi = kv(32, 8, 128, 2048);

constexpr TokenWork phi(double calls) { return {3841 * kMB, 1, kPhi, 2, calls, 3072}; }
constexpr TokenWork qwen3_4b(double slots) { return {8040 * kMB, 1, kv(36, 8, 128, slots), 1, 1, 2560}; }

// Published decode runs (docs/plan.md has the sources). Not published and assumed: a masked cache (f = 2) in the
// first six and in ZAYA1, 2048 slots for Qwen2.5, caches of 40 MB (Qwen3.5) and 84 MB (ZAYA1); Phi's head at 5.1 ms.
constexpr CalibrationPoint kPoints[] = {
    {"Qwen2.5-0.5B", "INT8, 1 call", "m4-max", {472 * kMB, 1, kv(24, 2, 64, 2048), 2, 1, 896}, 1000 / 160.0},
    {"Hy-MT 1.8B",
     "INT8, 9 calls, 512",
     "m4-max",
     {1794 * kMB, 1, kv(32, 4, 128, 512), 2, 9, 2048},
     1000 / 37.2},
    {"Phi-4-mini", "INT8, 32+4 calls, 2048", "m4-max", phi(36), 117.7 + 5.1},
    {"Phi-4-mini", "INT8, 11+4 calls, 2048", "m4-max", phi(15), 64.7 + 5.1},
    {"Phi-4-mini", "INT8, 6+4 calls, 2048", "m4-max", phi(10), 57.0 + 5.1},
    {"Phi-4-mini", "INT8, 4+4 calls, 2048", "m4-max", phi(8), 53.04 + 5.1},
    {"Qwen3.5-4B", "LUT 4+6, 9 calls", "m4", {2560 * kMB, 0.9, 40 * kMB, 1, 9, 2560}, 1000 / 18.63},
    {"Qwen3.5-4B", "LUT 4+6, 9 calls", "m6", {2560 * kMB, 0.9, 40 * kMB, 1, 9, 2560}, 1000 / 34.72},
    {"Qwen3-4B", "fp16, 768", "m5-pro", qwen3_4b(768), 1000 / 15.03},
    {"Qwen3-4B", "fp16, 2304", "m5-pro", qwen3_4b(2304), 1000 / 13.70},
    {"Qwen3-4B", "fp16, 4352", "m5-pro", qwen3_4b(4352), 1000 / 10.42},
    {"Qwen3-4B", "fp16, 16640", "m5-pro", qwen3_4b(16640), 1000 / 5.61},
    {"ZAYA1-8B", "INT8, 83 calls", "m4-max", {8600 * kMB, 1, 84 * kMB, 2, 83, 2048}, 1000 / 8.59},
    {"ZAYA1-8B", "LUT4 experts, 83 calls", "m4-max", {4600 * kMB, 0.8, 84 * kMB, 2, 83, 2048}, 1000 / 9.25},
    // Not in the fit.
    {"Phi-4-mini", "INT8, 7+4 calls, 2048", "m4-max", phi(11), 58.75 + 5.1, false},
    {"Phi-4-mini", "INT8, 5+4 calls, 2048", "m4-max", phi(9), 54.96 + 5.1, false},
    {"Qwen3.5-4B", "LUT4, 5 calls", "m4", {2100 * kMB, 0.8, 40 * kMB, 1, 5, 2560}, 1000 / 22.62, false},
    {"Qwen3.5-4B", "LUT4, 5 calls", "m6", {2100 * kMB, 0.8, 40 * kMB, 1, 5, 2560}, 1000 / 45.64, false},
    {"Qwen3-4B", "fp16, 1280", "m5-pro", qwen3_4b(1280), 1000 / 14.56, false},
    {"Qwen3-4B", "fp16, 8448", "m5-pro", qwen3_4b(8448), 1000 / 7.47, false},
    // Weight bytes from the configuration of its text part, Qwen3-1.7B.
    {"Qwen3-VL-2B",
     "INT8, 4 calls, 2048",
     "a19-pro",
     {1720 * kMB, 1, kv(28, 8, 128, 2048), 1, 4, 2048},
     1000 / 24.0,
     false},
};

const Chip& chip_of(const CalibrationPoint& point) { return *find_target(point.chip).chip; }

// Least squares of relative errors in the two unknowns a = ms per cache byte, w = ms per channel and call.
CostConstants fit(std::span<const CalibrationPoint* const> points) {
  double aa = 0, aw = 0, ww = 0, ay = 0, wy = 0;
  for (const CalibrationPoint* p : points) {
    const Chip& chip = chip_of(*p);
    const TokenCost fixed = token_cost(p->work, chip, {1e300, 0});  // weights and floors
    const double a = p->work.kv_factor * p->work.kv_bytes / p->measured_ms,
                 w = p->work.calls * p->work.hidden / p->measured_ms,
                 y = (p->measured_ms - fixed.total_ms()) / p->measured_ms;
    aa += a * a;
    aw += a * w;
    ww += w * w;
    ay += a * y;
    wy += w * y;
  }
  const double determinant = aa * ww - aw * aw;
  ANEMONE_CHECK(determinant > 0);
  const double ms_per_byte = (ay * ww - wy * aw) / determinant,
               ms_per_channel = (aa * wy - aw * ay) / determinant;
  ANEMONE_CHECK(ms_per_byte > 0 && ms_per_channel > 0);
  return {1e-6 / ms_per_byte, ms_per_channel * 1e3};
}

class ErrorSum {
 public:
  void add(double error) {
    sum_ += std::abs(error);
    ++count_;
    if (std::abs(error) > std::abs(worst_)) worst_ = error;
  }
  FitErrors result() const { return {count_ ? sum_ / count_ : 0, worst_}; }

 private:
  double sum_ = 0, worst_ = 0;
  int count_ = 0;
};

CostFit calibrate() {
  std::vector<const CalibrationPoint*> fitted;
  for (const CalibrationPoint& p : kPoints)
    if (p.fitted) fitted.push_back(&p);
  CostFit out;
  out.constants = fit(fitted);
  ErrorSum in, left, model, outside;
  for (const CalibrationPoint& p : kPoints) {
    if (!p.fitted) {
      outside.add(relative_error(p, out.constants));
      continue;
    }
    in.add(relative_error(p, out.constants));
    std::vector<const CalibrationPoint*> others, strangers;
    for (const CalibrationPoint* other : fitted) {
      if (other != &p) others.push_back(other);
      if (other->model != p.model) strangers.push_back(other);
    }
    left.add(relative_error(p, fit(others)));
    model.add(relative_error(p, fit(strangers)));
  }
  out.in_sample = in.result();
  out.left_out = left.result();
  out.model_out = model.result();
  out.outside = outside.result();
  return out;
}

}  // namespace

double call_floor_us(const Chip& chip) { return chip.call_us.known() ? chip.call_us.mid() : 90; }

TokenCost token_cost(const TokenWork& work, const Chip& chip, const CostConstants& constants) {
  TokenCost cost;
  cost.weights_ms = work.weight_bytes / (chip.weight_read.mid() * 1e6 * work.efficiency);
  cost.kv_ms = work.kv_factor * work.kv_bytes / (constants.activation_gbps * 1e6);
  cost.calls_ms = work.calls * (call_floor_us(chip) + constants.us_per_channel * work.hidden) / 1e3;
  return cost;
}

std::span<const CalibrationPoint> calibration_points() { return kPoints; }

double relative_error(const CalibrationPoint& point, const CostConstants& constants) {
  return token_cost(point.work, chip_of(point), constants).total_ms() / point.measured_ms - 1;
}

const CostFit& calibration() {
  static const CostFit once = calibrate();
  return once;
}

}  // namespace anemone
