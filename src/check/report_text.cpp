#include <algorithm>
#include <set>

#include "base/error.h"
#include "check/report.h"
#include "check/wrap.h"

namespace anemone {
namespace {

using placement::PlacedOp;
using placement::Processor;

std::string plural(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string counts_text(int errors, int warnings, int hints) {
  std::string out;
  const auto add = [&](int count, const char* what) {
    if (count > 0) out += (out.empty() ? "" : ", ") + plural(count, what);
  };
  add(errors, "error");
  add(warnings, "warning");
  add(hints, "hint");
  return out.empty() ? "nothing" : out;
}

// A name that takes no more than `most` columns: the middle of a long one goes.
std::string shortened(const std::string& name, size_t most) {
  if (name.size() <= most) return name;
  return name.substr(0, most / 2) + "…" + name.substr(name.size() - (most - most / 2 - 1));
}

std::string padded(const std::string& text, size_t width) {
  const size_t have = columns(text);
  return have < width ? text + std::string(width - have, ' ') : text;
}

std::string summary(const CheckReport& r) {
  const bool unknown = !r.unknown().empty();
  size_t longest = 8, functions = 8;
  for (const PackageReport& p : r.packages) {
    longest = std::max(longest, std::min<size_t>(p.name.size(), unknown ? 16 : 25));
    for (const FunctionReport& f : p.functions)
      functions = std::max(functions, std::min<size_t>(f.name.size(), 14));
  }
  std::string out = fmt::format("  {:<{}}  {:<{}} {:>11}{} {:>12} {:>9} {:>9} {:>9}\n", "package", longest,
                                "function", functions, "ops on ANE", unknown ? "  unknown" : "",
                                "time on ANE", "est. ms", "segments", "switches");
  for (const PackageReport& p : r.packages)
    for (const FunctionReport& f : p.functions)
      out += fmt::format(
          "  {}  {} {:>11}{} {:>11.1f}% {:>9.3f} {:>9} {:>9}\n", padded(shortened(p.name, longest), longest),
          padded(shortened(f.name, functions), functions),
          fmt::format("{}/{}", f.placed.ane_ops, f.placed.ops.size()),
          unknown ? fmt::format("{:>9}", f.placed.unknown_ops) : "", 100 * f.placed.ane_share(), f.placed.ms,
          f.placed.segments.size(), f.placed.switches);
  if (unknown) out += "  time on ANE: of the estimated time of the operations whose device is known\n";
  return out;
}

// The kinds that nobody probed, all in one place.
std::string unknown_note(const CheckReport& r, size_t width) {
  const std::string note = r.unknown_note();
  if (note.empty()) return "";
  return fmt::format("\n{}\n", device_text(placement::Device::unknown)) + wrap("  ", note, width);
}

// " (1 refused, 2 unknown)", or nothing.
std::string residency_note(const Residency& r) {
  std::string out;
  if (r.refused() > 0) out = fmt::format("{} refused", r.refused());
  if (r.unknown > 0) out += fmt::format("{}{} unknown", out.empty() ? "" : ", ", r.unknown);
  return out.empty() ? out : " (" + out + ")";
}

// "conv on ANE: 210/210", and everything else in one paragraph, what is missing first.
std::string residency(const FunctionReport& f) {
  std::string out, rest;
  std::vector<std::pair<std::string, Residency>> kinds(f.residency.begin(), f.residency.end());
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    const bool a_short = a.second.on_ane < a.second.all, b_short = b.second.on_ane < b.second.all;
    return a_short != b_short ? a_short : a.second.all > b.second.all;
  });
  for (const auto& [kind, r] : kinds) {
    const bool main = kind == "conv" || kind == "linear";
    const std::string note = residency_note(r);
    if (main)
      out += fmt::format("  {} on ANE: {}/{}{}\n", kind, r.on_ane, r.all, note);
    else
      rest += fmt::format("{}{} {}/{}{}", rest.empty() ? "" : ", ", kind, r.on_ane, r.all, note);
  }
  if (!rest.empty()) out += wrap("  others: ", rest, 100);
  size_t taken = 0;
  for (const auto& [kind, r] : kinds) taken += static_cast<size_t>(r.taken);
  if (!f.placed.uses_ane() && taken > 0)
    out += fmt::format("  the engine takes {} of {} operations, but they do not pay for the switch\n", taken,
                       f.placed.ops.size());
  return out;
}

std::string segments(const FunctionReport& f) {
  if (f.placed.segments.size() < 2) return "";
  std::string out;
  size_t shown = 0;
  for (const placement::Segment& s : f.placed.segments) {
    if (++shown > 8) {
      out += fmt::format("    … and {} more\n", f.placed.segments.size() - 8);
      break;
    }
    const size_t names = s.unknown > 0 ? 22 : 30;
    out += fmt::format("    {}  {:>5} ops {:>9.3f} ms  {} … {}{}\n", s.ane ? "ANE" : "CPU", s.last - s.first,
                       s.ms, shortened(f.placed.ops[s.first].op->name(), names),
                       shortened(f.placed.ops[s.last - 1].op->name(), names),
                       s.unknown > 0 ? fmt::format(" ({} unknown)", s.unknown) : "");
  }
  return "  segments\n" + out;
}

std::string operations(const FunctionReport& f) {
  // "unknown (not probed)" takes its room from the names.
  const size_t device = f.placed.unknown_ops > 0 ? device_text(placement::Device::unknown).size() : 4;
  const size_t names = 38 - device;
  std::string out = fmt::format("  {:<{}} {:<20} {:>10} {:>10}  {:<{}} {}\n", "operation", names, "kind",
                                "ANE ms", "CPU ms", "on", device, f.truth.empty() ? "" : "Core ML");
  for (const PlacedOp& op : f.placed.ops) {
    const placement::Offer& ane = op.cost[Processor::ane];
    const char* mark = op.cost.extrapolated.empty() ? " " : "~";
    const auto truth = f.truth.find(op.op->name());
    out += fmt::format("  {} {} {:>10} {}{:>9.5f}  {:<{}} {}\n",
                       padded(shortened(op.op->name(), names), names), padded(shortened(op.op->type, 20), 20),
                       ane.supported ? fmt::format("{}{:.5f}", mark, ane.ms) : std::string(ane.rule), mark,
                       op.cost.cpu_ms(), device_text(op.device()), device,
                       truth == f.truth.end() ? "" : truth->second);
  }
  return out;
}

// What the unknown operations mean for the others.
std::string unknown_text(const placement::PlacedFunction& placed) {
  const size_t others = placed.ops.size() - placed.unknown_ops,
               least = placement::if_refused(placed, &placement::PlacedOp::unknown).ane_ops;
  const std::string lead =
      fmt::format("  {} {}; ", placed.unknown_ops, device_text(placement::Device::unknown));
  if (least == placed.ane_ops)
    return lead +
           fmt::format("whether the engine takes them or not, {} of {} others are on it\n", least, others);
  return lead + fmt::format("if the engine refuses them, {} of {} others are on it, not {}\n", least, others,
                            placed.ane_ops);
}

std::string function_text(const PackageReport& p, const FunctionReport& f, bool verbose) {
  std::string out = fmt::format("\n{}, {}\n{}{}", p.name, f.name, residency(f), segments(f));
  if (!f.truth.empty())
    out += fmt::format("  Core ML's own plan is known for {} operations and differs for {}\n", f.truth.size(),
                       f.differing());
  if (f.placed.unknown_ops > 0) out += unknown_text(f.placed);
  if (f.placed.extrapolated > 0)
    out += fmt::format("  {} of {} estimates lie outside what was probed{}\n", f.placed.extrapolated,
                       f.placed.ops.size(), verbose ? " (~)" : "");
  return verbose ? out + operations(f) : out;
}

// Findings of one rule are told together.
struct Group {
  const Rule* rule;
  std::vector<const Finding*> all;
};

std::vector<Group> grouped(const CheckReport& r, Level level) {
  std::vector<Group> out;
  for (const Finding& f : r.findings) {
    if (f.level != level) continue;
    auto it = std::find_if(out.begin(), out.end(), [&](const Group& g) { return g.rule == f.rule; });
    if (it == out.end()) it = out.insert(out.end(), {f.rule, {}});
    it->all.push_back(&f);
  }
  return out;
}

// Where it was found, as far as there is more than one place.
std::string place(const Finding& f, const CheckReport& r) {
  std::string out;
  if (r.packages.size() > 1 && !f.package.empty()) out = f.package;
  const bool many =
      std::any_of(r.packages.begin(), r.packages.end(), [](const auto& p) { return p.functions.size() > 1; });
  if (many && !f.function.empty()) out += (out.empty() ? "" : ", ") + f.function;
  if (!f.op.empty()) out += fmt::format("{}{} '{}'", out.empty() ? "" : ", ", f.op_type, f.op);
  if (f.layer >= 0) out += fmt::format(", layer {}", f.layer);
  return out.empty() ? out : out + ": ";
}

std::string finding_text(const Group& g, const CheckReport& r, const TextOptions& options) {
  std::string out = wrap(fmt::format("  {} {}  ", g.rule->id, static_cast<char>(g.rule->grade)),
                         g.rule->title, options.width);
  const size_t most = options.verbose ? g.all.size() : 3;
  for (size_t i = 0; i < std::min(most, g.all.size()); ++i)
    out += wrap("         - ", place(*g.all[i], r) + g.all[i]->message, options.width);
  if (g.all.size() > most) {
    std::set<int> layers;
    for (const Finding* one : g.all)
      if (one->layer >= 0) layers.insert(one->layer);
    out += fmt::format("         - and {} more{}\n", g.all.size() - most,
                       layers.size() > 1 ? fmt::format(", in {} layers together", layers.size()) : "");
  }
  const auto row = [&](std::string_view lead, std::string_view text) {
    if (!text.empty()) out += wrap(lead, text, options.width);
  };
  if (g.all[0]->level != Level::hint) {
    row("         why: ", g.rule->why);
    row("         cost: ", g.rule->cost);
  }
  row("         do: ", g.rule->fix);
  return out;
}

}  // namespace

