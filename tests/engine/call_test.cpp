#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "anemone/error.h"
#include "anemone/predictor.h"
#include "engine/cpu_backend.h"
#include "mil/text.h"
#include "package/package.h"

using namespace anemone;

namespace {

std::shared_ptr<const Package> package_of(const std::string& inputs, const std::string& body,
                                          const std::string& outputs) {
  Package p;
  p.program = parse_mil(
      "program(1.3)\n{ func main<ios18>(" + inputs + ") {" + body + "} -> (" + outputs + "); }", "t");
  p.description = description_of(p.program);
  p.spec_version = 9;
  return std::make_shared<Package>(std::move(p));
}

// y = x * x + x, in the given type.
std::shared_ptr<const Package> polynomial(const std::string& type) {
  return package_of("tensor<" + type + "> x",
                    "tensor<" + type + "> s = mul(x = x, y = x)[name = string(\"s\")];" + "tensor<" + type +
                        "> y = add(x = s, y = x)[name = string(\"y\")];",
                    "y");
}

// One that takes rows of 3, as many as one likes up to 8.
std::shared_ptr<const Package> flexible() {
  auto made = std::make_shared<Package>();
  made->program = parse_mil(
      "program(1.3)\n{ func main<ios18>(tensor<fp32, [?, 3]> x, tensor<fp32, [3]> w) {"
      "tensor<fp32, [?, 3]> y = mul(x = x, y = w)[name = string(\"y\")];} -> (y); }",
      "t");
  made->description = description_of(made->program);
  auto& array = made->description.main.inputs[0].type.array;
  array.range = {{1, 8}, {3, 3}};
  made->spec_version = 9;
  return made;
}

Array ramp(std::vector<int64_t> shape, float first) {
  Array out(DType::fp32, std::move(shape));
  std::iota(out.values<float>().begin(), out.values<float>().end(), first);
  return out;
}

void fill(const TensorView& view, const Array& from) {
  std::ranges::copy(from.values<float>(), view.values<float>().begin());
}

std::vector<float> floats(const TensorView& view) { return view.to_float(); }

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an input that is filled in place gives what predict() gives, run after run") {
  const auto predictor = make_predictor(polynomial("fp32, [2, 3]"));
  const auto call = predictor->make_call();
  const TensorView x = call->input("x");
  CHECK(x.dtype == DType::fp32);
  CHECK(x.shape == std::vector<int64_t>{2, 3});
  CHECK(floats(x) == std::vector<float>(6));  // zeros at first
  for (const float first : {-2.0f, 0.5f}) {
    const Array values = ramp({2, 3}, first);
    fill(x, values);
    call->run();
    CHECK(floats(call->output("y")) == predictor->predict({{"x", values}}).at("y").to_float());
    CHECK(call->outputs() == std::vector<std::string>{"y"});
  }
  // What is in it stays.
  CHECK(floats(call->input("x")) == ramp({2, 3}, 0.5f).to_float());
  call->run();
  CHECK(floats(call->output("y")) == predictor->predict({{"x", ramp({2, 3}, 0.5f)}}).at("y").to_float());
  CHECK(call->copied_bytes() == 0);
}

TEST_CASE("calls are chained without a copy") {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16}) {
    const auto backend = cpu_backend({.arithmetic = arithmetic, .threads = 2});
    const auto package = polynomial("fp16, [2, 3]");
    const auto first = backend->open(package, "main"), second = backend->open(package, "");
    const auto a = first->make_call(), b = second->make_call();
    const Array x = ramp({2, 3}, 0.1f);
    fill(a->input("x"), x);
    a->run();
    b->lend("x", a->output("y"));
    b->run();
    const Prediction between = first->predict({{"x", x}});
    const Prediction expected = second->predict({{"x", between.at("y")}});
    CHECK(floats(b->output("y")) == expected.at("y").to_float());
    CHECK(a->copied_bytes() + b->copied_bytes() == 0);
    CHECK(floats(a->output("y")) == between.at("y").to_float());  // the lender's is untouched
  }
}

