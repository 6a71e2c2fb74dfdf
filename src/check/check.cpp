#include "check/check.h"

#include <algorithm>
#include <set>

#include "anemone/package.h"
#include "base/error.h"
#include "check/bundle_packages.h"
#include "mil/opset.h"
#include "placement/product.h"
#include "placement/rates.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;
using placement::OpView;

// iOS's number of a version of a target's system: macOS 15 is iOS 18, from 26 on they are one.
int system_number(const Target& target, int version) {
  if (target.device == DeviceClass::mac && version <= 15) return version + 3;
  return version;
}

std::string system_text(int os) {
  return os >= 26 ? fmt::format("iOS and macOS {}", os) : fmt::format("iOS {} / macOS {}", os, os - 3);
}

// iOS's numbers of the systems that run ML Programs, one for each opset.
constexpr int kSystems[] = {15, 16, 17, 18, 26};

int needed_system(const std::vector<PackageReport>& packages) {
  int os = 15;
  for (const PackageReport& p : packages)
    for (const auto& f : p.program->functions) {
      os = std::max(os, kSystems[static_cast<size_t>(f->opset)]);
    }
  return os;
}

bool has_flexible_inputs(const Function& f) {
  return std::any_of(f.inputs.begin(), f.inputs.end(),
                     [](const auto& input) { return input->type.is_tensor() && !input->type.fixed(); });
}

// The default shape of each flexible input.
std::map<std::string, std::vector<int64_t>> default_shapes(const Package& package, const Function& f) {
  std::map<std::string, std::vector<int64_t>> out;
  try {
    for (const Feature& feature : package.description.interface(f.name).inputs) {
      const ArrayFeature& a = feature.type.array;
      if (!a.shape.empty())
        out[feature.name] = a.shape;
      else if (!a.enumerated.empty())
        out[feature.name] = a.enumerated[0];
    }
  } catch (const Error&) {
    // No description of that function: its sizes stay unknown.
  }
  return out;
}

PackageReport load(std::shared_ptr<const Package> package) {
  PackageReport out;
  out.path = package->path;
  out.name = (package->path.has_filename() ? package->path : package->path.parent_path()).filename().string();
  out.package = package;
  const auto& functions = package->program.functions;
  if (std::any_of(functions.begin(), functions.end(),
                  [](const auto& f) { return has_flexible_inputs(*f); })) {
    auto fixed = std::make_shared<Program>(package->program.clone());
    for (const auto& f : fixed->functions) placement::fix_shapes(*f, default_shapes(*package, *f));
    out.program = fixed;
  } else {
    out.program = std::shared_ptr<const Program>(package, &package->program);
  }
  std::set<std::string> files;
  for (const auto& f : out.program->functions)
    for (const auto& op : f->body.ops) {
      const auto take = [&](const Constant* c) {
        const auto* blob = c ? std::get_if<Blob>(&c->data) : nullptr;
        if (blob && blob->file && files.insert(blob->file->path()).second)
          out.weight_bytes += blob->file->size();
      };
      if (!placement::is_data(*op)) continue;
      for (const auto& [name, constant] : op->attributes) take(&constant);
      for (const Input& input : op->inputs)
        for (const Binding& binding : input.bindings) take(binding.literal.get());
    }
  return out;
}

FunctionReport report_of(const Function& f, const PackageReport& package, const Chip& chip,
                         const CheckOptions& options) {
  FunctionReport out;
  out.name = f.name;
  out.placed = placement::place_function(f, chip);
  for (const auto& op : out.placed.ops) {
    if (const int layer = package.values.layer_of(op.op->name()); layer >= 0)
      out.layers[op.op->name()] = layer;
    Residency& r = out.residency[op.op->type];
    ++r.all;
    r.taken += op.cost[placement::Processor::ane].supported && !op.unknown();
    r.on_ane += op.on_ane();
    r.unknown += op.unknown();
  }
  if (options.truth) out.truth = options.truth->devices(package.path, f.name);
  return out;
}

