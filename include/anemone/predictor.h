// Predictor: runs one function of one package.
//     auto package = anemone::open_package("model.mlpackage");
//     auto predictor = anemone::make_predictor(package);
//     auto state = predictor->make_state();
//     anemone::Prediction out = predictor->predict({{"x", x}}, state.get());
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

// How floating values are held. fp32: every one in fp32, whatever it declares: what the maths says. fp16: a
// value that declares fp16 is rounded once per operation, as the Neural Engine's results are.
enum class Arithmetic { fp32, fp16 };

struct PredictOptions {
  Arithmetic arithmetic = Arithmetic::fp32;
  int threads = 0;                // 0: one per core
  std::vector<std::string> taps;  // values inside the program to return beside the outputs
};

// In fp16 arithmetic: the first operation whose result left half's range (or became NaN) though its inputs
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
  virtual Array get(const std::string& name) const = 0;  // fp32
  // Throws Error unless the shape is the state's.
  virtual void set(const std::string& name, const Array& value) = 0;
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual const Signature& signature() const = 0;
  virtual std::unique_ptr<State> make_state() const = 0;
  // Any float array is taken for a float input, any array of whole numbers in range for an integer one, shape
  // [1] for a scalar; Error, listing what the function expects, for everything else. A function with states
  // needs `state`. Calls from several threads are safe, each with a state of its own.
  virtual Prediction predict(const std::map<std::string, Array>& inputs, State* state = nullptr) const = 0;
};

// `function` empty: the package's default one.
std::unique_ptr<Predictor> make_predictor(std::shared_ptr<const Package> package,
                                          const std::string& function = "",
                                          const PredictOptions& options = {});

}  // namespace anemone