TEST_CASE("what is lent in another type or with other strides is converted, and counted") {
  const auto predictor = make_predictor(polynomial("fp32, [2, 3]"));
  const std::vector<float> expected = predictor->predict({{"x", ramp({2, 3}, 1)}}).at("y").to_float();
  const auto call = predictor->make_call();
  std::vector<double> doubles{1, 2, 3, 4, 5, 6};
  std::vector<float> padded{1, 2, 3, -1, 4, 5, 6, -1};
  std::vector<float> across{1, 4, 2, 5, 3, 6};
  std::vector<uint16_t> halves{0x3c00, 0x4000, 0x4200, 0xffff, 0x4400, 0x4500, 0x4600, 0xffff};
  uint64_t copied = 0;
  for (const TensorView& view : {TensorView::row_major(DType::fp64, {2, 3}, doubles.data()),
                                 TensorView{DType::fp32, {2, 3}, {4, 1}, padded.data()},
                                 TensorView{DType::fp32, {2, 3}, {1, 2}, across.data()},
                                 TensorView{DType::fp16, {2, 3}, {4, 1}, halves.data()}}) {
    call->lend("x", view);
    call->run();
    CHECK(floats(call->output("y")) == expected);
    CHECK(call->copied_bytes() == (copied += 24));
  }
  // Back to memory of its own.
  fill(call->input("x"), ramp({2, 3}, 1));
  call->run();
  CHECK(floats(call->output("y")) == expected);
  CHECK(call->copied_bytes() == copied);
}

TEST_CASE("in fp16 arithmetic inputs are rounded, and lent memory is not written to") {
  const auto predictor = make_predictor(polynomial("fp16, [2]"), "", {.arithmetic = Arithmetic::fp16});
  // numpy: x = float16(1/3), y = x * x + x, each result in float16; and the same for 0.1
  const Array x = Array::from<float>({2}, {1.0f / 3, 0.1f});
  const std::vector<float> expected{0.4443359375f, 0.1099853515625f};
  const auto call = predictor->make_call();
  fill(call->input("x"), x);
  call->run();
  CHECK(floats(call->output("y")) == expected);
  CHECK(floats(call->input("x")) == std::vector<float>{0.333251953125f, 0.0999755859375f});
  call->lend("x", TensorView::of(x));
  call->run();
  CHECK(floats(call->output("y")) == expected);
  CHECK(call->copied_bytes() == 8);
  CHECK(x.to_float() == std::vector<float>{1.0f / 3, 0.1f});
  const Array rounded = Array::from<float>({2}, {0.333251953125f, 0.0999755859375f});
  call->lend("x", TensorView::of(rounded));
  call->run();
  CHECK(floats(call->output("y")) == expected);
  CHECK(call->copied_bytes() == 8);
  CHECK_FALSE(call->fault());
  const Array large = Array::from<float>({2}, {1, 300});
  call->lend("x", TensorView::of(large));
  call->run();
  REQUIRE(call->fault());
  CHECK(call->fault()->op == "s");
  CHECK_FALSE(predictor->make_call()->fault());  // though it works with what that call worked with
}

TEST_CASE("flexible inputs take the shapes that a call is made for") {
  const auto predictor = make_predictor(flexible());
  const Array w = Array::from<float>({3}, {1, 10, 100});
  for (const int64_t rows : {4, 1, 8}) {
    const auto call = predictor->make_call({{"x", {rows, 3}}});
    const Array x = ramp({rows, 3}, 1);
    fill(call->input("x"), x);
    call->lend("w", TensorView::of(w));
    call->run();
    CHECK(call->output("y").shape == std::vector<int64_t>{rows, 3});
    CHECK(floats(call->output("y")) == predictor->predict({{"x", x}, {"w", w}}).at("y").to_float());
  }
  const std::string takes = "expected x: fp32 [1..8, 3]; w: fp32 [3]";
  CHECK(message([&] { predictor->make_call(); }) ==
        "the call does not say the shape of the flexible input 'x'; " + takes);
  CHECK(message([&] { predictor->make_call({{"x", {9, 3}}}); }) ==
        "the input 'x' has the wrong shape; found [9, 3], expected x: fp32 [1..8, 3]");
  CHECK(message([&] { predictor->make_call({{"x", {1, 3}}, {"z", {1}}}); }) ==
        "the function 'main' has no input 'z'; " + takes);
}

