// `anemone check`: will it stay on the Neural Engine?
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "check/check.h"
#include "check/report.h"
#include "check/wrap.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/source.h"
#include "cli/version.h"
#include "coreml/device_report.h"
#include "page/page.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string path, target, html, golden, explain, explain_op;
  int64_t os = kNotSaid;
  bool strict = false;
  bool device = false;
  std::string save, compare, units = "ane";
};

// "S01 to S13, …": the ids by their letters.
std::string known_rules() {
  std::string known, first, last;
  const auto close = [&] {
    if (!first.empty())
      known += (known.empty() ? "" : ", ") + (first == last ? first : first + " to " + last);
  };
  for (const auto& group : rule_groups())
    for (const Rule& rule : group) {
      if (first.empty() || first[0] != rule.id[0]) {
        close();
        first = rule.id;
      }
      last = rule.id;
    }
  close();
  return known;
}

// "Q02 A  Its title": the rules in the order of their groups.
std::string all_rules_text() {
  std::string out;
  for (const auto& group : rule_groups())
    for (const Rule& rule : group)
      out += wrap(fmt::format("{} {}  ", rule.id, static_cast<char>(rule.grade)), rule.title, 100);
  return out + "\nA, B, C and X are the evidence: anemone check --explain RULE shows it.\n";
}

std::string all_rules_json() {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& group : rule_groups())
    for (const Rule& rule : group) out.push_back(nlohmann::ordered_json::parse(explain_rule_json(rule)));
  return json_text(out, 2) + "\n";
}

int explain(const std::string& id, const Common& common) {
  if (id == "all") {
    fmt::print("{}", common.json ? all_rules_json() : all_rules_text());
    return 0;
  }
  const Rule* rule = find_rule(id);
  if (!rule) throw errorf("there is no such rule").found("'" + id + "'").expected(known_rules() + ", or all");
  fmt::print("{}", common.json ? explain_rule_json(*rule) : explain_rule(*rule));
  return 0;
}

// What Core ML said on this machine, or on another one; nothing where nobody asked.
std::optional<DeviceReport> device_of(const Args& args, const Common& common) {
  if (args.device && !args.compare.empty()) throw errorf("--device or --compare, one at a time");
  if (!args.save.empty() && !args.device) throw errorf("--save goes with --device");
  if (!args.compare.empty()) return DeviceReport::parse(read_text(args.compare), args.compare);
  if (!args.device) return std::nullopt;
  DeviceReport out = examine_device(args.path, core_ml_options(parse_compute_units(args.units), common));
  out.tool = std::string("anemone ") + kVersion;
  if (!args.save.empty()) {
    write_page(args.save, out.json());
    if (!common.quiet) fmt::print(stderr, "{} written\n", args.save);
  }
  return out;
}

// The report with what the device says, for programs.
std::string with_device(const std::string& json, const CheckReport& report, const DeviceReport& device) {
  nlohmann::ordered_json out = nlohmann::ordered_json::parse(json);
  const DeviceAgreement seen = agreement(report, device);
  out["device"] = {{"chip", device.device.chip},
                   {"system", device.device.system},
                   {"build", device.device.build},
                   {"compute_units", compute_units_name(device.units)},
                   {"known", seen.known},
                   {"agreed", seen.agreed},
                   {"agreement", seen.share()},
                   {"convs", seen.convs},
                   {"convs_on_ane", seen.convs_on_ane},
                   {"missing_functions", seen.missing}};
  return json_text(out, 2) + "\n";
}

int run_check(const Args& args, const Common& common) {
  if (!args.explain.empty()) return explain(args.explain, common);
  if (args.path.empty())
    throw errorf("nothing to check")
        .hint("anemone check BUNDLE, or --explain RULE; 'anemone check --help' shows more");
  NamedArrays golden;
  // A number that is no system is refused by the check; 0 would mean that none was given.
  const int64_t os = args.os == kNotSaid ? 0 : args.os == 0 ? -1 : std::clamp<int64_t>(args.os, -1, 1000);
  CheckOptions options{.target = args.target, .os = static_cast<int>(os)};
  if (!args.golden.empty()) {
    golden = parse_npz(open_input(args.golden)->bytes(), args.golden);
    options.golden = &golden;
  }
  const std::optional<DeviceReport> device = device_of(args, common);
  if (device) options.truth = &*device;
  const CheckReport report = check(args.path, options);
  if (!args.explain_op.empty()) {
    const std::string text = explain_op(report, args.explain_op);
    fmt::print("{}", common.json ? explain_op_json(report, args.explain_op) : text);
    return 0;
  }
  if (!args.html.empty()) {
    write_page(args.html, report_html(report, args.strict));
    if (!common.quiet) fmt::print(stderr, "{} written: open it in a browser\n", args.html);
  }
  if (common.json)
    fmt::print("{}", device ? with_device(report_json(report, args.strict), report, *device)
                            : report_json(report, args.strict));
  else
    fmt::print("{}", common.out.painted(common.quiet ? verdict_text(report, args.strict)
                                                     : report_text(report, {.verbose = common.verbose,
                                                                            .strict = args.strict})));
  if (!device) return report.failed(args.strict) ? 1 : 0;
  const DeviceAgreement seen = agreement(report, *device);
  if (!common.json && !common.quiet) fmt::print("\n{}", agreement_text(report, *device, common.verbose));
  if (!common.json && common.quiet) fmt::print("{}", conv_text(seen));
  return seen.all_on_ane() ? 0 : 1;
}

constexpr std::string_view kExamples =
    "  anemone check smollm2 --target iphone --html report.html\n"
    "  anemone check --explain Q02";

}  // namespace

extern const Command kCheck{
    "check", "Predict what stays on the Neural Engine, and what does not and why", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("PACKAGE|BUNDLE", args->path, "an .mlpackage, .mlmodelc, .mlmodel or bundle", false)
          .takes(kPackage | kBundle);
      o.text("--target", "CHIP", args->target,
             "m1, m4-max, a17-pro, phone, ipad, mac, \"iPhone 15 Pro\", ios18, macos15 … (a bundle's own "
             "target, or m4)");
      o.integer("--os", "N", args->os, "version of its system: 18 is iOS 18 and macOS 15");
      o.flag("--strict", args->strict, "warnings fail too");
      o.text("--html", "FILE", args->html, "also write the report as a page").writes();
      o.text("--golden", "NPZ", args->golden, "values of a golden run, for the rules about numbers")
          .streams();
      o.text("--explain", "RULE", args->explain,
             "print a rule with its evidence and sources; all lists the rules");
      o.text("--explain-op", "NAME", args->explain_op,
             "why an operation is placed where it is, and what would move it");
      o.group("What the device says");
      o.flag("--device", args->device,
             "ask Core ML on this Mac where every operation goes, and run each function");
      o.text("--compute-units", "UNITS", args->units, "with --device: ane (default), gpu, all or cpu")
          .one_of(compute_units_names());
      o.text("--save", "FILE", args->save, "with --device: write what was seen as JSON").writes();
      o.text("--compare", "FILE", args->compare, "compare the prediction with such a file").streams();
      return [args](const Common& common) { return run_check(*args, common); };
    }};

}  // namespace anemone::cli
