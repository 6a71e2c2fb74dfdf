#include <doctest/doctest.h>

#include <cmath>

#include "anemone/error.h"
#include "anemone/predictor.h"
#include "mil/text.h"
#include "package/package.h"

using namespace anemone;

namespace {

// A package around a program in MIL text.
std::shared_ptr<const Package> package_of(const std::string& inputs, const std::string& body,
                                          const std::string& outputs, const std::string& opset = "ios18") {
  auto p = std::make_shared<Package>();
  p->program = parse_mil(
      "program(1.3)\n{ func main<" + opset + ">(" + inputs + ") {" + body + "} -> (" + outputs + "); }", "t");
  p->description = description_of(p->program);
  p->spec_version = 9;
  return p;
}

// Starts with x and appends `what` to what it has (a), n times.
std::shared_ptr<const Package> growing_loop(const std::string& shape, const std::string& what) {
  return package_of(
      "tensor<int32, [1]> n, tensor<fp32, " + shape + "> x",
      "tensor<int32, [1]> zero = const()[name = string(\"zero\"), val = tensor<int32, [1]>([0])];"
      "tensor<int32, [1]> i_out, tensor<fp32, [?]> y = while_loop(loop_vars = (zero, x))[name = "
      "string(\"loop\")]"
      " (tensor<int32, [1]> i, tensor<fp32, [?]> a) { tensor<bool, [1]> more = less(x = i, y = "
      "n)[name = string(\"more\")];"
      "   bool go = squeeze(x = more)[name = string(\"go\")]; } -> (go)"
      " (tensor<int32, [1]> i, tensor<fp32, [?]> a) {"
      "   tensor<int32, [1]> one = const()[name = string(\"one\"), val = tensor<int32, [1]>([1])];"
      "   tensor<int32, [1]> next = add(x = i, y = one)[name = string(\"next\")];"
      "   tensor<fp32, [?]> longer = concat(axis = int32(0), values = (a, " +
          what + "))[name = string(\"longer\")]; } -> (next, longer);",
      "y, i_out");
}

std::vector<float> floats(const Array& a) { return a.to_float(); }

}  // namespace

TEST_CASE("a loop runs until its condition fails, also when shapes grow") {
  const auto predictor = make_predictor(growing_loop("[1]", "a"));  // twice as long each time
  for (const int32_t n : {0, 1, 3}) {
    const Prediction out =
        predictor->predict({{"n", Array::from<int32_t>({1}, {n})}, {"x", Array::from<float>({1}, {5})}});
    CHECK(out.at("y").shape() == std::vector<int64_t>{int64_t{1} << n});
    CHECK(out.at("i_out").to_int()[0] == n);
  }
}

TEST_CASE("a loop that meets a new shape each time round does not keep memory for all of them") {
  const auto predictor = make_predictor(growing_loop("[64]", "x"));
  const int32_t n = 1000;  // the results of all rounds are 128 MB
  Array x(DType::fp32, {64});
  for (float& v : x.values<float>()) v = 2;
  const Prediction out = predictor->predict({{"n", Array::from<int32_t>({1}, {n})}, {"x", x}});
  CHECK(out.at("y").shape() == std::vector<int64_t>{64 * (n + 1)});
  CHECK(out.at("y").to_float().back() == 2);
  CHECK(predictor->memory_bytes() < 32'000'000);
}

TEST_CASE("a branch takes its block, and what follows a data-dependent shape is planned when it is known") {
  const auto package = package_of(
      "tensor<fp32, [4]> x, tensor<fp32, [1]> p",
      "tensor<fp32, [1]> zero = const()[name = string(\"zero\"), val = tensor<fp32, [1]>([0x0p+0])];"
      "tensor<bool, [1]> q = greater(x = p, y = zero)[name = string(\"q\")];"
      "bool pred = squeeze(x = q)[name = string(\"pred\")];"
      "tensor<fp32, [4]> c = cond(pred = pred)[name = string(\"c\")] () { tensor<fp32, [4]> a = relu(x = "
      "x)[name = string(\"a\")]; } -> (a)"
      " () { tensor<fp32, [4]> b = abs(x = x)[name = string(\"b\")]; } -> (b);"
      "tensor<int32, [?, 1]> nz = non_zero(x = c)[name = string(\"nz\")];"
      "tensor<int32, [2]> shape = shape(x = nz)[name = string(\"shape\")];"
      "tensor<fp32, [?]> picked = gather_nd(indices = nz, x = c)[name = string(\"picked\")];"
      "tensor<fp32, [?]> y = square(x = picked)[name = string(\"y\")];",
      "y, shape");
  const auto predictor = make_predictor(package);
  const Array x = Array::from<float>({4}, {-1, 0, 2, -3});
  Prediction out = predictor->predict({{"x", x}, {"p", Array::from<float>({1}, {1})}});
  CHECK(floats(out.at("y")) == std::vector<float>{4});
  CHECK(out.at("shape").to_int() == std::vector<int64_t>{1, 1});
  out = predictor->predict({{"x", x}, {"p", Array::from<float>({1}, {-1})}});
  CHECK(floats(out.at("y")) == std::vector<float>{1, 4, 9});
}

