// BackendFlags: what runs packages, as the flags of a verb say it. Nobody else in cli/ makes a backend or reads
// --arith.
//     BackendFlags backend;
//     backend.declare(options);
//     Bundle::open(path, backend.open(common));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "predict/backend.h"

namespace anemone::cli {

struct BackendFlags {
  std::string arith = "fp32";
  std::shared_ptr<Timeline> timeline;  // where backends note what ran when; empty: nowhere

  // `note`: what is said behind the names of the arithmetics in --help.
  void declare(Options& o, const std::string& note = "");
  // For a verb that can do all in one run, and does so by default.
  void declare_all(Options& o);

  // The first of arithmetics().
  Arithmetic arithmetic() const;
  std::vector<Arithmetic> arithmetics() const;
  // What it runs on, for whoever opens a backend of his own.
  MakeBackend make() const;
  // In the arithmetic that was asked for, with the threads of --threads.
  std::shared_ptr<const Backend> open(const Common& common) const;
  std::shared_ptr<const Backend> open(int threads) const;
  // The reference computes in fp32 alone: Error where something else was asked for.
  void expect_bundle(const std::string& source) const;
};

// "note: overflow in fp16 arithmetic, first in op 'l0_q'", on stderr; nothing with --quiet or where all went well.
void print_fault(const std::optional<NumericFault>& fault, const Common& common);

}  // namespace anemone::cli
