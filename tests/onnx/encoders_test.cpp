// Encoders as torch exports them (make_encoders.py): converted in all ways, against what onnxruntime computes.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "anemone/predictor.h"
#include "base/mapped_file.h"
#include "base/npy.h"
#include "engine/cpu_backend.h"
#include "mil/builder.h"
#include "mil/passes/half.h"
#include "mil/passes/tidy.h"
#include "onnx/network.h"
#include "placement/placed_function.h"
#include "support/data.h"
#include "target/chips.h"
#include "verify/network.h"

using namespace anemone;

namespace {

struct Encoder {
  OnnxModel model;
  std::map<std::string, Array> inputs;
  std::vector<float> want;
};

Encoder open_encoder(const std::filesystem::path& path) {
  Encoder e{OnnxModel::open(path), {}, {}};
  std::filesystem::path data = path;
  data.replace_extension(".npz");
  for (auto& [name, array] : parse_npz(MappedFile::open(data)->bytes(), data.string())) {
    if (name == "want_hidden")
      e.want = array.to_float();
    else
      e.inputs.emplace(name, array);
  }
  return e;
}

// Only those that the model still has: exporters drop inputs that change nothing.
std::map<std::string, Array> inputs_for(const Encoder& e, const Package& package) {
  std::map<std::string, Array> out;
  for (const Feature& input : package.description.main.inputs)
    out.emplace(input.name, e.inputs.at(input.name));
  return out;
}

double distance(const Encoder& e, std::shared_ptr<const Package> package, Arithmetic arithmetic) {
  const auto predictor = cpu_backend({.arithmetic = arithmetic, .threads = 1})->open(package, "main");
  const std::vector<float> got = predictor->predict(inputs_for(e, *package), nullptr).at("hidden").to_float();
  REQUIRE(got.size() == e.want.size());
  double worst = 0, largest = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    worst = std::max(worst, std::fabs(static_cast<double>(got[k]) - static_cast<double>(e.want[k])));
    largest = std::max(largest, std::fabs(static_cast<double>(e.want[k])));
  }
  return worst / largest;
}

int64_t count(const Program& program, std::string_view type) {
  int64_t found = 0;
  for_each_op(program.functions[0]->body, [&](const Operation& op) { found += op.type == type; });
  return found;
}

std::shared_ptr<const Package> packed(OnnxNetwork net) {
  return std::make_shared<const Package>(network_package(std::move(net), "encoder.onnx"));
}

}  // namespace

TEST_CASE("onnx encoders: every form gives onnxruntime's numbers, and verify still names nodes") {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "tests/data/onnx/encoders")) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().filename().string());
    const Encoder e = open_encoder(entry.path());
    ++seen;
    const auto backend = cpu_backend({.threads = 1});
    OnnxNetwork raw = lower_network(e.model, {});
    const int64_t raw_operations = count_operations(*raw.program.functions[0]);
    CHECK(distance(e, packed(std::move(raw)), Arithmetic::fp32) < 1e-5);
    for (const bool ane : {false, true}) {
      CAPTURE(ane);
      OnnxNetwork net = lower_network(e.model, {});
      const OnnxPolish polish = polish_network(net, ane);
      CHECK(polish.after < raw_operations);
      // Twelve linear layers in two blocks; of the norms some were whole already.
      CHECK(polish.convolved == (ane ? 12 : 0));
      if (ane) {
        CHECK(count(net.program, "linear") == 0);
        CHECK(count(net.program, "transpose") <= 2);
      }
      const auto package = packed(std::move(net));
      CHECK(distance(e, package, Arithmetic::fp32) < 1e-5);
      const NetworkVerdict verdict = verify_network(package, e.model, inputs_for(e, *package), *backend);
      CHECK(verdict.passed());
      CHECK_FALSE(verdict.first);
      CHECK(verdict.compared >= 20);
      OnnxNetwork half = lower_network(e.model, {});
      polish_network(half, ane);
      to_half(*half.program.find_function("main"));
      CHECK(distance(e, packed(std::move(half)), Arithmetic::fp16) < 2e-2);
    }
  }
  CHECK(seen == 4);
}

TEST_CASE("onnx encoders: a fault inside a region in another order is named by its node") {
  const Encoder e = open_encoder(source_dir() / "tests/data/onnx/encoders/bert.onnx");
  OnnxNetwork net = lower_network(e.model, {});
  polish_network(net, true);
  Function& function = *net.program.functions[0];
  std::string broken;
  for (const auto& op : function.body.ops)
    if (op->type == "gelu" && broken.empty()) {
      op->type = "relu";
      std::erase_if(op->inputs, [](const Input& input) { return input.name == "mode"; });
      broken = op->outputs[0]->name;
    }
  REQUIRE(!broken.empty());
  REQUIRE(net.layouts.contains(broken));
  const auto package = packed(std::move(net));
  const NetworkVerdict verdict =
      verify_network(package, e.model, inputs_for(e, *package), *cpu_backend({.threads = 1}));
  CHECK_FALSE(verdict.passed());
  REQUIRE(verdict.first);
  CHECK(safe_name(verdict.first->value) == broken);
}