TEST_CASE("a state is read as it was, written, and kept from call to call") {
  const auto package = package_of("tensor<fp16, [2]> x, state<tensor<fp16, [2]>> s",
                                  "tensor<fp16, [2]> old = read_state(input = s)[name = string(\"old\")];"
                                  "tensor<fp16, [2]> sum = add(x = old, y = x)[name = string(\"sum\")];"
                                  "write_state(data = sum, input = s)[name = string(\"w\")];"
                                  "tensor<fp16, [2]> now = read_state(input = s)[name = string(\"now\")];"
                                  "tensor<fp16, [2]> y = sub(x = now, y = old)[name = string(\"y\")];",
                                  "y, now");
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
    const auto predictor = make_predictor(package, "", {.arithmetic = arithmetic});
    const auto state = predictor->make_state();
    const Array x = Array::from<float>({2}, {1, 2});
    for (int i = 1; i <= 3; ++i) {
      const Prediction out = predictor->predict({{"x", x}}, state.get());
      CHECK(floats(out.at("y")) == std::vector<float>{1, 2});  // `old` is what it was before the write
      CHECK(floats(out.at("now")) == std::vector<float>{static_cast<float>(i), static_cast<float>(2 * i)});
    }
    CHECK(floats(state->get("s")) == std::vector<float>{3, 6});
    state->set("s", Array::from<float>({2}, {10, 20}));
    CHECK(floats(predictor->predict({{"x", x}}, state.get()).at("now")) == std::vector<float>{11, 22});
    CHECK_THROWS_WITH_AS(predictor->predict({{"x", x}}), "the function 'main' needs a state", Error);
    CHECK_THROWS_AS(state->set("s", Array::from<float>({1}, {1})), Error);
  }
}

TEST_CASE(
    "states of type fp16 are kept as fp16 but in fp32 arithmetic, and whoever looks at them gets numbers") {
  // Views of a state that leave the function, and that an operation takes.
  const auto package = package_of(
      "tensor<fp16, [1]> p, state<tensor<fp16, [2, 3]>> s",
      "tensor<fp16, [2, 3]> all = read_state(input = s)[name = string(\"all\")];"
      "tensor<fp16, [1, 3]> row = slice_by_index(begin = tensor<int32, [2]>([1, 0]), end = tensor<int32, "
      "[2]>([2, 3]), x = all)[name = string(\"row\")];"
      "tensor<fp16, [3]> flat = reshape(shape = tensor<int32, [1]>([3]), x = row)[name = string(\"flat\")];"
      "tensor<fp16, [3]> twice = add(x = flat, y = flat)[name = string(\"twice\")];",
      "row, twice");
  const Array values = Array::from<float>({2, 3}, {1, 2, 3, 0.1f, 1.0f / 3, 1000.3f});
  // By numpy.float16.
  const std::vector<float> rounded = {0.0999755859375f, 0.333251953125f, 1000.5f};
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
    const bool exact = arithmetic == Arithmetic::fp32;
    // With a plan that is made when there is no state yet, too.
    for (const bool early : {false, true}) {
      const auto predictor = make_predictor(package, "", {.arithmetic = arithmetic});
      if (early) predictor->make_call({{"p", {1}}})->get_ready();
      const auto state = predictor->make_state();
      CHECK(state->bytes() == (exact ? 24 : 12));
      state->set("s", values);
      const std::vector<float> kept = exact ? std::vector<float>{0.1f, 1.0f / 3, 1000.3f} : rounded;
      const auto fork = state->clone();
      for (State* one : {state.get(), fork.get()}) {
        const Prediction out = predictor->predict({{"p", Array::from<float>({1}, {0})}}, one);
        CHECK(floats(out.at("row")) == kept);
        for (size_t i = 0; i < kept.size(); ++i) CHECK(floats(out.at("twice"))[i] == 2 * kept[i]);
        const std::vector<float> all = floats(one->get("s"));
        CHECK(std::vector<float>(all.begin() + 3, all.end()) == kept);
      }
    }
  }
}

