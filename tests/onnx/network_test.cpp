#include "onnx/network.h"

#include <doctest/doctest.h>

#include "anemone/predictor.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/npy.h"
#include "engine/cpu_backend.h"
#include "mil/passes/half.h"
#include "onnx/interpret/interpreter.h"
#include "onnx/made_model.h"
#include "support/data.h"
#include "verify/network.h"

namespace anemone::made {

namespace {

Prediction run(OnnxNetwork net, const std::map<std::string, Array>& inputs, State* state = nullptr) {
  auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  return cpu_backend({.threads = 1})->open(package, "main")->predict(inputs, state);
}

}  // namespace

TEST_CASE("onnx network: all operators that are not there are listed at once, with counts") {
  const OnnxModel model = model_of({node("Foo", {"x"}, "a"), node("Foo", {"a"}, "b"),
                                    node("Bar", {"b"}, "c", "com.microsoft"), node("Relu", {"c"}, "y")},
                                   {value_info("x", {2})}, {value_info("y", {2})});
  const std::string error = error_of([&] { lower_network(model, {}); });
  CHECK_MESSAGE(has(error, "cannot be converted: Foo (2), com.microsoft.Bar (1)"), error);
}

TEST_CASE("onnx network: sizes that nobody said are asked for") {
  const OnnxModel model =
      model_of({node("Relu", {"x"}, "y")}, {value_info("x", {-1, 3})}, {value_info("y", {-1, 3})});
  const std::string error = error_of([&] { lower_network(model, {}); });
  CHECK_MESSAGE(has(error, "--shape x=n,3"), error);
  CHECK(has(error_of([&] { lower_network(model, {.shapes = {{"x", {2, 4}}}}); }), "does not fit the model"));
  CHECK(has(error_of([&] { lower_network(model, {.shapes = {{"z", {2}}}}); }),
            "'z', which the model does not have"));
  const Prediction p = run(lower_network(model, {.shapes = {{"n", {2}}}}),
                           {{"x", Array::from<float>({2, 3}, {-1, 2, -3, 4, -5, 6})}});
  CHECK(p.at("y").to_float() == std::vector<float>{0, 2, 0, 4, 0, 6});
}

TEST_CASE("onnx network: a dimension that varies") {
  const OnnxModel model = model_of({node("Relu", {"x"}, "a"), node("ReduceSum", {"a"}, "y")},
                                   {value_info("x", {-1, 3})}, {value_info("y", {1, 1})});
  OnnxNetworkOptions options;
  options.dynamic["n"] = {1, 8, {}};
  auto package = std::make_shared<const Package>(network_package(lower_network(model, options), "t.onnx"));
  const auto& range = package->description.main.inputs[0].type.array.range;
  REQUIRE(range.size() == 2);
  CHECK((range[0].lower == 1 && range[0].upper == 8));
  const auto predictor = cpu_backend({.threads = 1})->open(package, "main");
  CHECK(predictor->predict({{"x", Array::from<float>({1, 3}, {1, -1, 2})}}, nullptr).at("y").to_float()[0] ==
        3);
  CHECK(predictor->predict({{"x", Array::from<float>({2, 3}, {1, -1, 2, 3, 4, 5})}}, nullptr)
            .at("y")
            .to_float()[0] == 15);
}

TEST_CASE("onnx network: names that Core ML does not take are cleaned and remembered") {
  const OnnxModel model =
      model_of({node("Relu", {"in:0/x"}, "out:0")}, {value_info("in:0/x", {2})}, {value_info("out:0", {2})});
  const Package package = network_package(lower_network(model, {}), "t.onnx");
  CHECK(package.description.main.inputs[0].name == "in_0_x");
  CHECK(onnx_names(package).at("in:0/x") == "in_0_x");
  CHECK(onnx_names(package).at("out:0") == "out_0");
}

TEST_CASE("onnx network: a state pair adds up over calls") {
  const OnnxModel model = model_of({node("Add", {"past", "x"}, "present"), node("Neg", {"present"}, "y")},
                                   {value_info("x", {2}), value_info("past", {2})},
                                   {value_info("y", {2}), value_info("present", {2})});
  OnnxNetwork net = lower_network(model, {.states = {{"past", "present"}}});
  auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  CHECK(package->description.main.states.size() == 1);
  const auto predictor = cpu_backend({.threads = 1})->open(package, "main");
  const auto state = predictor->make_state();
  const std::map<std::string, Array> x = {{"x", Array::from<float>({2}, {1, 2})}};
  CHECK(predictor->predict(x, state.get()).at("y").to_float() == std::vector<float>{-1, -2});
  CHECK(predictor->predict(x, state.get()).at("y").to_float() == std::vector<float>{-2, -4});
}

TEST_CASE("onnx network: halves, with an island where squares would leave the range") {
  const OnnxModel model = model_of({node("Mul", {"x", "x"}, "q"), node("ReduceMean", {"q"}, "m"),
                                    node("Sqrt", {"m"}, "r"), node("Div", {"x", "r"}, "y")},
                                   {value_info("x", {1, 2})}, {value_info("y", {1, 2})});
  OnnxNetwork net = lower_network(model, {});
  const HalfReport report = to_half(*net.program.find_function("main"));
  CHECK(report.islands == 3);
  CHECK(report.halves == 1);
  auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  const auto predictor = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1})->open(package, "main");
  const Prediction p = predictor->predict({{"x", Array::from<float>({1, 2}, {3000, 4000})}}, nullptr);
  CHECK_FALSE(p.fault);
  CHECK(p.at("y").to_float()[0] == doctest::Approx(0.8485).epsilon(2e-3));
}

