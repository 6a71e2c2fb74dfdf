// OnnxInterpreter: computes an ONNX graph node by node with plain loops: the second way to the same numbers. It shares
// no code with the lowering, so that the two check each other.
//     OnnxInterpreter run(model);
//     run.compute({{"x", x}}, [](const OnnxNode& node, std::string_view name, OnnxArray& value) { … });
// Every number is a double here, which holds fp32 and int32 exactly; floating-point results are rounded to fp32 after
// each node. It knows every operator that the lowering knows (a test compares the two lists); others are an Error that
// names them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "onnx/model.h"

namespace anemone {

struct OnnxArray {
  OnnxType type = OnnxType::float32;
  std::vector<int64_t> dims;
  std::vector<double> data;
  std::vector<float> unrounded;  // of codes: what they were rounded from, so that near ties can be told

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

// Called with every output of every node of the outermost graph, in order. It may change the value.
using OnnxObserver = std::function<void(const OnnxNode&, std::string_view name, OnnxArray&)>;

class OnnxInterpreter {
 public:
  // A value that would have more than `most` elements is an Error: a small file can ask for any size.
  explicit OnnxInterpreter(const OnnxModel& model, int64_t most = int64_t{1} << 27)
      : model_(model), most_(most) {}

  // The outputs of the graph by name. Error naming the node for what it cannot compute.
  std::map<std::string, OnnxArray> compute(const std::map<std::string, OnnxArray>& inputs,
                                           const OnnxObserver& observe = nullptr) const;

 private:
  const OnnxModel& model_;
  int64_t most_;
};

// Domain and name of the operators that it computes, sorted.
std::vector<std::pair<std::string_view, std::string_view>> interpreted_ops();

}  // namespace anemone
