#include "cli/backend.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"

namespace anemone::cli {
namespace {

constexpr const char* kAll = "both";

// "fp32 (default) or fp16".
std::string choices_text(const std::vector<std::string>& names) {
  std::string out = names.front() + " (default)";
  for (size_t i = 1; i < names.size(); ++i) out += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return out;
}

}  // namespace

void BackendFlags::declare(Options& o, const std::string& note) {
  const std::vector<std::string> names = arithmetic_names();
  o.text("--arith", "MODE", arith, choices_text(names) + note).one_of(names);
}

void BackendFlags::declare_all(Options& o) {
  arith = kAll;
  std::vector<std::string> names = arithmetic_names();
  std::string help;
  for (const std::string& name : names) help += (help.empty() ? "" : ", ") + name;
  names.emplace_back(kAll);
  o.text("--arith", "MODE", arith, help + " or both (default)").one_of(names);
}

Arithmetic BackendFlags::arithmetic() const { return arithmetics().front(); }

std::vector<Arithmetic> BackendFlags::arithmetics() const {
  if (arith != kAll) return {parse_arithmetic(arith)};
  std::vector<Arithmetic> out;
  for (const std::string& name : arithmetic_names()) out.push_back(parse_arithmetic(name));
  return out;
}

MakeBackend BackendFlags::make() const { return cpu_backend; }

std::shared_ptr<const Backend> BackendFlags::open(const Common& common) const { return open(common.threads); }

std::shared_ptr<const Backend> BackendFlags::open(int threads) const {
  return make()({.arithmetic = arithmetic(), .threads = threads, .timeline = timeline});
}

void BackendFlags::expect_bundle(const std::string& source) const {
  if (arithmetic() != Arithmetic::fp32) throw errorf("--arith {} is for bundles", arith).at(source);
}

void print_fault(const std::optional<NumericFault>& fault, const Common& common) {
  if (fault)
    note(common,
         fmt::format("{} in fp16 arithmetic, first in op '{}'", fault->nan ? "NaN" : "overflow", fault->op));
}

}  // namespace anemone::cli
