// Networks of onnxruntime's quantize_dynamic (make_onnx_quantized.py), converted as `convert` does it by default,
// against what onnxruntime computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "anemone/predictor.h"
#include "base/mapped_file.h"
#include "base/npy.h"
#include "engine/cpu_backend.h"
#include "mil/passes/half.h"
#include "mil/passes/tidy.h"
#include "onnx/network.h"
#include "support/data.h"
#include "verify/network.h"

using namespace anemone;

TEST_CASE("onnx quantized: products of codes are exact in default precision") {
  const std::filesystem::path folder = source_dir() / "tests/data/onnx/quantized";
  for (const std::string name : {"mlp", "mlp_uint8", "conv"})
    for (const bool ane : {false, true}) {
      CAPTURE(name);
      CAPTURE(ane);
      const std::string path = (folder / name).string();
      const OnnxModel model = OnnxModel::open(path + ".onnx");
      OnnxNetwork net = lower_network(model, {});
      polish_network(net, ane);
      to_half(*net.program.find_function("main"));
      tidy(*net.program.find_function("main"));
      const auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
      std::map<std::string, Array> data;
      for (auto& [key, array] : parse_npz(MappedFile::open(path + ".npz")->bytes(), path))
        data.emplace(key, array);
      const auto predictor =
          cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1})->open(package, "main");
      const Prediction p = predictor->predict({{"x", data.at("x")}}, nullptr);
      CHECK_MESSAGE(!p.fault, p.fault->op);
      const std::vector<float> got = p.at("y").to_float(), want = data.at("want").to_float();
      REQUIRE(got.size() == want.size());
      double worst = 0, largest = 0;
      for (size_t k = 0; k < got.size(); ++k) {
        worst = std::max(worst, std::fabs(static_cast<double>(got[k]) - static_cast<double>(want[k])));
        largest = std::max(largest, std::fabs(static_cast<double>(want[k])));
      }
      // Between the layers values are rounded to fp16, so a few of their 8-bit codes are one step further. One step of
      // one code is 8e-4 of the output's range.
      CHECK(worst / largest < 5e-3);
    }
}

TEST_CASE("onnx quantized: verify checks networks of quantize_dynamic") {
  const std::filesystem::path folder = source_dir() / "tests/data/onnx/quantized";
  const auto cpu = cpu_backend({.threads = 1});
  for (const std::string name : {"mlp", "mlp_uint8", "conv"})
    for (const bool half : {false, true}) {
      CAPTURE(name);
      CAPTURE(half);
      const std::string path = (folder / name).string();
      const OnnxModel model = OnnxModel::open(path + ".onnx");
      OnnxNetwork net = lower_network(model, {});
      polish_network(net, false);
      if (half) to_half(*net.program.find_function("main"));
      if (half) tidy(*net.program.find_function("main"));
      const auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
      std::map<std::string, Array> data;
      for (auto& [key, array] : parse_npz(MappedFile::open(path + ".npz")->bytes(), path))
        data.emplace(key, array);
      const NetworkVerdict v = verify_network(package, model, {{"x", data.at("x")}}, *cpu);
      CHECK(v.passed());
      CHECK_FALSE(v.first);
      // Codes may be one step further where a value is close to a tie, and the network goes on with the package's: so
      // one step, 8e-4 of the range, is never seen at the end.
      CHECK(v.outputs.at(0).error < (half ? 2e-3 : 1e-5));
      CHECK(verify_network(package, model, {}, *cpu).passed());
    }
  // Two networks with equal shapes and different codes.
  const OnnxModel a = OnnxModel::open(folder / "mlp.onnx"), b = OnnxModel::open(folder / "mlp_uint8.onnx");
  OnnxNetwork net = lower_network(a, {});
  polish_network(net, false);
  const auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  CHECK(verify_network(package, a, {}, *cpu).passed());
  CHECK_FALSE(verify_network(package, b, {}, *cpu).passed());
}
