// Finds the weights of a program: floating tensors of rank 2 or more that are constants, plain or compressed,
// and used by ordinary operations. Numbers that are compared with others are none.
//     FoundWeights found(package.program);
//     for (const FoundWeight& w : found.weights()) …
// A weight that several functions use is found once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress/weight.h"
#include "mil/program.h"

namespace anemone {

class FunctionInfo;
class ThreadPool;

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
  void add_parts(FoundWeight& found, const Value& value);
  const void* origin(const Constant& c, const std::string& value);

  std::vector<std::unique_ptr<FunctionInfo>> infos_;
  std::map<std::string, std::vector<const Constant*>> in_place_;  // by the value that they are part of
  std::vector<FoundWeight> weights_;
};

// Every constant that operations hold, in all functions.
void for_each_constant(const Program& program, const std::function<void(const Constant&)>& visit);

// Lets weights that are not written yet make their first pass, so that they can be read.
void prepare_sources(const Program& program, ThreadPool& pool);

}  // namespace anemone
