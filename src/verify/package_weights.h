// The weights of one function of a package, by name, whatever form they are stored in.
//     PackageWeights weights(function);
//     if (const auto w = weights.find("l0_q_weight")) w->stored->read(0, count, values);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mil/program.h"
#include "mil/stored.h"

namespace anemone {

class FunctionInfo;

// The values of a constant of floating-point numbers; empty for others.
std::vector<float> float_constant(const Constant* constant);

// How a constant is stored: "fp16", "int8", "lut4", "sparse" …, and the bits of one element in that form. What was not
// set to zero is half in a plain "sparse", and in a "packed sparse" of another form.
inline constexpr const char* kPlainSparse = "sparse";
inline constexpr const char* kPackedSparse = "packed sparse";
std::string storage_text(const Value& value);
int form_bits(const std::string& form);

class PackageWeights {
 public:
  struct Found {
    std::shared_ptr<const StoredTensor> stored;
    std::string form;   // storage_text
    std::string place;  // where the bytes lie: the same for functions that share them
    int64_t zeros = 0;  // of a plain sparse one: among the values that were kept
  };

  // The function must outlive it, and it what it gives.
  explicit PackageWeights(const Function& function);
  ~PackageWeights();

  // The constant of that name, or else the weight of the operation that it is named after ("l0_q" for
  // "l0_q_weight"): a tool that compresses may have put another name there.
  std::optional<Found> find(const std::string& name) const;

 private:
  const Function& function_;
  std::unique_ptr<FunctionInfo> info_;
};

}  // namespace anemone