std::string report_text(const CheckReport& r, const TextOptions& options) {
  std::string out = wrap("",
                         fmt::format("{}: {}, for {}", r.path.string(),
                                     plural(static_cast<int>(r.packages.size()), "package"), r.target_text),
                         options.width);
  out += wrap("",
              "Core ML's placement, predicted. The milliseconds are the estimates by which Core ML chooses; "
              "they are "
              "not times. anemone plan predicts times.",
              options.width) +
         "\n" + summary(r);
  for (const PackageReport& p : r.packages)
    for (const FunctionReport& f : p.functions) out += function_text(p, f, options.verbose);
  out += unknown_note(r, options.width);
  for (const Level level : {Level::error, Level::warning, Level::hint}) {
    const std::vector<Group> groups = grouped(r, level);
    if (groups.empty()) continue;
    out += fmt::format("\n{}s\n", level_name(level));
    for (const Group& g : groups) out += finding_text(g, r, options);
  }
  return out + "\n" + verdict_text(r, options.strict);
}

std::string verdict_text(const CheckReport& r, bool strict) {
  const int errors = r.count(Level::error), warnings = r.count(Level::warning), hints = r.count(Level::hint);
  return fmt::format("{}: {}{}\n", r.verdict(strict), counts_text(errors, warnings, hints),
                     r.unknown().empty() ? "" : "; some operations are unknown (not probed)");
}

}  // namespace anemone