TEST_CASE("a call says what is wrong with its inputs") {
  const auto predictor = make_predictor(flexible());
  const auto call = predictor->make_call({{"x", {2, 3}}});
  const std::string takes = "expected x: fp32 [1..8, 3]; w: fp32 [3]";
  const Array other = ramp({3, 3}, 0), wrong = ramp({2}, 0), w = ramp({3}, 0);
  CHECK(message([&] { call->input("z"); }) == "the function 'main' has no input 'z'; " + takes);
  CHECK(message([&] { call->lend("z", TensorView::of(w)); }) ==
        "the function 'main' has no input 'z'; " + takes);
  CHECK(message([&] { call->lend("w", TensorView::of(wrong)); }) ==
        "the input 'w' has the wrong shape; found [2], expected w: fp32 [3]");
  CHECK(message([&] { call->lend("x", TensorView::of(other)); }) ==
        "the input 'x' has another shape than the call was made for; found [3, 3], expected [2, 3]");
  CHECK(message([&] {
          call->lend("w", {DType::fp32, {3}, {1}, nullptr});
        }).starts_with("what is lent as the input 'w' is no view of elements"));
  CHECK(message([&] { call->output("y"); }) == "there is no output 'y': the call has not been run");
  CHECK(call->outputs().empty());
  call->input("x");
  CHECK(message([&] { call->run(); }) == "the input 'w' is missing; " + takes);
  call->lend("w", TensorView::of(w));
  call->run();
  CHECK(message([&] { call->output("x"); }) == "there is no output 'x'; expected y");
}

TEST_CASE("whole numbers in place are held to their declared type") {
  const auto predictor = make_predictor(package_of(
      "tensor<bool, [2]> b", "tensor<bool, [2]> y = logical_not(x = b)[name = string(\"y\")];", "y"));
  const auto call = predictor->make_call();
  const std::span<int32_t> b = call->input("b").values<int32_t>();
  b[0] = 1;
  call->run();
  CHECK(call->output("y").to_int() == std::vector<int64_t>{0, 1});
  b[1] = 2;
  const std::string refused = "a value of the input 'b' is outside its type; found 2, expected bool: 0 to 1";
  CHECK(message([&] { call->run(); }) == refused);
  const Array two = Array::from<int32_t>({2}, {0, 2});
  call->lend("b", TensorView::of(two));
  CHECK(message([&] { call->run(); }) == refused);
}

TEST_CASE("an output that is an input in another shape holds when the input is gone") {
  const auto predictor = make_predictor(package_of(
      "tensor<fp32, [2, 3]> x",
      "tensor<fp32, [6]> y = reshape(x = x, shape = tensor<int32, [1]>([6]))[name = string(\"y\")];", "y"));
  const auto call = predictor->make_call();
  Array x = ramp({2, 3}, 1);
  call->lend("x", TensorView::of(x));
  call->run();
  std::ranges::fill(x.values<float>(), 0.0f);
  CHECK(floats(call->output("y")) == ramp({6}, 1).to_float());
  CHECK(call->copied_bytes() == 24);
}

TEST_CASE("a call can be fed with its own output") {
  const auto predictor = make_predictor(polynomial("fp32, [2]"));
  const auto call = predictor->make_call();
  Array x = Array::from<float>({2}, {0.5f, -0.25f});
  call->lend("x", TensorView::of(x));
  call->run();
  for (int i = 0; i < 3; ++i) {
    x = predictor->predict({{"x", x}}).at("y");
    CHECK(floats(call->output("y")) == x.to_float());
    call->lend("x", call->output("y"));
    call->run();
  }
}

TEST_CASE("the memory of a call serves the next one") {
  const auto predictor = make_predictor(flexible());
  const Array w = ramp({3}, 1);
  const void* where = nullptr;
  uint64_t held = 0;
  for (int i = 0; i < 3; ++i) {
    const auto call = predictor->make_call({{"x", {8, 3}}});
    const TensorView x = call->input("x");
    CHECK(floats(x) == std::vector<float>(24));  // nothing of the last call is seen
    fill(x, ramp({8, 3}, 1));
    call->lend("w", TensorView::of(w));
    call->run();
    if (i == 0) {
      where = x.data;
      held = predictor->memory_bytes();
      CHECK(held >= 2 * 24 * 4);  // x and y
    }
    CHECK(x.data == where);
    CHECK(predictor->memory_bytes() == held);
  }
  CHECK(predictor->memory_bytes() == held);
  {
    const auto a = predictor->make_call({{"x", {8, 3}}}), b = predictor->make_call({{"x", {8, 3}}});
    CHECK(a->input("x").data != b->input("x").data);
  }
  CHECK(predictor->memory_bytes() > held);  // two ran side by side
}