TEST_CASE("onnx network: whole numbers of unknown size that become fp16 are named") {
  const auto halved = [](const std::vector<Message>& nodes, Prediction& p) {
    const OnnxModel model =
        model_of(nodes, {value_info("m", {2}, 6), value_info("x", {2})}, {value_info("y", {2})});
    OnnxNetwork net = lower_network(model, {});
    const HalfReport report = to_half(*net.program.find_function("main"));
    auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
    p = cpu_backend({.arithmetic = Arithmetic::fp16, .threads = 1})
            ->open(package, "main")
            ->predict(
                {{"m", Array::from<int32_t>({2}, {100000, 1})}, {"x", Array::from<float>({2}, {0.5f, 2})}},
                nullptr);
    return report.narrowed;
  };
  Prediction p;
  // A mask that activations are multiplied with: 100000 does not fit. The engine says so as well.
  CHECK(halved({node("CastLike", {"m", "x"}, "f"), node("Mul", {"f", "x"}, "y")}, p) ==
        std::vector<std::string>{"f"});
  CHECK(p.fault);
  // Whole numbers among themselves and constants stay in fp32: sin(100000 / 1000), by hand.
  CHECK(halved({constant_node(float_tensor("w", {1000, 1}), "w"), node("CastLike", {"m", "x"}, "f"),
                node("Div", {"f", "w"}, "d"), node("Sin", {"d"}, "s"), node("Add", {"s", "x"}, "y")},
               p)
            .empty());
  CHECK_FALSE(p.fault);
  CHECK(p.at("y").to_float()[0] == doctest::Approx(0.5 - 0.50636564).epsilon(2e-3));
  // Numbers that cannot be large: a flag.
  CHECK(halved(
            {node("Equal", {"m", "m"}, "b"), node("CastLike", {"b", "x"}, "g"), node("Add", {"g", "x"}, "y")},
            p)
            .empty());
  CHECK_FALSE(p.fault);
}