// Columns that the widest product with a constant weight works on.
int64_t tokens_of(const placement::PlacedFunction& placed) {
  double most = 1;
  for (const auto& op : placed.ops) {
    if (!placement::is_product(*op.op)) continue;
    const OpView view(*op.op);
    if (const auto projection = placement::projection_of(view)) most = std::max(most, projection->columns);
  }
  return static_cast<int64_t>(std::min(most, 1e15));
}

std::vector<WeightSubject> weights_of(const Program& program) {
  std::vector<WeightSubject> out;
  std::set<std::pair<const void*, uint64_t>> seen;  // functions share blobs
  for (const auto& f : program.functions)
    for (const auto& op : f->body.ops) {
      if (placement::is_data(*op)) continue;
      for (const Input& input : op->inputs)
        for (const Binding& binding : input.bindings) {
          if (!binding.value || !binding.value->producer || !placement::is_constant(*binding.value)) continue;
          const Operation& maker = *binding.value->producer;
          if (maker.type == "const") continue;
          placement::WeightForm form = placement::weight_form(maker);
          const auto* blob = form.data ? std::get_if<Blob>(&form.data->data) : nullptr;
          if (blob && !seen.insert({blob->file.get(), blob->record_offset}).second) continue;
          double elements = 1;
          for (const int64_t d : form.dims) elements *= static_cast<double>(d);
          out.push_back({binding.value, op.get(), input.name, f->name, std::move(form), elements});
        }
    }
  return out;
}

// Operations that the engine refuses, under the rule that says so.
void find_refusals(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    const placement::Offer& offer = op.cost[placement::Processor::ane];
    if (offer.supported) continue;
    const Rule* rule = find_rule(offer.rule);
    if (!rule) continue;
    out.begin(*rule, &s.package, s.function.name);
    // Integers may be at the very edge, where they cost one switch.
    const bool edge = rule->id == "D02" && !s.index.in_the_middle(*op.op);
    out.add(edge ? Level::warning : rule->level, *op.op, offer.why + (edge ? " (at the edge)" : ""));
  }
}

// Subjects refer to each other, so they are made once and stay where they are.
struct Subjects {
  BundleSubject bundle;
  std::vector<std::unique_ptr<PackageSubject>> packages;
  std::vector<std::unique_ptr<FunctionIndex>> indices;
  std::vector<std::unique_ptr<FunctionSubject>> functions;
};

void make_subjects(const CheckReport& report, Subjects& s) {
  for (const PackageReport& p : report.packages) {
    s.bundle.weight_bytes += p.weight_bytes;
    s.packages.push_back(std::make_unique<PackageSubject>(PackageSubject{s.bundle,
                                                                         p.name,
                                                                         p.values,
                                                                         *p.package,
                                                                         *p.program,
                                                                         p.weight_bytes,
                                                                         weights_of(*p.program),
                                                                         {},
                                                                         verify(p.package->program),
                                                                         description_faults(*p.package)}));
    PackageSubject& package = *s.packages.back();
    s.bundle.packages.push_back(&package);
    for (const FunctionReport& f : p.functions) {
      const Function& function = *p.program->find_function(f.name);
      s.indices.push_back(std::make_unique<FunctionIndex>(function, f.placed));
      const Function* original = p.package->program.find_function(f.name);
      s.functions.push_back(std::make_unique<FunctionSubject>(
          FunctionSubject{package, function, f.placed, *s.indices.back(), tokens_of(f.placed),
                          original && has_flexible_inputs(*original)}));
      package.functions.push_back(s.functions.back().get());
    }
  }
}

std::vector<Finding> apply_rules(const Subjects& s) {
  Findings out;
  for (const auto& f : s.functions) find_refusals(*f, out);
  for (const auto& group : rule_groups())
    for (const Rule& rule : group) {
      for (const auto& f : s.functions)
        if (rule.in_function) {
          out.begin(rule, &f->package, f->function.name);
          rule.in_function(*f, out);
        }
      for (const auto& p : s.packages)
        if (rule.in_package) {
          out.begin(rule, p.get());
          rule.in_package(*p, out);
        }
      out.begin(rule);
      if (rule.in_bundle) rule.in_bundle(s.bundle, out);
    }
  std::vector<Finding> all = out.take();
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.level > b.level; });
  return all;
}

