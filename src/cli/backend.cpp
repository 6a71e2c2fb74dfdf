#include "cli/backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"

namespace anemone::cli {
namespace {

constexpr const char* kAll = "both";

// "fp32 (default), fp16 or fast".
std::string choices_text(const std::vector<std::string>& names, const std::string& usual) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    out += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    out += names[i] + (names[i] == usual ? " (default)" : "");
  }
  return out;
}

const char* phase_text(LoadStep::Phase phase) {
  switch (phase) {
    case LoadStep::Phase::compile: return "compiling";
    case LoadStep::Phase::load: return "loading";
    case LoadStep::Phase::warm: return "warming up";
    case LoadStep::Phase::done: return "";
  }
  return "";
}

void declare_backend(Options& o, BackendFlags& flags) {
  o.text("--backend", "NAME", flags.backend, "auto (default): coreml on a Mac, else cpu; --arith takes cpu")
      .one_of({"auto", "coreml", "cpu"});
  o.text("--compute-units", "UNITS", flags.units,
         "what Core ML may use beside the CPU: ane (default), gpu, all, or cpu for the CPU alone")
      .one_of(compute_units_names());
}

}  // namespace

void BackendFlags::declare(Options& o, const std::string& note) {
  const std::vector<std::string> names = arithmetic_names();
  o.text("--arith", "MODE", arith, choices_text(names, usual) + ", of the CPU engine" + note).one_of(names);
  declare_backend(o, *this);
}

void BackendFlags::declare_all(Options& o) {
  all = true;
  std::vector<std::string> names = arithmetic_names();
  std::string help;
  for (const std::string& name : names) help += (help.empty() ? "" : ", ") + name;
  names.emplace_back(kAll);
  o.text("--arith", "MODE", arith, help + " or both (default: fp32 and fp16), of the CPU engine")
      .one_of(names);
  declare_backend(o, *this);
}

bool BackendFlags::core_ml() const {
  if (backend == "coreml" && !arith.empty())
    throw errorf("--arith is for the CPU engine: Core ML computes in fp16").hint("leave out --arith");
  if (backend != "auto") return backend == "coreml";
  const char* preferred = std::getenv("ANEMONE_BACKEND");
  if (preferred && std::string_view(preferred) == "cpu") return false;
  return arith.empty() && core_ml_missing(parse_compute_units(units)).empty();
}

Arithmetic BackendFlags::arithmetic() const { return arithmetics().front(); }

std::vector<Arithmetic> BackendFlags::arithmetics() const {
  if (core_ml()) return {Arithmetic::fp16};
  if (!arith.empty() && arith != kAll) return {parse_arithmetic(arith)};
  if (all) return {Arithmetic::fp32, Arithmetic::fp16};
  return {parse_arithmetic(usual)};
}

MakeBackend BackendFlags::make(const Common& common) const {
  if (!core_ml()) return cpu_backend;
  const ComputeUnits wanted = parse_compute_units(units);
  return [wanted, common, many = in_flight](const PredictOptions& given) {
    CoreMlOptions options = core_ml_options(wanted, common);
    options.in_flight = many;
    options.timeline = given.timeline;
    return coreml_backend(options);
  };
}

std::shared_ptr<const Backend> BackendFlags::open(const Common& common) const {
  return open(common, common.threads);
}

std::shared_ptr<const Backend> BackendFlags::open(const Common& common, int threads) const {
  return make(common)({.arithmetic = arithmetic(), .threads = threads, .timeline = timeline});
}

void BackendFlags::expect_bundle(const std::string& source) const {
  if (backend == "coreml") throw errorf("--backend coreml is for bundles").at(source);
  if (!arith.empty() && parse_arithmetic(arith) != Arithmetic::fp32)
    throw errorf("--arith {} is for bundles", arith).at(source);
}

CoreMlOptions core_ml_options(ComputeUnits units, const Common& common) {
  CoreMlOptions out;
  out.units = units;
  if (common.quiet || common.json) return out;
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  struct Said {  // several threads may load
    std::mutex mutex;
    std::set<std::string> packages;
  };
  auto said = std::make_shared<Said>();
  out.progress = [terminal, said, common](const LoadStep& step) {
    const std::lock_guard lock(said->mutex);
    if (terminal && step.phase == LoadStep::Phase::done)
      fmt::print(stderr, "\r\x1b[K");
    else if (terminal)
      fmt::print(stderr, "\r\x1b[K{} {}, {}: {:.0f} s{}", phase_text(step.phase), step.package, step.function,
                 step.seconds, step.seconds > 5 ? " (the first time can take minutes)" : "");
    else if (step.phase == LoadStep::Phase::compile && step.seconds == 0 &&
             said->packages.insert(step.package).second)
      note(common, fmt::format("Core ML compiles {}: the first time can take minutes", step.package));
    std::fflush(stderr);
    return true;
  };
  return out;
}

void print_fault(const std::optional<NumericFault>& fault, const Common& common) {
  if (fault)
    note(common,
         fmt::format("{} in fp16 arithmetic, first in op '{}'", fault->nan ? "NaN" : "overflow", fault->op));
}

}  // namespace anemone::cli
