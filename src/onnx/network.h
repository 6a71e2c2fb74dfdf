// OnnxNetwork: any ONNX graph, operator by operator, as one MIL function in fp32.
//     OnnxNetwork net = lower_network(OnnxModel::open("net.onnx"), {.shapes = {{"x", {1, 3, 224, 224}}}});
//     Package package = network_package(std::move(net), "net.onnx");
// Names of inputs and outputs become names that Core ML takes; `names` keeps the original ones. Whole numbers are
// int32, truth values go in and out as int32, and a scalar has one dimension of size 1 there.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "anemone/array.h"
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

struct OnnxNetwork {
  Program program;
  std::map<std::string, std::string> names;             // the package's → the model's, where they differ
  std::map<std::string, std::vector<OnnxSizes>> sizes;  // of inputs that are not fixed, by dimension
  std::vector<std::string> images;                      // inputs, by the package's names
};

OnnxNetwork lower_network(const OnnxModel& model, const OnnxNetworkOptions& options);

// The key of a package's metadata that holds `names`, as JSON.
inline constexpr std::string_view kOnnxNamesKey = "com.anemone.onnx.names";

Package network_package(OnnxNetwork network, const std::string& source);

// Names of inputs and outputs in a package that were changed: the model's → the package's. Empty for other packages.
std::map<std::string, std::string> onnx_names(const Package& package);

}  // namespace anemone