TEST_CASE("calls run on several threads at once") {
  const auto predictor = make_predictor(polynomial("fp32, [64, 64]"), "", {.threads = 2});
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto call = predictor->make_call();
        const float value = static_cast<float>(t * 100 + i);
        std::ranges::fill(call->input("x").values<float>(), value);
        call->run();
        const auto y = call->output("y").values<float>();
        if (std::ranges::all_of(y, [&](float v) { return v == value * value + value; }))
          ++right[static_cast<size_t>(t)];
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 20));
}

TEST_CASE("a call outlives its predictor and its backend") {
  auto call = make_predictor(polynomial("fp32, [2]"))->make_call();
  fill(call->input("x"), Array::from<float>({2}, {1, 2}));
  call->run();
  CHECK(floats(call->output("y")) == std::vector<float>{2, 6});
}

TEST_CASE("a state is cloned with what it holds") {
  const auto predictor =
      make_predictor(package_of("tensor<fp16, [2]> x, state<tensor<fp16, [2]>> s",
                                "tensor<fp16, [2]> old = read_state(input = s)[name = string(\"old\")];"
                                "tensor<fp16, [2]> y = add(x = old, y = x)[name = string(\"y\")];"
                                "write_state(data = y, input = s)[name = string(\"w\")];",
                                "y"));
  const auto state = predictor->make_state();
  const auto call = predictor->make_call();
  std::ranges::fill(call->input("x").values<float>(), 1.0f);
  call->run(state.get());
  const auto copy = state->clone();
  CHECK(copy->bytes() == 8);
  call->run(copy.get());
  CHECK(state->get("s").to_float() == std::vector<float>{1, 1});
  CHECK(copy->get("s").to_float() == std::vector<float>{2, 2});
  CHECK(message([&] { call->run(); }) == "the function 'main' needs a state");
}

TEST_CASE("a backend names itself and its arithmetic") {
  const auto backend = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1});
  CHECK(backend->name() == "cpu");
  CHECK(backend->arithmetic() == Arithmetic::fp16);
  const auto predictor = backend->open(polynomial("fp32, [2]"), "", {"s"});
  const auto call = predictor->make_call();
  fill(call->input("x"), Array::from<float>({2}, {3, 4}));
  call->run();
  CHECK(call->outputs() == std::vector<std::string>{"y", "s"});
  CHECK(floats(call->output("s")) == std::vector<float>{9, 16});
}

TEST_CASE("a call takes what another one gave, and one that rests lets others use its memory") {
  const auto predictor = make_predictor(polynomial("fp32, [2]"));
  const std::string x = predictor->signature().inputs[0].name, y = predictor->signature().outputs[0].name;
  const auto first = predictor->make_call(), second = predictor->make_call();
  const auto fill = [&](float a, float b) {
    const std::span<float> values = first->input(x).values<float>();
    values[0] = a, values[1] = b;
  };
  fill(1, 2);
  first->run();
  const std::vector<float> once = first->output(y).to_float();
  second->chain(x, *first, y);
  second->run();
  const std::vector<float> twice = second->output(y).to_float();
  CHECK(second->copied_bytes() == 0);
  fill(once[0], once[1]);
  first->run();
  CHECK(first->output(y).to_float() == twice);

  const uint64_t bytes = predictor->memory_bytes();
  first->rest();
  first->rest();
  CHECK_THROWS_WITH_AS(first->output(y), doctest::Contains("has not been run"), Error);
  CHECK_THROWS_WITH_AS(first->run(), doctest::Contains("is missing"), Error);  // filled anew for each run
  first->rest();
  const auto third = predictor->make_call();
  third->lend(x, second->output(y));
  third->run();
  CHECK(predictor->memory_bytes() == bytes);  // of three calls two at most have been awake
}
