#include "cli/verify_network.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "checkpoint/onnx_bundle.h"
#include "cli/input.h"
#include "cli/package_argument.h"
#include "verify/network.h"

namespace anemone::cli {
namespace {

std::map<std::string, Array> read_inputs(const std::string& path) {
  std::map<std::string, Array> out;
  if (path.empty()) return out;
  for (auto& [name, array] : parse_npz(open_input(path)->bytes(), path)) out.emplace(name, std::move(array));
  return out;
}

void print_json(const NetworkVerdict& v) {
  nlohmann::ordered_json out = {{"passed", v.passed()},
                                {"bar", v.bar},
                                {"values", v.nodes},
                                {"compared", v.compared},
                                {"calls", v.calls}};
  for (const NetworkDifference& d : v.outputs) out["outputs"][d.value] = d.error;
  if (v.first) out["first"] = {{"node", v.first->node}, {"value", v.first->value}, {"error", v.first->error}};
  fmt::print("{}\n", json_text(out, 2));
}

}  // namespace

bool is_network_package(const std::string& package, const std::string& source) {
  namespace fs = std::filesystem;
  const fs::path path =
      fs::path(package).has_filename() ? fs::path(package) : fs::path(package).parent_path();
  return path.extension() == ".mlpackage" &&
         (fs::path(source).extension() == ".onnx" || find_onnx(source).has_value());
}

int run_verify_network(const NetworkVerifyArgs& args, const BackendFlags& backend, const Common& common) {
  const auto package = package_argument(args.package);
  const std::optional<OnnxPlace> place = find_onnx(args.model);
  const OnnxModel model = OnnxModel::open(place ? place->model : std::filesystem::path(args.model));
  const NetworkVerdict v = verify_network(package, model, read_inputs(args.inputs), *backend.open(common));
  if (common.json) {
    print_json(v);
    return v.passed() ? 0 : 1;
  }
  if (!common.quiet) {
    if (v.made_inputs) note(common, "inputs were made up; --inputs in.npz gives real ones");
    if (v.calls > 1) fmt::print("{} calls, each from the states that the one before left\n", v.calls);
    fmt::print("{} values of nodes, {} of them in the package; at most {:.0e} of the range is allowed\n",
               v.nodes, v.compared, v.bar);
    for (const NetworkDifference& d : v.outputs)
      fmt::print("  output {}: {:.1e}\n", onnx_printable(d.value), d.error);
    if (v.first) fmt::print("  the first difference is at {}: {:.1e}\n", v.first->node, v.first->error);
  }
  fmt::print("{}\n", v.passed() ? "passed: the package computes what the network does"
                                : "failed: the package computes something else");
  return v.passed() ? 0 : 1;
}

}  // namespace anemone::cli
