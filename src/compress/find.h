// Finds the weights of a program: floating tensors of rank 2 or more that are constants, plain or compressed,
// and used by ordinary operations.
//     FoundWeights found(package.program);
//     for (const FoundWeight& w : found.weights()) …
// A weight that several functions use is found once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/weight.h"
#include "mil/program.h"

namespace anemone {

class FunctionInfo;

struct FoundUse {
  std::string function, value;
};

struct FoundWeight {
  Weight weight;
  std::vector<FoundUse> uses;
  std::vector<const void*> parts;  // where the constants that it is made of lie
};

class FoundWeights {
 public:
  // The program must outlive it, and what it lends.
  explicit FoundWeights(const Program& program);
  ~FoundWeights();

  const std::vector<FoundWeight>& weights() const { return weights_; }
  const FoundWeight* find(const std::string& function, const std::string& value) const;

 private:
  void add(const Function& function, const FunctionInfo& info);

  std::vector<std::unique_ptr<FunctionInfo>> infos_;
  std::vector<FoundWeight> weights_;
};

}  // namespace anemone
