// CostFit: published decode runs, and the cost of a token fitted to them.
//     const CostFit& c = calibration();
//     TokenCost t = token_cost(work, chip, c.constants);       // ms, by parts
// The form:  t = W / (rate · e)  +  f · KV / A  +  N · (floor + w · hidden)
//     W     weight bytes read per token, `rate` the chip's weight-read figure, e the precision's share of it
//     KV    bytes of the cache at its compiled length; f = 1 when rows are written in place, 2 when a mask blends
//     N     calls per token; floor: what an empty call costs on the chip; hidden: channels that cross a call
// A and w are fitted, to relative errors; everything else is in the table of chips. No constant belongs to a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "target/chips.h"

namespace anemone {

// What one token asks of the device.
struct TokenWork {
  double weight_bytes = 0;
  double efficiency = 1;  // that the weights' precision reaches
  double kv_bytes = 0;
  double kv_factor = 2;
  double calls = 0;
  double hidden = 0;
};

struct TokenCost {
  double weights_ms = 0, kv_ms = 0, calls_ms = 0;

  double total_ms() const { return weights_ms + kv_ms + calls_ms; }
};

struct CostConstants {
  double activation_gbps = 0;  // A
  double us_per_channel = 0;   // w, of every call
};

// µs that an empty call costs: the chip's figure, or that of the M4 where none was published.
double call_floor_us(const Chip& chip);
TokenCost token_cost(const TokenWork& work, const Chip& chip, const CostConstants& constants);

struct CalibrationPoint {
  std::string_view model;  // points of one model leave a fit together
  std::string_view setting;
  std::string_view chip;
  TokenWork work;
  double measured_ms = 0;
  bool fitted = true;  // false: kept out of the fit
};

std::span<const CalibrationPoint> calibration_points();

struct FitErrors {
  double mean = 0, worst = 0;  // of the absolute relative errors; `worst` with its sign
};

struct CostFit {
  CostConstants constants;
  FitErrors in_sample;  // points of the fit
  FitErrors left_out;   // each predicted by a fit without it
  FitErrors model_out;  // each predicted by a fit without any run of its model
  FitErrors outside;    // runs that are not in the fit, most of them of models that are
};

// Fitted once, from the points.
const CostFit& calibration();

// Predicted over measured, minus one.
double relative_error(const CalibrationPoint& point, const CostConstants& constants);

}  // namespace anemone
