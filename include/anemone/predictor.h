// Predictor: runs one function of one package.
//     auto package = anemone::open_package("model.mlpackage");
//     auto predictor = anemone::make_predictor(package);
//     auto state = predictor->make_state();
//     anemone::Prediction out = predictor->predict({{"x", x}}, state.get());
// Without copies, with a Call:
//     auto call = predictor->make_call();
//     std::span<float> x = call->input("x").values<float>();     // fill it
//     call->run(state.get());
//     next->chain("x", *call, "y");                              // straight into another call
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "anemone/array.h"
#include "anemone/package.h"

namespace anemone {

class Timeline;

// How floating values are held. fp32: every one in fp32, whatever it declares: what the maths says. fp16: a
// value that declares fp16 is rounded once per operation, as the Neural Engine's results are. fast: as fp32, but
// products with stored weights take their activations as 8-bit numbers with a scale for every 32.
enum class Arithmetic { fp32, fp16, fast };

struct PredictOptions {
  Arithmetic arithmetic = Arithmetic::fp32;
  int threads = 0;  // 0: one per core
  std::shared_ptr<Timeline> timeline =
      nullptr;  // what ran when goes there (predict/timeline.h); empty: not measured
};

// In fp16 arithmetic: the first operation whose result left the range of fp16 (or became NaN) though its inputs
// were finite.
struct NumericFault {
  std::string op;
  bool nan = false;  // else overflow
};

struct Prediction {
  std::map<std::string, Array> outputs;
  std::map<std::string, std::vector<std::string>> labels;  // outputs of classifiers that are text
  std::optional<NumericFault> fault;

  const Array& at(const std::string& name) const;  // Error when there is no such output
};

// What a function remembers from one call to the next. Made by a predictor, zero at first.
class State {
 public:
  virtual ~State() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual Array get(const std::string& name) const = 0;  // fp32; int32 for integers
  // Throws Error unless the shape is the state's.
  virtual void set(const std::string& name, const Array& value) = 0;
  virtual std::unique_ptr<State> clone() const = 0;
  virtual uint64_t bytes() const = 0;  // of memory
};

// One caller's way to run a function: lends its inputs to be filled in place and its outputs to be read in
// place. It belongs to one thread at a time, and may run many times: keep it. All names are the function's.
class Call {
 public:
  virtual ~Call() = default;
  // Memory of the input for the caller to fill, in the type and strides of the backend (the CPU engine: fp32
  // or int32, dense; a scalar is [1]). Zeros when it is first asked for, and after a lend(); what is in it stays
  // from run to run, though an input that declares fp16 may come back rounded to half. Ask again before it is filled
  // anew: a device may have had it in between.
  virtual TensorView input(const std::string& name) = 0;
  // Takes an input from elsewhere, mostly another call's output, in every run until the next input() or lend()
  // of that name. It is read where it lies if its type and strides fit the backend, else run() converts it;
  // it is never written to. Every run() needs the elements to be there until it returns.
  virtual void lend(const std::string& name, const TensorView& view) = 0;
  // Takes an input from what the last run of another call gave. A backend that knows its own calls can pass on more
  // than a view of the elements: a buffer that the device reads and writes.
  virtual void chain(const std::string& name, Call& from, const std::string& output) {
    lend(name, from.output(output));
  }
  // Takes an input that is the same as one which another call filled: `view` is what its input() gave. As with
  // chain(), a backend can use the other call's memory instead of reading the elements.
  virtual void share(const std::string& name, Call& owner, const std::string& input, const TensorView& view) {
    static_cast<void>(owner), static_cast<void>(input);
    lend(name, view);
  }
  // Does beforehand what the first run would do before it computes: plans, memory. For idle moments; a run does not
  // need it.
  virtual void get_ready() {}
  // Error, as predict() gives it, when an input without default was neither asked for nor lent.
  virtual void run(State* state = nullptr) = 0;

  // What the last run gave: the outputs, then the taps that it came by.
  virtual std::vector<std::string> outputs() const = 0;
  // One of them, in the type and strides of the backend; to be read until the next run or the call's end. A
  // label of a classifier is text: the view has type string and no elements.
  virtual TensorView output(const std::string& name) const = 0;
  // Outputs of a classifier: its label, or the labels that its probabilities belong to. Empty for others.
  virtual std::vector<std::string> labels(const std::string& name) const = 0;
  virtual const std::optional<NumericFault>& fault() const = 0;  // of the last run

  // Nothing of the last run is needed any more. Memory that other calls can use may go back until the next run, for
  // which every input is filled or lent anew. Must not fail.
  virtual void rest() {}

  // What could not be read where it lay, since the call was made.
  virtual uint64_t copied_bytes() const = 0;
};

using InputShapes = std::map<std::string, std::vector<int64_t>>;

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual const Signature& signature() const = 0;
  virtual std::unique_ptr<State> make_state() const = 0;
  // `shapes`: at least those of the flexible inputs that have no default. Error, listing what the function
  // expects, when one is missing, not allowed or of no input. The memory of a call that has ended serves the
  // next one. Calls of several threads may run at once, each with a state of its own.
  virtual std::unique_ptr<Call> make_call(const InputShapes& shapes = {}) const = 0;
  // Working memory of all calls, the ended ones included. States and weights count on their own.
  virtual uint64_t memory_bytes() const = 0;

  // One call, with arrays. Any float array is taken for a float input, any array of whole numbers in range
  // for an integer one, shape [1] for a scalar; Error, listing what the function expects, for everything
  // else. A function with states needs `state`. Safe from several threads, as make_call().
  virtual Prediction predict(const std::map<std::string, Array>& inputs, State* state = nullptr) const;
};

// On the CPU engine. `function` empty: the package's default one. `taps`: values inside the function that its calls
// give beside the outputs.
std::unique_ptr<Predictor> make_predictor(std::shared_ptr<const Package> package,
                                          const std::string& function = "",
                                          const PredictOptions& options = {},
                                          const std::vector<std::string>& taps = {});

}  // namespace anemone
