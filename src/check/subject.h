// What rules look at: a bundle, its packages, their functions, each with what is asked of it again and again.
//     subject.index.users(value);                     // who reads it
//     subject.placed.ops;                             // where each operation goes
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/npy.h"
#include "bundle/bundle_info.h"
#include "check/known_values.h"
#include "mil/verify.h"
#include "package/description_faults.h"
#include "package/package.h"
#include "placement/op_view.h"
#include "placement/placed_function.h"
#include "placement/weight_form.h"
#include "target/chips.h"

namespace anemone {

// Who makes and who reads what in a function's own block.
class FunctionIndex {
 public:
  FunctionIndex() = default;
  explicit FunctionIndex(const Function& function, const placement::PlacedFunction& placed);

  const std::vector<const Operation*>& users(const Value* value) const;
  // The only user of an operation's first result, if there is one alone.
  const Operation* only_user(const Operation& op) const;
  // The operation has work for the engine before it and behind it.
  bool in_the_middle(const Operation& op) const;
  bool is_output(const Value* value) const;

 private:
  struct Around {
    bool before = false, behind = false;
  };

  std::unordered_map<const Value*, std::vector<const Operation*>> users_;
  std::unordered_map<const Operation*, Around> around_;
  std::vector<const Value*> outputs_;
};

struct PackageSubject;

struct FunctionSubject {
  const PackageSubject& package;
  const Function& function;
  const placement::PlacedFunction& placed;
  const FunctionIndex& index;
  int64_t tokens = 1;     // columns of the widest convolution
  bool flexible = false;  // inputs of several shapes
};

// A weight that some operation of the package reads.
struct WeightSubject {
  const Value* value = nullptr;
  const Operation* user = nullptr;
  std::string param;  // of the user
  std::string function;
  placement::WeightForm form;
  double elements = 0;
};

struct BundleSubject;

struct PackageSubject {
  const BundleSubject& bundle;
  std::string name;
  const KnownValues& values;
  const Package& package;
  const Program& program;              // with flexible sizes fixed
  uint64_t weight_bytes = 0;           // of the weight file
  std::vector<WeightSubject> weights;  // one a weight, whoever shares it
  std::vector<const FunctionSubject*> functions;
  std::vector<Fault> faults;  // rules of MIL that the program breaks, as it is in the file
  std::vector<DescriptionFault> description_faults;
};

struct BundleSubject {
  Target target;
  int os = 18;                       // iOS's number; macOS 15 is 18
  const BundleInfo* info = nullptr;  // of a bundle; empty for a package alone
  const NamedArrays* golden = nullptr;
  std::vector<const PackageSubject*> packages;
  uint64_t weight_bytes = 0;
};

// Too little in all its packages for the engine to pay (rule Z03): less than 14 MB of weights.
bool small_model(const PackageSubject& package);

// Its bytes are at hand: in place, or in a weight file that is there.
bool is_readable(const Constant& constant);
// The computed value behind an operand, or empty.
const Value* computed_operand(const Operation& op, std::string_view param);
// The one number that a constant holds; empty for anything else.
std::optional<double> scalar_constant(const Operation& op, std::string_view param);
// The values of a constant of up to `most` elements; empty for anything else.
std::vector<float> constant_values(const Constant* constant, int64_t most);

}  // namespace anemone
