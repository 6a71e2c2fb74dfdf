// BackendFlags: what runs packages, as the flags of a verb say it. Nobody else in cli/ makes a backend or reads
// --backend, --compute-units and --arith.
//     BackendFlags backend;
//     backend.declare(options);
//     Bundle::open(path, backend.open(common));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "coreml/coreml_backend.h"
#include "predict/backend.h"

namespace anemone::cli {

struct BackendFlags {
  std::string arith;           // empty: nobody said
  std::string usual = "fp32";  // the arithmetic then; set it before declare() to change it
  std::string backend = "auto", units = "ane";
  bool all = false;                    // fp32 and fp16, unless one was asked for
  static constexpr int kInFlight = 3;  // more only cost memory
  int in_flight = 1;  // predictions that Core ML may have under way at once; kInFlight where inputs are many
  std::shared_ptr<Timeline> timeline = nullptr;  // where backends note what ran when; empty: nowhere

  // `note`: what is said behind the names of the arithmetics in --help.
  void declare(Options& o, const std::string& note = "");
  // For a verb that can do fp32 and fp16 in one run, and does so by default.
  void declare_all(Options& o);

  // Whether Core ML runs them: asked for, or there and nothing was said against it.
  bool core_ml() const;
  // The first of arithmetics().
  Arithmetic arithmetic() const;
  std::vector<Arithmetic> arithmetics() const;
  // What it runs on, for whoever opens a backend of his own.
  MakeBackend make(const Common& common) const;
  // In the arithmetic that was asked for, with the threads of --threads, or so many.
  std::shared_ptr<const Backend> open(const Common& common) const;
  std::shared_ptr<const Backend> open(const Common& common, int threads) const;
  // The reference computes in fp32 alone, on the CPU: Error where something else was asked for.
  void expect_bundle(const std::string& source) const;
};

// Says on a terminal what Core ML is doing before a function can run; elsewhere only that the first time takes long.
CoreMlOptions core_ml_options(ComputeUnits units, const Common& common);

// "note: overflow in fp16 arithmetic, first in op 'l0_q'", on stderr; nothing with --quiet or where all went well.
void print_fault(const std::optional<NumericFault>& fault, const Common& common);

}  // namespace anemone::cli
