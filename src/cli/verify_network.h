// `anemone verify net.mlpackage --source net.onnx`: the package against the interpreter of the graph.
#pragma once

#include <string>

#include "cli/backend.h"
#include "cli/command.h"

namespace anemone::cli {

struct NetworkVerifyArgs {
  std::string package, model, inputs;
};

bool is_network_package(const std::string& package, const std::string& source);
int run_verify_network(const NetworkVerifyArgs& args, const BackendFlags& backend, const Common& common);

}  // namespace anemone::cli
