#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "anemone/error.h"
#include "coreml/double_fixture.h"
#include "engine/cpu_backend.h"
#include "mil/text.h"
#include "package/package.h"

using namespace anemone;
using namespace anemone::test;

namespace {

std::shared_ptr<const Package> package_of(const TempFolder& folder, const std::string& inputs,
                                          const std::string& body, const std::string& outputs) {
  Package p;
  p.program = parse_mil(
      "program(1.3)\n{ func main<ios18>(" + inputs + ") {" + body + "} -> (" + outputs + "); }", "t");
  p.description = description_of(p.program);
  p.spec_version = 9;
  static int next = 0;
  const auto path = folder.path() / ("p" + std::to_string(next++) + ".mlpackage");
  write_package(p, path);
  return open_package(path);
}

// y = x * x + x, in the given type.
std::shared_ptr<const Package> polynomial(const TempFolder& folder, const std::string& type) {
  return package_of(folder, "tensor<" + type + "> x",
                    "tensor<" + type + "> s = mul(x = x, y = x)[name = string(\"s\")];" + "tensor<" + type +
                        "> y = add(x = s, y = x)[name = string(\"y\")];",
                    "y");
}

// A state that adds up what it is given.
std::shared_ptr<const Package> adder(const TempFolder& folder) {
  return package_of(folder, "state<tensor<fp16, [1, 40]>> sum, tensor<fp16, [1, 40]> x",
                    "tensor<fp16, [1, 40]> old = read_state(input = sum)[name = string(\"old\")];"
                    "tensor<fp16, [1, 40]> y = add(x = old, y = x)[name = string(\"y\")];"
                    "write_state(data = y, input = sum)[name = string(\"w\")];",
                    "y");
}

Array ramp(std::vector<int64_t> shape, float first) {
  Array out(DType::fp32, std::move(shape));
  std::iota(out.values<float>().begin(), out.values<float>().end(), first);
  return out;
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("Core ML gives what the CPU engine gives, for every type and shape") {
  DoubleFixture fixture;
  const auto backend = fixture.backend();
  for (const std::string type :
       {"fp16, [2, 3]", "fp16, [1, 5, 2, 1]", "fp32, [2, 3]", "fp16, [70]", "int32, [4]"}) {
    CAPTURE(type);
    const auto package = polynomial(fixture.folder(), type);
    const auto own = backend->open(package, "main");
    const auto expected = cpu_backend({.arithmetic = Arithmetic::fp16})->open(package, "main");
    const Array x = ramp(own->signature().inputs[0].shape, 1);
    for (int i = 0; i < 3; ++i)
      CHECK(own->predict({{"x", x}}).at("y").to_float() == expected->predict({{"x", x}}).at("y").to_float());
    const auto call = own->make_call();
    for (int run = 0; run < 4; ++run) {
      call->lend("x", TensorView::of(x));
      call->run();
      CHECK(call->output("y").to_float() == expected->predict({{"x", x}}).at("y").to_float());
    }
  }
}

TEST_CASE("an input is zeros at first, and stays from run to run") {
  DoubleFixture fixture;
  const auto predictor = fixture.backend()->open(polynomial(fixture.folder(), "fp16, [2, 3]"), "");
  const auto call = predictor->make_call();
  CHECK(call->input("x").to_float() == std::vector<float>(6));
  const TensorView x = call->input("x");
  CHECK(x.dtype == DType::fp16);
  CHECK(x.strides == std::vector<int64_t>{32, 1});  // a surface's rows
  static_cast<uint16_t*>(x.data)[32] = 0x4000;      // 2, the first of the second row
  for (int run = 0; run < 3; ++run) {
    call->run();
    CHECK(call->output("y").to_float() == std::vector<float>{0, 0, 0, 6, 0, 0});
  }
  CHECK(call->input("x").to_float() == std::vector<float>{0, 0, 0, 2, 0, 0});
}

TEST_CASE("a call says what is wrong with its inputs, as the CPU engine's does") {
  DoubleFixture fixture;
  const auto package = polynomial(fixture.folder(), "fp16, [2, 3]");
  const auto own = fixture.backend()->open(package, "main");
  const auto cpu = cpu_backend({})->open(package, "main");
  const Array wrong = ramp({3, 3}, 0);
  const auto same = [&](const std::function<void(const Predictor&)>& f) {
    const std::string text = message([&] { f(*own); });
    CHECK(!text.empty());
    CHECK(text == message([&] { f(*cpu); }));
  };
  same([](const Predictor& p) { p.make_call()->run(); });
  same([](const Predictor& p) { p.make_call()->input("z"); });
  same([](const Predictor& p) { p.make_call()->output("y"); });
  same([&](const Predictor& p) { p.make_call()->lend("x", TensorView::of(wrong)); });
  same([&](const Predictor& p) { p.make_call({{"x", {3, 3}}}); });
  same([&](const Predictor& p) { p.predict({{"x", wrong}}); });
  same([](const Predictor& p) { p.make_state()->get("k"); });
}

TEST_CASE("states: kept, read, set, cloned") {
  DoubleFixture fixture;
  const auto predictor = fixture.backend()->open(adder(fixture.folder()), "main");
  const auto state = predictor->make_state();
  CHECK(state->names() == std::vector<std::string>{"sum"});
  CHECK(state->get("sum").to_float() == std::vector<float>(40));  // the prewarming left nothing
  const Array x = ramp({1, 40}, 1);
  predictor->predict({{"x", x}}, state.get());
  const auto other = state->clone();
  predictor->predict({{"x", x}}, state.get());
  CHECK(state->get("sum").to_float()[39] == 80);
  CHECK(other->get("sum").to_float()[39] == 40);
  state->set("sum", ramp({1, 40}, 100));
  CHECK(predictor->predict({{"x", x}}, state.get()).at("y").to_float()[1] == 103);
  CHECK(message([&] { predictor->predict({{"x", x}}); }) == "the function 'main' needs a state");
  CHECK(message([&] { state->set("sum", ramp({40}, 1)); }) ==
        "the state 'sum' has the wrong shape; found [40], expected sum: fp16 [1, 40]");
}

TEST_CASE(
    "stages are chained: in place where buffers are taken, by Core ML's own arrays where they are not") {
  using apple_double::Backings;
  using apple_double::UsedBackings;
  struct Case {
    Backings backings;
    UsedBackings used;
    bool copies;  // between the stages, once everything is known
    const char* remark;
  };
  for (const Case c :
       {Case{Backings::accepted, UsedBackings::accepted, false, "output buffers: 2 of 2 taken"},
        Case{Backings::accepted, UsedBackings::ignored, true, "were passed on as inputs"},
        Case{Backings::accepted, UsedBackings::refused, true, "were passed on as inputs"},
        Case{Backings::ignored, UsedBackings::accepted, false, "output buffers: 0 of 2 taken"},
        Case{Backings::refused, UsedBackings::accepted, false, "asked again without"}}) {
    for (const bool surfaces : {true, false}) {
      DoubleFixture fixture;
      apple_double::switches().backings = c.backings;
      apple_double::switches().used_backings = c.used;
      apple_double::switches().surfaces = surfaces;
      const auto backend = fixture.backend();
      const auto package = polynomial(fixture.folder(), "fp16, [1, 6, 2, 1]");
      const auto other = polynomial(fixture.folder(), "fp16, [1, 6, 2, 1]");
      const auto first = backend->open(package, "main"), second = backend->open(other, "main");
      const auto a = first->make_call(), b = second->make_call();
      for (int run = 0; run < 8; ++run) {
        const Array x = ramp({1, 6, 2, 1}, 0.25f * static_cast<float>(run));
        a->lend("x", TensorView::of(x));
        a->run();
        CHECK(a->output("y").shape == std::vector<int64_t>{1, 6, 2, 1});
        const uint64_t before = b->copied_bytes();
        b->chain("x", *a, "y");
        b->run();
        if (run > 3) CHECK((b->copied_bytes() > before) == c.copies);
        std::vector<float> expected;
        for (const float v : x.to_float()) {
          const float y = v * v + v;
          expected.push_back(y * y + y);
        }
        const std::vector<float> found = b->output("y").to_float();
        for (size_t i = 0; i < found.size(); ++i)
          CHECK(std::abs(found[i] - expected[i]) <= 4e-3f * std::abs(expected[i]));  // four roundings to half
      }
      CHECK(any_remark(*backend, c.remark));
    }
  }
}

TEST_CASE(
    "predictions without states overlap where they may: no more than asked for, with the same results") {
  DoubleFixture fixture;
  CoreMlOptions options = fixture.options();
  options.in_flight = 3;
  const auto predictor =
      coreml_backend(options)->open(polynomial(fixture.folder(), "fp16, [1, 6, 2, 1]"), "");
  apple_double::switches().late_ms = 20;
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> found(6);
  for (size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&, i] {
      const Array x = ramp({1, 6, 2, 1}, static_cast<float>(i));
      for (int run = 0; run < 3; ++run) found[i] = predictor->predict({{"x", x}}).at("y").to_float();
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < found.size(); ++i) {
    const auto v = static_cast<float>(i + 11);  // the last of the ramp
    CHECK(found[i].back() == v * v + v);
  }
  CHECK(apple_double::seen().most_in_flight > 1);
  CHECK(apple_double::seen().most_in_flight <= 3);
}