TEST_CASE("a state of another arithmetic is taken, whatever plan there is") {
  const auto package = package_of("tensor<fp16, [3]> x, state<tensor<fp16, [3]>> s",
                                  "tensor<fp16, [3]> old = read_state(input = s)[name = string(\"old\")];"
                                  "tensor<fp16, [3]> y = add(x = old, y = x)[name = string(\"y\")];",
                                  "y");
  const std::map<std::string, Array> x{{"x", Array::from<float>({3}, {1, 2, 3})}};
  const auto exact = make_predictor(package, "", {.arithmetic = Arithmetic::fp32});
  const auto fast = make_predictor(package, "", {.arithmetic = Arithmetic::fast});
  for (const Predictor* runner : {exact.get(), fast.get()})
    for (const Predictor* maker : {exact.get(), fast.get(), exact.get()}) {
      const auto state = maker->make_state();
      state->set("s", Array::from<float>({3}, {10, 20, 30}));
      CHECK(floats(runner->predict(x, state.get()).at("y")) == std::vector<float>{11, 22, 33});
    }
}

TEST_CASE("fp16 arithmetic rounds declared halves once an op and names the first overflow") {
  const auto package =
      package_of("tensor<fp16, [2]> x",
                 "tensor<fp16, [2]> a = mul(x = x, y = x)[name = string(\"first_square\")];"
                 "tensor<fp16, [2]> y = mul(x = a, y = a)[name = string(\"second_square\")];",
                 "y");
  const Array x = Array::from<float>({2}, {1.0f / 3, 20});
  CHECK(floats(make_predictor(package)->predict({{"x", x}}).at("y"))[1] == 160000.0f);
  const Prediction half = make_predictor(package, "", {.arithmetic = Arithmetic::fp16})->predict({{"x", x}});
  CHECK(std::isinf(floats(half.at("y"))[1]));
  // 1/3 → 0.33325195; squared 0.11105686 → 0.111083984; squared 0.012339652 → 0.012336731 (numpy float16)
  CHECK(floats(half.at("y"))[0] == 0.012336731f);
  REQUIRE(half.fault);
  CHECK(half.fault->op == "second_square");
  CHECK_FALSE(half.fault->nan);
}

