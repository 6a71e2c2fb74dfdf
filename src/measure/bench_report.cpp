#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "measure/bench.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

double all_watts(const std::vector<PowerUse>& power) {
  for (const PowerUse& p : power)
    if (p.name == "Combined") return p.watts;
  double sum = 0;
  for (const PowerUse& p : power) sum += p.watts;
  return sum;
}

double read_gbps(const BenchReport& r, const BenchRow& row) {
  return static_cast<double>(r.weight_bytes) * row.decode_tokens_per_s() / 1e9;
}

std::vector<PowerUse> read_power(std::string_view text) {
  std::vector<PowerUse> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t power = line.find(" Power"), colon = line.rfind(": ");
    if (power == std::string_view::npos || colon == std::string_view::npos || !line.ends_with(" mW"))
      continue;
    const std::string number(line.substr(colon + 2));
    char* end_of_number = nullptr;
    const double mw = std::strtod(number.c_str(), &end_of_number);
    if (end_of_number == number.c_str()) continue;
    const std::string name(line.substr(0, power));
    if (name.find(' ') != std::string::npos) continue;  // a core's, a cluster's
    auto it = std::find_if(out.begin(), out.end(), [&](const PowerUse& p) { return p.name == name; });
    if (it == out.end()) it = out.insert(out.end(), {name, 0, 0});
    it->watts += mw / 1000;
    ++it->samples;
  }
  for (PowerUse& p : out) p.watts /= static_cast<double>(p.samples);
  return out;
}

std::string bench_text(const BenchReport& r, const std::vector<PowerUse>& power) {
  std::string out = fmt::format("{}, {} arithmetic{}; load {:.2f} s, again {:.2f} s; weights {}\n\n",
                                r.backend, r.arithmetic, r.variant.empty() ? "" : ", variant " + r.variant,
                                r.first_load_s, r.second_load_s, size_text(r.weight_bytes));
  const bool predicted = !r.chip.empty(), shares = r.read_gbps > 0;
  out += fmt::format("  {:>7}  {:>13}  {:>13}  {:>12}  {:>10}", "filled", "prefill tok/s", "first token s",
                     "decode tok/s", "ms a token");
  out += predicted ? fmt::format("  {:>9}  {:>7}", "plan's ms", "error") : "";
  out += shares ? fmt::format("  {:>6}  {:>6}", "GB/s", "share") : "";
  out += "\n";
  for (const BenchRow& row : r.rows) {
    out += fmt::format("  {:>7}  {:>13.1f}  {:>13.3f}  {:>12.1f}  {:>10.2f}", row.fill,
                       row.prefill_tokens_per_s, row.first_token_s, row.decode_tokens_per_s(), row.decode_ms);
    if (predicted) out += fmt::format("  {:>9.2f}  {:>+6.0f}%", row.predicted_ms, 100 * row.error());
    if (shares)
      out += fmt::format("  {:>6.1f}  {:>5.0f}%", read_gbps(r, row), 100 * read_gbps(r, row) / r.read_gbps);
    out += "\n";
  }
  out += "\n  ms a token, by stage, at the last fill:\n";
  for (size_t s = 0; s < r.stages.size() && !r.rows.empty(); ++s)
    out += fmt::format("    {:<28} {:8.3f}\n", r.stages[s], r.rows.back().stage_ms[s]);
  if (shares)
    out += fmt::format("  this machine reads {:.1f} GB/s from memory with all cores\n", r.read_gbps);
  if (predicted) out += fmt::format("  predicted for the {}\n", r.chip);
  for (const PowerUse& p : power)
    out += fmt::format("  {} power {:.2f} W, mean of {}\n", p.name, p.watts, counted(p.samples, "sample"));
  if (!power.empty() && !r.rows.empty())
    out += fmt::format("  {:.3f} J a token\n", all_watts(power) * r.rows.back().decode_ms / 1000);
  for (const std::string& remark : r.remarks) out += "  " + remark + "\n";
  return out;
}

std::string bench_json(const BenchReport& r, const std::vector<PowerUse>& power) {
  Json out = {{"backend", r.backend},           {"arithmetic", r.arithmetic},
              {"first_load_s", r.first_load_s}, {"second_load_s", r.second_load_s},
              {"weight_bytes", r.weight_bytes}, {"rows", Json::array()}};
  if (!r.variant.empty()) out["variant"] = r.variant;
  if (!r.chip.empty()) out["chip"] = r.chip;
  if (r.read_gbps > 0) out["machine_read_gbps"] = r.read_gbps;
  for (const BenchRow& row : r.rows) {
    Json one = {{"filled", row.fill},
                {"prefill_tokens_per_s", row.prefill_tokens_per_s},
                {"first_token_s", row.first_token_s},
                {"decode_tokens_per_s", row.decode_tokens_per_s()},
                {"decode_ms", row.decode_ms},
                {"read_gbps", read_gbps(r, row)}};
    for (size_t s = 0; s < r.stages.size(); ++s) one["stage_ms"][r.stages[s]] = row.stage_ms[s];
    if (!r.chip.empty()) {
      one["predicted_ms"] = row.predicted_ms;
      one["error"] = row.error();
    }
    out["rows"].push_back(std::move(one));
  }
  for (const PowerUse& p : power) out["power_w"][p.name] = p.watts;
  if (!power.empty() && !r.rows.empty())
    out["joules_per_token"] = all_watts(power) * r.rows.back().decode_ms / 1000;
  if (!r.remarks.empty()) out["backend_remarks"] = r.remarks;
  return json_text(out, 2) + "\n";
}

}  // namespace anemone
