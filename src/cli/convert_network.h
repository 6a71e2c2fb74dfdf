// `anemone convert net.onnx -o net.mlpackage`: an ONNX graph, operator by operator, as one package.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/onnx_bundle.h"
#include "cli/command.h"

namespace anemone::cli {

// The flags that only such a conversion has.
struct NetworkFlags {
  std::vector<std::string> shapes, dynamic, constants, images, states;
  bool ane = false;

  void declare(Options& o);
  // Error naming the first of them that was given, for conversions that do not take them.
  void expect_none() const;
};

struct NetworkRequest {
  std::string model, output, precision, target;
  bool overwrite = false;
};

// The ONNX file at MODEL, where it and the output ask for this kind of conversion.
std::optional<OnnxPlace> find_network(const std::string& model, const std::string& output,
                                      const OnnxBundleChoice& choice);

int convert_network(const NetworkRequest& request, const NetworkFlags& flags, const Common& common);

}  // namespace anemone::cli
