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
  double bar = 0;     // what is allowed: a little more for states, which are kept in fp16
};

struct NetworkVerdict {
  double bar = 0;                   // what is allowed, states apart
  int64_t nodes = 0, compared = 0;  // values of nodes in one call, and how many of them the package has
  std::optional<NetworkDifference> first;  // the first node beyond the bar
  std::vector<NetworkDifference> outputs;
  bool made_inputs = false;  // no inputs were given, so numbers were made up
  int64_t calls = 1;         // with states: several, each from what the package's states hold

  bool passed() const;
};

// `inputs` by the model's names or the package's; those that are missing are made up where the package takes them.
// States begin with the inputs of their names, or zero. Each call is compared by itself: the network gets what the
// package's states hold before the call, and its next values are compared with what they hold after it.
NetworkVerdict verify_network(std::shared_ptr<const Package> package, const OnnxModel& model,
                              const std::map<std::string, Array>& inputs, const Backend& backend);

}  // namespace anemone
