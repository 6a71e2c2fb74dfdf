// Backend: opens a function of a package as a Predictor. What runs models takes one and does not ask which.
//     std::shared_ptr<const Backend> backend = cpu_backend({.threads = 4});
//     auto predictor = backend->open(package, "main");
//     predictor->memory_bytes();                        // what its calls hold
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "anemone/predictor.h"

namespace anemone {

// A call that is ready to run, and the state that it runs with.
struct CallTurn {
  Call* call = nullptr;
  State* state = nullptr;
};

// What was found out about a group of packages on this machine, once they were tried.
struct Remembered {
  std::string variant;  // the best of a bundle's variants; empty: it has none
  struct Function {
    std::string package, name;  // "layers_00.mlpackage", "t64"
    double ms = 0;              // of a call
  };
  std::vector<Function> functions;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // for messages and reports: "cpu"
  virtual Arithmetic arithmetic() const = 0;  // of everything that it opens
  // How far apart two logits must be, as a part of the largest, for the choice between them to be the same whether a
  // call takes one token or several: the two add their sums in another order.
  virtual double close_call() const = 0;
  // What was given to it to note the times of steps; null: none.
  virtual Timeline* timeline() const { return nullptr; }
  // Its predictors read weights where the package maps them, so that it helps to have the pages mapped beforehand.
  virtual bool maps_weights() const { return false; }
  // Whether open() takes taps. Of one that does not, predict/taps.h makes the values outputs of a copy.
  virtual bool can_tap() const = 0;
  // `function` empty: the package's default one. `taps`: values inside it that its calls give beside the
  // outputs. A predictor may outlive its backend. Several threads may open at once.
  virtual std::unique_ptr<Predictor> open(std::shared_ptr<const Package> package, const std::string& function,
                                          const std::vector<std::string>& taps = {}) const = 0;
  // Runs calls of what it opened, each with the results that run() gives it alone, bit by bit. No two of them share a
  // state or lend each other what they give. A backend that can reads weights that they share once; this one runs them
  // one after the other.
  virtual void run_together(std::span<const CallTurn> turns) const {
    for (const CallTurn& turn : turns) turn.call->run(turn.state);
  }
  // What is remembered of these packages; nothing where nobody tried them.
  virtual std::optional<Remembered> remembered(std::span<const std::filesystem::path> packages) const {
    static_cast<void>(packages);
    return std::nullopt;
  }
  // The same for calls of one function that follow each other over one state: each sees what those before it left
  // there.
  virtual void run_in_turn(std::span<const CallTurn> turns) const {
    for (const CallTurn& turn : turns) turn.call->run(turn.state);
  }
  // How many of them cost less than one after the other does; 1: none.
  virtual int64_t most_in_turn() const { return 1; }
  // How many calls without a state are good to have under way at once, each on a thread of its own: for many texts.
  virtual int calls_at_once() const { return 1; }
  // What a user may want to know about the runs so far, a line each: for --stats.
  virtual std::vector<std::string> remarks() const { return {}; }
};

// Makes one for a choice of arithmetic and threads. Whoever opens a backend of his own is given one of these.
using MakeBackend = std::function<std::shared_ptr<const Backend>(const PredictOptions&)>;

}  // namespace anemone