TEST_CASE("onnx network: activations of an LSTM take their parameters in order") {
  const std::filesystem::path folder = source_dir() / "tests/data/onnx";
  const OnnxModel model = OnnxModel::open(folder / "lstm_activations.onnx");
  OnnxNetwork net = lower_network(model, {});
  auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  const std::string path = (folder / "lstm_activations.npz").string();
  std::map<std::string, Array> data;
  for (auto& [key, array] : parse_npz(MappedFile::open(path)->bytes(), path)) data.emplace(key, array);
  const auto cpu = cpu_backend({.threads = 1});
  const Prediction p = cpu->open(package, "main")->predict({{"x", data.at("x")}}, nullptr);
  const std::vector<float> got = p.at("y").to_float(), want = data.at("want").to_float();
  REQUIRE(got.size() == want.size());
  for (size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
  CHECK(verify_network(package, model, {{"x", data.at("x")}}, *cpu).passed());
}

TEST_CASE("onnx network: an image's pixels are scaled") {
  const OnnxModel model =
      model_of({node("Relu", {"x"}, "y")}, {value_info("x", {1, 3, 2, 2})}, {value_info("y", {1, 3, 2, 2})});
  OnnxNetworkOptions options;
  options.images["x"] = {0.5f, {1, 2, -3}};
  OnnxNetwork net = lower_network(model, options);
  const Package package = network_package(std::move(net), "t.onnx");
  CHECK(package.description.main.inputs[0].type.kind == FeatureType::Kind::image);
  CHECK(package.description.main.inputs[0].type.image.color_space == 20);
}

TEST_CASE("onnx network: whole numbers beyond int32 are refused by name") {
  Message tensor, attribute, constant = node("Constant", {}, "c");
  const int64_t big[] = {int64_t{1} << 40};
  tensor.integers(1, {1});
  tensor.integer(2, 7);
  tensor.data(8, "big");
  tensor.data(9, std::string_view(reinterpret_cast<const char*>(big), 8));
  attribute.data(1, "value");
  attribute.message(5, tensor);
  attribute.integer(20, 4);
  constant.message(5, attribute);
  const OnnxModel model = model_of({constant, node("Add", {"x", "c"}, "y")}, {value_info("x", {1}, 7)},
                                   {value_info("y", {1}, 7)});
  const std::string error = error_of([&] { lower_network(model, {}); });
  CHECK_MESSAGE(has(error, "tensor 'big': the whole number 1099511627776 is outside int32's range"), error);
}

TEST_CASE("onnx network: verify finds no difference in a sound package, and names the node of a faulty one") {
  const std::initializer_list<Message> inputs = {value_info("x", {2, 3})},
                                       outputs = {value_info("y", {2, 3})};
  const OnnxModel model = model_of(
      {node("Relu", {"x"}, "a"), node("Exp", {"a"}, "b"), node("Add", {"b", "x"}, "y")}, inputs, outputs);
  const OnnxModel other = model_of(
      {node("Relu", {"x"}, "a"), node("Tanh", {"a"}, "b"), node("Add", {"b", "x"}, "y")}, inputs, outputs);
  const auto backend = cpu_backend({.threads = 1});
  const auto package = std::make_shared<const Package>(network_package(lower_network(model, {}), "t.onnx"));
  const NetworkVerdict good = verify_network(package, model, {}, *backend);
  CHECK(good.passed());
  CHECK(good.compared == 3);
  CHECK(good.made_inputs);
  const NetworkVerdict bad = verify_network(package, other, {}, *backend);
  CHECK_FALSE(bad.passed());
  REQUIRE(bad.first);
  CHECK(bad.first->node == "node 'b' (Tanh)");
}

TEST_CASE("onnx network: verify compares states over several calls") {
  const std::initializer_list<Message> inputs = {value_info("x", {2}), value_info("past", {2})},
                                       outputs = {value_info("y", {2}), value_info("present", {2})};
  const OnnxModel model =
      model_of({node("Add", {"x", "past"}, "present"), node("Neg", {"present"}, "y")}, inputs, outputs);
  const OnnxModel other =
      model_of({node("Sub", {"x", "past"}, "present"), node("Neg", {"present"}, "y")}, inputs, outputs);
  const auto backend = cpu_backend({.threads = 1});
  const auto package = std::make_shared<const Package>(
      network_package(lower_network(model, {.states = {{"past", "present"}}}), "t.onnx"));
  CHECK(onnx_states(*package) == std::map<std::string, std::string>{{"past", "present"}});
  const NetworkVerdict good = verify_network(package, model, {}, *backend);
  CHECK(good.passed());
  CHECK(good.calls == 3);
  REQUIRE(good.outputs.size() == 2);
  // With an empty state both networks are the same; only the calls after it differ.
  const NetworkVerdict bad = verify_network(package, other, {}, *backend);
  CHECK_FALSE(bad.passed());
  REQUIRE(bad.first);
  CHECK(bad.first->node == "node 'present' (Sub)");
  // From zero, and with zeros, they are the same for ever; a start that is given shows the difference.
  const Array zero = Array::from<float>({2}, {0, 0}), start = Array::from<float>({2}, {3, -4});
  CHECK(verify_network(package, other, {{"x", zero}}, *backend).passed());
  CHECK_FALSE(verify_network(package, other, {{"x", zero}, {"past", start}}, *backend).passed());
  CHECK(verify_network(package, model, {{"past", start}}, *backend).passed());
}

namespace {

// x plus a constant of that many numbers.
Message adding_branch(std::string_view out, std::vector<float> values) {
  const std::string constant = std::string(out) + "_c";
  Message graph;
  graph.message(1, constant_node(float_tensor(constant, std::move(values)), constant));
  graph.message(1, node("Add", {"x", constant}, out));
  graph.message(12, value_info(out, {1, 2}));
  return graph;
}

// y = x + one of two constants, by whether the input "rate" is 16000.
OnnxModel choosing_model(std::vector<float> yes, std::vector<float> no) {
  Message choose = node("If", {"equal"}, "y");
  choose.message(5, graph_attribute("then_branch", adding_branch("a", std::move(yes))));
  choose.message(5, graph_attribute("else_branch", adding_branch("b", std::move(no))));
  return model_of({constant_node(int_scalar("c", 16000), "c"), node("Equal", {"rate", "c"}, "equal"), choose},
                  {value_info("x", {1, 2}), value_info("rate", {}, 7)}, {value_info("y", {1, 2})});
}

}  // namespace

TEST_CASE("onnx network: two branches that fit stay a choice") {
  const OnnxModel model = choosing_model({1, 2}, {10, 20});
  OnnxNetwork net = lower_network(model, {});
  CHECK(net.choices.empty());
  polish_network(net);
  auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  const auto predictor = cpu_backend({.threads = 1})->open(package, "main");
  const Array x = Array::from<float>({1, 2}, {1, 1});
  const auto with = [&](int32_t rate) {
    return predictor->predict({{"x", x}, {"rate", Array::from<int32_t>({1}, {rate})}}, nullptr)
        .at("y")
        .to_float();
  };
  CHECK(with(16000) == std::vector<float>{2, 3});
  CHECK(with(8000) == std::vector<float>{11, 21});
}

TEST_CASE("onnx network: a branch that the shapes do not fit is left out, and said") {
  const OnnxModel model = choosing_model({1, 2}, {1, 2, 3});
  OnnxNetwork net = lower_network(model, {});
  REQUIRE(net.choices.size() == 1);
  CHECK(net.choices[0].input == "rate");
  CHECK(net.choices[0].value == 16000);
  CHECK(has(net.choices[0].why, "fit only rate == 16000"));
  CHECK(net.fixed.at("rate") == std::vector<int64_t>{16000});
  const auto package = std::make_shared<const Package>(network_package(std::move(net), "t.onnx"));
  CHECK(package->description.main.inputs.size() == 1);
  // verify knows the value from the package.
  const auto backend = cpu_backend({.threads = 1});
  CHECK(verify_network(package, model, {}, *backend).passed());
  // The other way round the value is not known, only that it is another.
  const OnnxNetwork other = lower_network(choosing_model({1, 2, 3}, {1, 2}), {});
  REQUIRE(other.choices.size() == 1);
  CHECK_FALSE(other.choices[0].value);
  CHECK(has(other.choices[0].why, "fit only rate != 16000"));
  // No branch fits: an error that proposes the flag.
  const std::string error = error_of([] { lower_network(choosing_model({1, 2, 3}, {1, 2, 3}), {}); });
  CHECK_MESSAGE(has(error, "--constant rate=16000"), error);
}

TEST_CASE("onnx network: a file that asks for endless memory is not computed") {
  Message shape;
  const int64_t wanted[] = {int64_t{1} << 40};
  shape.integers(1, {1});
  shape.integer(2, 7);
  shape.data(8, "s");
  shape.data(9, std::string_view(reinterpret_cast<const char*>(wanted), 8));
  const OnnxModel large =
      model_of({constant_node(shape, "s"), node("ConstantOfShape", {"s"}, "c"), node("Add", {"x", "c"}, "y")},
               {value_info("x", {1})}, {value_info("y", {1})});
  // The conversion leaves it as one operation; computing it is refused.
  CHECK(lower_network(large, {}).program.functions.size() == 1);
  const std::string error =
      error_of([&] { OnnxInterpreter(large).compute({{"x", OnnxArray{OnnxType::float32, {1}, {1}}}}); });
  CHECK_MESSAGE(has(error, "would have 1099511627776 elements"), error);
}

TEST_CASE("onnx network: lists that are too short are an error at their node") {
  const auto ints = [](std::string_view name, std::initializer_list<int64_t> values) {
    Message tensor;
    std::vector<int64_t> list(values);
    tensor.integers(1, {static_cast<int64_t>(list.size())});
    tensor.integer(2, 7);
    tensor.data(8, name);
    tensor.data(9, std::string_view(reinterpret_cast<const char*>(list.data()), list.size() * 8));
    return constant_node(tensor, name);
  };
  const auto attribute = [](std::string_view name, std::initializer_list<int64_t> values) {
    Message m;
    m.data(1, name);
    for (const int64_t v : values) m.integer(8, v);
    m.integer(20, 7);
    return m;
  };
  const auto error = [](const std::vector<Message>& nodes) {
    const OnnxModel model = model_of(nodes, {value_info("x", {1, 1, 4, 4})}, {value_info("y", {1, 1, 4, 4})});
    return error_of([&] { lower_network(model, {}); });
  };
  // Two axes, and a size for one of them.
  Message crop = node("CenterCropPad", {"x", "s"}, "y");
  crop.message(5, attribute("axes", {2, 3}));
  const std::string sizes = error({ints("s", {2}), crop});
  CHECK_MESSAGE(has(sizes, "node 'y' (CenterCropPad)"), sizes);
  CHECK_MESSAGE(has(sizes, "a size for each of its axes"), sizes);
  // A value to pad with that has no elements.
  Message empty;
  empty.integers(1, {0});
  empty.integer(2, 1);
  empty.data(8, "none");
  const std::string pads = error({ints("p", {0, 0, 1, 1, 0, 0, 1, 1}), constant_node(empty, "none"),
                                  node("Pad", {"x", "p", "none"}, "y")});
  CHECK_MESSAGE(has(pads, "node 'y' (Pad)"), pads);
  CHECK_MESSAGE(has(pads, "too few"), pads);
}

TEST_CASE("onnx network: a permutation that names an axis twice is refused") {
  Message attribute, transpose = node("Transpose", {"x"}, "y");
  attribute.data(1, "perm");
  for (const int64_t axis : {0, 1, 1}) attribute.integer(8, axis);
  attribute.integer(20, 7);
  transpose.message(5, attribute);
  const OnnxModel model = model_of({transpose}, {value_info("x", {4, 2, 2})}, {value_info("y", {4, 2, 2})});
  CHECK(error_of([&] { lower_network(model, {}); }) != "no error");
  const OnnxArray x{OnnxType::float32, {4, 2, 2}, std::vector<double>(16, 1)};
  const std::string error = error_of([&] { OnnxInterpreter(model).compute({{"x", x}}); });
  CHECK_MESSAGE(has(error, "'perm' does not name each axis once"), error);
}

}  // namespace anemone::made