void run(CheckReport& report, const BundleInfo* info, const CheckOptions& options) {
  const std::string wanted = !options.target.empty()         ? options.target
                             : info && !info->target.empty() ? info->target
                                                             : "m4";
  report.target = find_target(wanted);
  const int version = options.os ? options.os : report.target.os;
  report.os = version ? system_number(report.target, version) : std::max(18, needed_system(report.packages));
  if (std::find(std::begin(kSystems), std::end(kSystems), report.os) == std::end(kSystems))
    throw errorf("there is no such system, or none that runs ML Programs")
        .found(fmt::format("version {}", version))
        .expected("iOS 15, 16, 17, 18 or 26; macOS 12, 13, 14, 15 or 26");
  const Chip& chip = *report.target.chip;
  report.target_text = fmt::format(
      "{}{} ({}), {}",
      report.target.oldest ? "every " + std::string(device_name(report.target.device)) + " from " : "",
      chip.name, placement::rates_for(chip.platform).platform, system_text(report.os));
  for (PackageReport& p : report.packages)
    for (const auto& f : p.program->functions) p.functions.push_back(report_of(*f, p, chip, options));
  Subjects subjects;
  subjects.bundle.target = report.target;
  subjects.bundle.os = report.os;
  subjects.bundle.info = info;
  subjects.bundle.golden = options.golden;
  make_subjects(report, subjects);
  report.findings = apply_rules(subjects);
}

}  // namespace

int FunctionReport::differing() const {
  int count = 0;
  for (const auto& op : placed.ops)
    if (const auto it = truth.find(op.op->name()); it != truth.end() && !op.unknown())
      count += it->second != placement::device_text(op.device());
  return count;
}

int CheckReport::count(Level level) const {
  return static_cast<int>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.level == level; }));
}

int CheckReport::count(Level level, const std::string& package) const {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(), [&](const Finding& f) {
    return f.level == level && f.package == package;
  }));
}

std::map<std::string, int> CheckReport::unknown() const {
  std::map<std::string, int> out;
  for (const PackageReport& p : packages)
    for (const FunctionReport& f : p.functions)
      for (const auto& [kind, r] : f.residency)
        if (r.unknown > 0) out[kind] += r.unknown;
  return out;
}

std::string CheckReport::unknown_note() const {
  std::string kinds;
  int all = 0;
  for (const auto& [kind, n] : unknown()) {
    kinds +=
        fmt::format("{}{} ({}{})", kinds.empty() ? "" : ", ", kind, n, find_op(kind) ? "" : ", not in MIL");
    all += n;
  }
  if (all == 0) return "";
  return fmt::format(
      "{} operation{} not probed: {}. No table or source that anemone has shows where Core ML puts {}. {} "
      "counted neither for the ANE nor for the CPU; the segments are those that result if the engine takes "
      "{}.",
      all, all == 1 ? "" : "s", kinds, all == 1 ? "this kind" : "these kinds",
      all == 1 ? "It is" : "They are", all == 1 ? "it" : "them");
}

std::string_view CheckReport::verdict(bool strict) const {
  if (failed(strict)) return "failed";
  return count(Level::warning) > 0 || !unknown().empty() ? "passed" : "clean";
}

bool CheckReport::failed(bool strict) const {
  return count(Level::error) > 0 || (strict && count(Level::warning) > 0);
}

CheckReport check_package(std::shared_ptr<const Package> package, const CheckOptions& options) {
  CheckReport report;
  report.path = package->path;
  report.packages.push_back(load(std::move(package)));
  run(report, nullptr, options);
  return report;
}

CheckReport check(const fs::path& path, const CheckOptions& options) {
  if (!is_bundle(path)) {
    CheckReport report = check_package(open_package(path), options);
    report.path = path;
    return report;
  }
  CheckReport report;
  report.path = path;
  report.bundle = true;
  const BundleInfo info = BundleInfo::read(path);
  const std::vector<std::string> names = info.packages();
  auto packages = open_packages(info, path);
  for (size_t i = 0; i < names.size(); ++i) {
    report.packages.push_back(load(std::move(packages[i])));
    PackageReport& last = report.packages.back();
    last.values = KnownValues(info, names[i], *last.program);
  }
  run(report, &info, options);
  return report;
}

}  // namespace anemone
