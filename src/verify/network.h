// A package made from an ONNX network, against the network itself: the interpreter computes the graph node by node, the
// package gives the same values by name, and the first node where they part is named.
//     NetworkVerdict v = verify_network(package, model, inputs, *backend);
//     if (!v.passed()) fmt::print("{}\n", v.first->node);
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "anemone/array.h"
#include "onnx/model.h"
#include "package/package.h"
#include "predict/backend.h"

namespace anemone {

struct NetworkDifference {
  std::string node;   // "node 'conv1' (Conv)"
  std::string value;  // the model's name
  double error = 0;   // the largest difference, relative to the largest number
};

struct NetworkVerdict {
  double bar = 0;                          // what is allowed
  int64_t nodes = 0, compared = 0;         // values of nodes, and how many of them the package has
  std::optional<NetworkDifference> first;  // the first node beyond the bar
  std::vector<NetworkDifference> outputs;
  bool made_inputs = false;  // no inputs were given, so numbers were made up

  bool passed() const;
};

// `inputs` by the model's names or the package's; those that are missing are made up where the package takes them.
NetworkVerdict verify_network(std::shared_ptr<const Package> package, const OnnxModel& model,
                              const std::map<std::string, Array>& inputs, const Backend& backend);

}  // namespace anemone
