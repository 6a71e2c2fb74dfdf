// verify of networks, with states and with codes.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "mil/passes/half.h"
#include "onnx/interpret/interpreter.h"
#include "onnx/lowering.h"
#include "onnx/made_model.h"
#include "onnx/network.h"
#include "verify/network.h"

namespace anemone::made {

namespace {

// present = past / 2 + x * weight, y = -present.
OnnxModel decaying(float weight) {
  return model_of({constant_node(float_tensor("w", {weight, weight}), "w"),
                   constant_node(float_tensor("h", {0.5f, 0.5f}), "h"), node("Mul", {"x", "w"}, "a"),
                   node("Mul", {"past:0", "h"}, "b"), node("Add", {"a", "b"}, "present:0"),
                   node("Neg", {"present:0"}, "y")},
                  {value_info("x", {2}), value_info("past:0", {2})},
                  {value_info("y", {2}), value_info("present:0", {2})});
}

std::shared_ptr<const Package> packed(const OnnxModel& model, bool half = false) {
  OnnxNetwork net = lower_network(model, {.states = {{"past:0", "present:0"}}});
  if (half) to_half(*net.program.find_function("main"));
  return std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
}

const Backend& backend() {
  static const std::shared_ptr<const Backend> cpu = cpu_backend({.threads = 1});
  return *cpu;
}

}  // namespace

TEST_CASE("onnx verify: the interpreter knows every operator that convert lowers, and no other") {
  std::vector<std::pair<std::string_view, std::string_view>> lowered;
  for (const OnnxOp* op : all_onnx_ops()) lowered.emplace_back(op->domain, op->name);
  CHECK(lowered.size() >= 130);
  const auto interpreted = interpreted_ops();
  for (const auto& [domain, name] : lowered) {
    const bool known =
        std::find(interpreted.begin(), interpreted.end(), std::pair(domain, name)) != interpreted.end();
    CHECK_MESSAGE(known, "convert lowers ", name, " of '", domain, "', and the interpreter lacks it");
  }
  for (const auto& [domain, name] : interpreted) {
    const bool known = find_onnx_op(domain, name) != nullptr;
    CHECK_MESSAGE(known, "the interpreter has ", name, " of '", domain, "', which convert does not lower");
  }
}

TEST_CASE("onnx verify: a state of another size is an error, not a comparison") {
  const auto package = packed(decaying(1));
  // What the network gives has more numbers than the state, or fewer.
  for (const std::string op : {"Concat", "ReduceSum"}) {
    CAPTURE(op);
    const bool more = op == "Concat";
    Message last =
        more ? node("Concat", {"past:0", "x"}, "present:0") : node("ReduceSum", {"past:0"}, "present:0");
    if (more) {
      Message axis;
      axis.data(1, "axis");
      axis.integer(3, 0);
      axis.integer(20, 2);
      last.message(5, axis);
    }
    const OnnxModel other =
        model_of({last, node("Neg", {"x"}, "y")}, {value_info("x", {2}), value_info("past:0", {2})},
                 {value_info("y", {2}), value_info("present:0", {more ? 4 : 1})});
    const std::string error = error_of([&] { verify_network(package, other, {}, backend()); });
    CHECK_MESSAGE(has(error, "the state 'past:0' has another size"), error);
  }
}

TEST_CASE("onnx verify: an fp32 package with states has the bar of fp32") {
  const auto package = packed(decaying(1));
  const NetworkVerdict good = verify_network(package, decaying(1), {}, backend());
  CHECK(good.passed());
  CHECK(good.bar == doctest::Approx(1e-4));
  CHECK(good.nodes == 6);  // of one call; two are constants
  CHECK(good.compared == 4);
  CHECK(good.calls == 3);
  // A weight that is 3 % off.
  const NetworkVerdict bad = verify_network(package, decaying(1.03f), {}, backend());
  CHECK_FALSE(bad.passed());
  REQUIRE(bad.first);
  CHECK(has(bad.first->node, "(Mul)"));
  // Rounded to fp16 all over, more is allowed.
  CHECK(verify_network(packed(decaying(1), true), decaying(1), {}, backend()).bar == doctest::Approx(5e-2));
}

TEST_CASE("onnx verify: an image's pixels are scaled for the network as the package scales them") {
  const OnnxModel model =
      model_of({node("Neg", {"x"}, "y")}, {value_info("x", {1, 3, 2, 2})}, {value_info("y", {1, 3, 2, 2})});
  const auto made = [&](OnnxImage image) {
    OnnxNetwork net = lower_network(model, {.images = {{"x", std::move(image)}}});
    polish_network(net);
    return std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  };
  for (const OnnxImage& image : {OnnxImage{}, OnnxImage{0.5f, {3}}, OnnxImage{0.25f, {1, -2, 3}}}) {
    CHECK(verify_network(made(image), model, {}, backend()).passed());
    Array x(DType::fp32, {1, 3, 2, 2});
    for (float& v : x.values<float>()) v = 200;
    const NetworkVerdict given = verify_network(made(image), model, {{"x", x}}, backend());
    CHECK(given.passed());
    CHECK(given.compared == 1);
  }
}

TEST_CASE("onnx verify: an output of the network may be one of its inputs") {
  const OnnxModel model = model_of({node("Neg", {"x"}, "y")}, {value_info("x", {2})},
                                   {value_info("y", {2}), value_info("x", {2})});
  OnnxNetwork net = lower_network(model, {});
  const auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  const Array x = Array::from<float>({2}, {3, -4});
  const NetworkVerdict v = verify_network(package, model, {{"x", x}}, backend());
  CHECK(v.passed());
  CHECK(v.outputs.size() == 2);
}

TEST_CASE("onnx verify: a state alone that is wrong is found") {
  // Only the state depends on the weight.
  const auto made = [](float weight) {
    return model_of({constant_node(float_tensor("w", {weight, weight}), "w"), node("Mul", {"x", "w"}, "a"),
                     node("Add", {"a", "past:0"}, "present:0"), node("Neg", {"x"}, "y")},
                    {value_info("x", {2}), value_info("past:0", {2})},
                    {value_info("y", {2}), value_info("present:0", {2})});
  };
  const auto package = packed(made(1));
  CHECK(verify_network(package, made(1), {}, backend()).passed());
  CHECK_FALSE(verify_network(package, made(1.002f), {}, backend()).passed());
  // Numbers so small that fp16 has few digits for them.
  const Array tiny = Array::from<float>({2}, {3.3e-7f, -5e-8f});
  CHECK(verify_network(package, made(1), {{"x", tiny}}, backend()).passed());
}

TEST_CASE("onnx verify: states begin with what is given, by the model's names or the package's") {
  const OnnxModel sum = model_of({node("Add", {"x", "past:0"}, "present:0"), node("Neg", {"present:0"}, "y")},
                                 {value_info("x", {2}), value_info("past:0", {2})},
                                 {value_info("y", {2}), value_info("present:0", {2})});
  const OnnxModel less =
      model_of({node("Sub", {"x", "past:0"}, "present:0"), node("Neg", {"present:0"}, "y")},
               {value_info("x", {2}), value_info("past:0", {2})},
               {value_info("y", {2}), value_info("present:0", {2})});
  const auto package = packed(sum);
  const Array zero = Array::from<float>({2}, {0, 0}), start = Array::from<float>({2}, {3, -4});
  // From zero, and with zeros, both networks are the same for ever.
  CHECK(verify_network(package, less, {{"x", zero}}, backend()).passed());
  CHECK_FALSE(verify_network(package, less, {{"x", zero}, {"past:0", start}}, backend()).passed());
  CHECK_FALSE(verify_network(package, less, {{"x", zero}, {"past_0", start}}, backend()).passed());
  CHECK(verify_network(package, sum, {{"x", zero}, {"past_0", start}}, backend()).passed());
}

}  // namespace anemone::made