TEST_CASE("inputs are taken as they come, and what does not fit is listed") {
  const auto package = package_of("tensor<fp16, [2, 1]> x, tensor<int32, [1]> i",
                                  "tensor<fp16, [2, 1]> y = relu(x = x)[name = string(\"y\")];"
                                  "tensor<int32, [1]> j = abs(x = i)[name = string(\"j\")];",
                                  "y, j");
  const auto predictor = make_predictor(package);
  const Array i = Array::from<float>({1}, {-7});
  CHECK(predictor->predict({{"x", Array::from<double>({2, 1}, {1, -1})}, {"i", i}}).at("j").to_int()[0] == 7);
  const auto message = [&](const std::map<std::string, Array>& inputs) {
    try {
      predictor->predict(inputs);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Array x = Array::from<float>({2, 1}, {1, 2});
  CHECK(message({{"x", x}}) == "the input 'i' is missing; expected x: fp16 [2, 1]; i: int32 [1]");
  CHECK(message({{"x", x}, {"i", i}, {"z", i}}) ==
        "the function 'main' has no input 'z'; expected x: fp16 [2, 1]; i: int32 [1]");
  CHECK(message({{"x", i}, {"i", i}}) ==
        "the input 'x' has the wrong shape; found [1], expected x: fp16 [2, 1]");
  CHECK(message({{"x", x}, {"i", Array::from<float>({1}, {0.5f})}}) ==
        "input 'i': a value is not a whole number; found 0.5, expected i: int32 [1]");
  CHECK(message({{"x", x}, {"i", Array::from<double>({1}, {3e9})}}).find("is outside its type") !=
        std::string::npos);
}

TEST_CASE("values inside a program can be tapped") {
  const auto package = package_of("tensor<fp32, [2]> x",
                                  "tensor<fp32, [2]> a = relu(x = x)[name = string(\"a\")];"
                                  "tensor<fp32, [2]> b = square(x = a)[name = string(\"b\")];"
                                  "tensor<fp32, [2]> y = exp(x = b)[name = string(\"y\")];",
                                  "y");
  const auto out =
      make_predictor(package, "", {}, {"a", "b"})->predict({{"x", Array::from<float>({2}, {-1, 3})}});
  CHECK(floats(out.at("a")) == std::vector<float>{0, 3});
  CHECK(floats(out.at("b")) == std::vector<float>{0, 9});
  CHECK_THROWS_AS(make_predictor(package, "", {}, {"nothing"}), Error);
  CHECK_THROWS_WITH_AS(make_predictor(package, "other"), doctest::Contains("there is no function 'other'"),
                       Error);
}

TEST_CASE("states of whole numbers and of one number are set and got back") {
  const auto package =
      package_of("tensor<int8, [2]> x, state<tensor<int8, [2]>> sum, state<tensor<fp16, []>> count",
                 "tensor<int8, [2]> old = read_state(input = sum)[name = string(\"old\")];"
                 "tensor<int32, [2]> a = cast(dtype = string(\"int32\"), x = old)[name = string(\"a\")];"
                 "tensor<int32, [2]> b = cast(dtype = string(\"int32\"), x = x)[name = string(\"b\")];"
                 "tensor<int32, [2]> c = add(x = a, y = b)[name = string(\"c\")];"
                 "tensor<int8, [2]> y = cast(dtype = string(\"int8\"), x = c)[name = string(\"y\")];"
                 "write_state(data = y, input = sum)[name = string(\"w\")];"
                 "fp16 n = read_state(input = count)[name = string(\"n\")];"
                 "fp16 m = add(x = n, y = fp16(1))[name = string(\"m\")];"
                 "write_state(data = m, input = count)[name = string(\"v\")];",
                 "y", "ios26");
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
    const auto predictor = make_predictor(package, "", {.arithmetic = arithmetic});
    const auto state = predictor->make_state();
    state->set("sum", Array::from<int8_t>({2}, {100, -7}));
    const std::map<std::string, Array> inputs = {{"x", Array::from<int32_t>({2}, {1, 2})}};
    CHECK(predictor->predict(inputs, state.get()).at("y").to_int() == std::vector<int64_t>{101, -5});
    const auto copy = predictor->make_state();
    for (const std::string& name : state->names()) copy->set(name, state->get(name));
    CHECK(predictor->predict(inputs, copy.get()).at("y").to_int() == std::vector<int64_t>{102, -3});
    CHECK(floats(copy->get("count")) == std::vector<float>{2});
    CHECK_THROWS_WITH_AS(state->set("sum", Array::from<int32_t>({2}, {1, 300})),
                         doctest::Contains("a value of the state 'sum' is outside its type"), Error);
  }
}

TEST_CASE("what cannot be run is said before it is") {
  CHECK_THROWS_AS(make_predictor(nullptr), Error);
  CHECK_THROWS_WITH_AS(
      make_predictor(package_of("tensor<fp16, [2]> x, state<tensor<fp16, [?]>> s",
                                "tensor<fp16, [2]> y = relu(x = x)[name = string(\"y\")];", "y")),
      doctest::Contains("the state 's' has no fixed shape"), Error);
  // A loop that asks a number.
  const auto loop = package_of("tensor<fp32, [1]> x",
                               "tensor<fp32, [1]> y = while_loop(loop_vars = (x))[name = string(\"loop\")]"
                               " (tensor<fp32, [1]> a) { } -> (a)"
                               " (tensor<fp32, [1]> a) { tensor<fp32, [1]> b = relu(x = a)[name = "
                               "string(\"b\")]; } -> (b);",
                               "y");
  CHECK_THROWS_WITH_AS(make_predictor(loop)->predict({{"x", Array::from<float>({1}, {0})}}),
                       doctest::Contains("the condition is not one bool; found tensor<fp32, [1]>"), Error);
  const auto relu =
      package_of("tensor<fp32, [2]> x", "tensor<fp32, [2]> y = relu(x = x)[name = string(\"y\")];", "y");
  Package other;
  other.program = parse_mil(print_mil(relu->program), "t");
  other.description = relu->description;
  other.description.default_function = "gone";
  CHECK_THROWS_WITH_AS(make_predictor(std::make_shared<Package>(std::move(other))),
                       doctest::Contains("there is no function 'gone'"), Error);
  // A default that says it is larger than the input can be.
  Package huge;
  huge.program = parse_mil(print_mil(relu->program), "t");
  huge.description = relu->description;
  huge.description.main.inputs[0].type.optional = true;
  huge.description.main.inputs[0].type.array.shape = {int64_t{1} << 31, int64_t{1} << 31};
  CHECK_THROWS_WITH_AS(make_predictor(std::make_shared<Package>(std::move(huge)))->predict({}),
                       doctest::Contains("the default of the input 'x' has the wrong shape"), Error);
}

TEST_CASE("sizes beyond the machine are refused, not tried") {
  const auto package = package_of(
      "tensor<fp32, [1]> x",
      "tensor<fp32, [1048576, 1048576]> y = tile(reps = tensor<int32, [2]>([1048576, 1048576]), x = "
      "tensor<fp32, [1, 1]>([[0x1p+0]]))[name = string(\"y\")];",
      "y");
  CHECK_THROWS_AS(make_predictor(package)->predict({{"x", Array::from<float>({1}, {1})}}), Error);
  const auto state = package_of(
      "tensor<fp32, [1]> x, state<tensor<fp32, [4611686018427387904]>> s",
      "tensor<fp32, [4611686018427387904]> all = read_state(input = s)[name = string(\"all\")];"
      "tensor<fp32, [1]> y = slice_by_index(begin = tensor<int32, [1]>([2147483646]), end = tensor<int32, "
      "[1]>([2147483647]), x = all)[name = string(\"y\")];",
      "y");
  CHECK_THROWS_AS(make_predictor(state)->make_state(), Error);
}
