// OnnxNetwork: any ONNX graph, operator by operator, as one MIL function in fp32.
//     OnnxNetwork net = lower_network(OnnxModel::open("net.onnx"), {.shapes = {{"x", {1, 3, 224, 224}}}});
//     polish_network(net);
//     Package package = network_package(std::move(net), "net.onnx");
// Names of inputs and outputs become names that Core ML takes; `names` keeps the original ones. Whole numbers are
// int32, truth values go in and out as int32, and a scalar has one dimension of size 1 there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "anemone/array.h"
#include "mil/passes/layout.h"
#include "mil/program.h"
#include "onnx/model.h"
#include "package/package.h"

namespace anemone {

// The sizes that a dimension may have at run time.
struct OnnxSizes {
  int64_t least = 1, most = 1;
  std::vector<int64_t> listed;  // one of these, instead of a range
};

// An input that is an image: its pixels, 0 to 255, times `scale` plus `bias` (one, or one for each color).
struct OnnxImage {
  float scale = 1;
  std::vector<float> bias = {0};
};

struct OnnxNetworkOptions {
  std::map<std::string, std::vector<int64_t>>
      shapes;                                 // by name of an input, or of a symbol ("batch": one size)
  std::map<std::string, OnnxSizes> dynamic;   // by name of a symbol
  std::map<std::string, Array> constants;     // inputs whose values are fixed
  std::map<std::string, OnnxImage> images;    // by name of an input
  std::map<std::string, std::string> states;  // an input and the output that is its next value
  Opset opset = Opset::ios18;
};

// A branch that was taken for good, because the other one cannot be computed with the shapes of the inputs.
struct OnnxChoice {
  std::string node;              // "node 'If_0' (If)"
  std::string input;             // that decided; empty where it is not one alone
  std::optional<int64_t> value;  // that it must have
  std::string why;               // for people
};

struct OnnxNetwork {
  Program program;
  std::map<std::string, std::string> names;             // the package's → the model's, where they differ
  std::map<std::string, std::vector<OnnxSizes>> sizes;  // of inputs that are not fixed, by dimension
  std::vector<std::string> images;                      // inputs, by the package's names
  std::map<std::string, OnnxImage> pixels;  // the same by the model's, and what is done to their pixels
  std::vector<OnnxChoice> choices;          // branches that were decided by the shapes
  std::map<std::string, std::vector<int64_t>> fixed;  // whole numbers of inputs that are no inputs any more
  std::map<std::string, std::string> states;  // inputs and outputs that are a state, the model's names
  std::map<std::string, Layout> layouts;      // of values whose axes lie in another order than the model's
};

OnnxNetwork lower_network(const OnnxModel& model, const OnnxNetworkOptions& options);

struct OnnxPolish {
  int64_t before = 0, after = 0;  // operations
  int64_t transposes_before = 0, transposes_after = 0;
  int64_t convolved = 0, linear = 0;     // with `ane`: linear layers that became convs, and those that stayed
  std::map<std::string, int64_t> fused;  // what was written out in parts: "layer_norm", "gelu", …
};

// The passes of mil/passes over a network: what changes nothing goes away, what was written out in parts becomes whole,
// and axes move only where they must. With `ane`, linear layers become 1×1 convs (move_axes.h).
OnnxPolish polish_network(OnnxNetwork& network, bool ane = false);

// The keys of a package's metadata that hold `names`, `layouts`, `fixed`, `states` and `pixels`, as JSON.
inline constexpr std::string_view kOnnxNamesKey = "com.anemone.onnx.names";
inline constexpr std::string_view kOnnxLayoutsKey = "com.anemone.onnx.layouts";
inline constexpr std::string_view kOnnxFixedKey = "com.anemone.onnx.fixed";
inline constexpr std::string_view kOnnxStatesKey = "com.anemone.onnx.states";
inline constexpr std::string_view kOnnxPixelsKey = "com.anemone.onnx.pixels";

Package network_package(OnnxNetwork network, const std::string& source);

// Names of inputs and outputs in a package that were changed: the model's → the package's. Empty for other packages.
std::map<std::string, std::string> onnx_names(const Package& package);
// The same without outputs: an output of the model can be one of its inputs, and both have that name in the model.
std::map<std::string, std::string> onnx_input_names(const Package& package);

// Inputs of the model that the package does not have, because their values are fixed, by the model's names.
std::map<std::string, std::vector<int64_t>> onnx_fixed(const Package& package);

// Inputs of the model that are states of the package, and the outputs that are their next values.
std::map<std::string, std::string> onnx_states(const Package& package);

// Inputs of the model that are images of the package, and what the package does to their pixels.
std::map<std::string, OnnxImage> onnx_pixels(const Package& package);

// The orders of axes that differ from the model's, by the package's names of values. Empty for other packages.
std::map<std::string, Layout> onnx_layouts(const Package& package);

}  // namespace anemone
