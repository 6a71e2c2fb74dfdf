#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/staged.h"
#include "cli/format.h"

namespace anemone::cli {
namespace {

constexpr size_t kLongest = 12;  // single steps in the table

double share(double ms, double of) { return of > 0 ? 100 * ms / of : 0; }

std::string line(const std::string& kind, const std::string& name, int64_t count, double ms, double all) {
  return fmt::format("  {:<20} {:<32} {:>8} {:>10.2f} {:>6.1f}%\n", one_line(kind, 20), one_line(name, 32),
                     count ? fmt::format("{}", count) : "", ms, share(ms, all));
}

}  // namespace

void ProfileFlags::declare(Options& o) {
  o.flag("--profile", table, "print where the time goes: a table of the steps");
  o.text("--trace", "FILE", trace,
         "write what ran when, on which thread, as JSON for Perfetto (ui.perfetto.dev)")
      .writes();
}

void ProfileFlags::start(BackendFlags& backend) {
  if (!table && trace.empty()) return;
  if (!trace.empty()) check_file_output(trace);
  timeline = std::make_shared<Timeline>();
  backend.timeline = timeline;
}

void ProfileFlags::forget() const {
  if (timeline) timeline->clear();
}

void ProfileFlags::finish(const Common& common) const {
  if (!timeline) return;
  if (!trace.empty()) {
    StagedOutput out(trace, true);
    std::ofstream file(out.path(), std::ios::binary);
    file << timeline->trace();
    file.close();
    if (!file) throw errorf("cannot write").at(trace);
    out.commit();
    if (!common.quiet) fmt::print(stderr, "{} written: open it with ui.perfetto.dev\n", trace);
  }
  if (table && !common.json) fmt::print(stderr, "{}", profile_table(*timeline));
}

nlohmann::ordered_json ProfileFlags::json() const {
  auto out = nlohmann::ordered_json::array();
  const double all = timeline->calls_ms();
  for (const Timeline::Total& t : timeline->totals())
    out.push_back({{"kind", t.kind},
                   {"name", t.name},
                   {"count", t.count},
                   {"ms", t.ms},
                   {"share", share(t.ms, all) / 100}});
  return out;
}

std::string profile_table(const Timeline& timeline) {
  const std::vector<Timeline::Total> steps = timeline.totals();
  const double all = timeline.calls_ms();
  std::map<std::string, Timeline::Total> by_kind;
  double sum = 0;
  for (const Timeline::Total& t : steps) {
    Timeline::Total& kind = by_kind[t.kind];
    kind.kind = t.kind;
    kind.count += t.count;
    kind.ms += t.ms;
    sum += t.ms;
  }
  std::vector<Timeline::Total> kinds;
  for (const auto& [name, total] : by_kind) kinds.push_back(total);
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  std::string out =
      fmt::format("  {:<20} {:<32} {:>8} {:>10} {:>7}\n", "kind of step", "", "steps", "ms", "share");
  for (const Timeline::Total& t : kinds) out += line(t.kind, "", t.count, t.ms, all);
  if (sum < all) out += line("between steps", "", 0, all - sum, all);
  out += line("all calls", "", 0, all, all);
  out +=
      fmt::format("\n  {:<20} {:<32} {:>8} {:>10} {:>7}\n", "longest steps", "name", "times", "ms", "share");
  for (size_t i = 0; i < std::min(kLongest, steps.size()); ++i)
    out += line(steps[i].kind, steps[i].name, steps[i].count, steps[i].ms, all);
  if (steps.size() > kLongest) out += fmt::format("  … {} more (--json has all)\n", steps.size() - kLongest);
  return out;
}

}  // namespace anemone::cli
