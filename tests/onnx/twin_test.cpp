// Basic Pitch exists as ONNX and, by its authors' own conversion, as a Core ML package: our conversion of the one gives
// the numbers of the other, both on the CPU engine. Skipped where the given data is not there.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "anemone/package.h"
#include "base/npy.h"
#include "engine/cpu_backend.h"
#include "onnx/network.h"
#include "support/data.h"

using namespace anemone;

namespace {

double apart(const Array& found, const Array& wanted) {
  const std::vector<float> a = found.to_float(), b = wanted.to_float();
  REQUIRE(a.size() == b.size());
  double worst = 0, largest = 1e-12;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::abs(double{b[i]}));
  }
  return worst / largest;
}

}  // namespace

TEST_CASE("onnx network: Basic Pitch computes what its Core ML twin does") {
  const auto root = data_folder("mlpackages");
  if (!root) return;
  for (const char* name : {"basic_pitch_nmp.onnx", "basic_pitch_nmp.mlpackage", "basic_pitch_io.npz"})
    if (!std::filesystem::exists(*root / name)) {
      MESSAGE("skipped: no test data '" << name << "' in " << root->string());
      return;
    }
  std::map<std::string, Array> io;
  for (auto& [name, array] : read_npz(*root / "basic_pitch_io.npz")) io.emplace(name, std::move(array));
  const Array& audio = io.at("input_2");
  const OnnxModel model = OnnxModel::open(*root / "basic_pitch_nmp.onnx");
  OnnxNetwork net = lower_network(model, {.shapes = {{"serving_default_input_2:0", audio.shape()}}});
  polish_network(net);
  const auto ours = std::make_shared<const Package>(network_package(std::move(net), "basic_pitch_nmp.onnx"));
  const auto names = onnx_names(*ours);
  const auto backend = cpu_backend({.threads = 1});
  const Prediction got =
      backend->open(ours, "main")->predict({{names.at("serving_default_input_2:0"), audio}}, nullptr);
  const std::shared_ptr<const Package> twin = open_package(*root / "basic_pitch_nmp.mlpackage");
  const Prediction other = backend->open(twin, "main")->predict({{"input_2", audio}}, nullptr);
  for (const char* number : {"0", "1", "2"}) {
    CAPTURE(number);
    const Array& value = got.at(names.at(std::string("StatefulPartitionedCall:") + number));
    const std::string theirs = number[0] == '0' ? "Identity" : std::string("Identity_") + number;
    // fp32 in other orders of sums. onnxruntime's own kernels are further away: 2.2e-5.
    CHECK(apart(value, other.at(theirs)) < 5e-6);
    CHECK(apart(value, io.at(std::string("onnx_StatefulPartitionedCall_") + number)) < 1e-4);
  }
}
