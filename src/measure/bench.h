// Bench: how fast a bundle is on this machine: loading, reading a prompt, writing tokens, stage by stage, over contexts
// that are more and more filled.
//     BenchReport r = bench("smollm2", [] { return cpu_backend({}); }, {});
//     r.rows[0].decode_ms;                                   // of a token, the median
// On the device `plan`'s prediction stands beside what was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/calibration.h"
#include "runtime/bundle.h"

namespace anemone {

struct BenchOptions {
  std::vector<int64_t>
      fills;  // tokens before the measured ones; empty: 16, a quarter, a half and most of the context
  int64_t tokens = 32;                                    // written at each of them
  std::string chip;                                       // whose prediction is shown; empty: none
  std::function<bool(const std::string& what)> progress;  // false gives up, with Cancelled
};

struct BenchRow {
  int64_t fill = 0;
  double prefill_tokens_per_s = 0, first_token_s = 0;
  double decode_ms = 0;          // of a token, the median
  std::vector<double> stage_ms;  // of a token, the median, by stage; filling its inputs included
  double predicted_ms = 0;       // by plan's cost of a token; 0: not predicted

  double decode_tokens_per_s() const { return decode_ms > 0 ? 1000 / decode_ms : 0; }
  // Predicted over measured, minus one.
  double error() const { return decode_ms > 0 ? predicted_ms / decode_ms - 1 : 0; }
};

struct BenchReport {
  std::string model;                      // its name
  std::string variant;                    // of the bundle; empty: it has none
  std::string backend, arithmetic, chip;  // chip: of the prediction
  double first_load_s = 0, second_load_s = 0;
  uint64_t weight_bytes = 0;  // read for a token
  double read_gbps = 0;       // what this machine reads from memory; 0: not measured
  std::vector<std::string> stages;
  std::vector<BenchRow> rows;
  std::vector<std::string> remarks;  // of the backend
};

// `make` is called twice: once for a first load, once for what is measured. Error for a bundle that writes no text.
BenchReport bench(const std::filesystem::path& path,
                  const std::function<std::shared_ptr<const Backend>()>& make, const BenchOptions& options);

// What a token of this bundle asks of the device, at its longest context.
TokenWork token_work(const BundleInfo& info, const std::filesystem::path& path);

// Power as macOS's powermetrics prints it ("ANE Power: 812 mW"): the mean of all samples, in watts, by name.
struct PowerUse {
  std::string name;  // "ANE", "CPU", "GPU", "Combined"
  double watts = 0;
  int64_t samples = 0;
};
std::vector<PowerUse> read_power(std::string_view text);

// The watts of everything together; 0 where powermetrics did not say.
double all_watts(const std::vector<PowerUse>& power);
// Gigabytes of weights that a row reads per second.
double read_gbps(const BenchReport& report, const BenchRow& row);

std::string bench_text(const BenchReport& report, const std::vector<PowerUse>& power);
std::string bench_json(const BenchReport& report, const std::vector<PowerUse>& power);
// A page with plots: what was measured over the fills of the context, beside the prediction.
std::string bench_page(const BenchReport& report, const std::vector<PowerUse>& power);

}  // namespace anemone
