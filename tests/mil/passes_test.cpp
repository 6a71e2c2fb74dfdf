#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "mil/made_net.h"
#include "mil/passes/fuse.h"
#include "mil/passes/layout.h"
#include "mil/passes/move_axes.h"
#include "mil/passes/tidy.h"

namespace anemone::made {

namespace {

// One attention layer over [1, 5, 8] with two heads, as exporters write it.
void attention(Net& net, Value* x) {
  const auto heads = [&](int seed) {
    return net.transpose(net.reshape(net.linear(x, 8, 8, seed), {1, 5, 2, 4}), {0, 2, 1, 3});
  };
  Value *q = heads(10), *v = heads(14);
  Value* k = net.transpose(heads(12), {0, 1, 3, 2});
  Value* scores = net.op(
      "mul", {{"x", net.op("matmul", {{"x", q}, {"y", k}})}, {"y", Constant::number(0.5f, DType::fp32)}});
  Value* seen = net.op("matmul", {{"x", net.op("softmax", {{"x", scores}})}, {"y", v}});
  Value* flat = net.reshape(net.transpose(seen, {0, 2, 1, 3}), {1, 5, 8});
  Value* sum = net.op("add", {{"x", x}, {"y", net.linear(flat, 8, 8, 16)}});
  Value* normal =
      net.op("layer_norm", {{"x", sum}, {"axes", Constant::ints({2})}, {"gamma", noise({8}, 18)}});
  net.output(net.linear(normal, 8, 6, 20));
}

}  // namespace

TEST_CASE("layouts: the order of axes through transposes and reshapes") {
  const Layout tokens_last = {0, 2, kUnit, 1};
  CHECK(stored_shape({1, 7, 12}, tokens_last) == std::vector<int64_t>{1, 12, 1, 7});
  // [1, 7, 12] → [1, 7, 3, 4]: stored as [1, 3, 4, 7].
  const auto heads = reshaped_layout(tokens_last, {1, 7, 12}, {1, 7, 3, 4});
  REQUIRE(heads);
  CHECK(stored_shape({1, 7, 3, 4}, *heads) == std::vector<int64_t>{1, 3, 4, 7});
  // → [1, 3, 7, 4]: the same memory.
  const Layout by_head = transposed_layout(*heads, {0, 2, 1, 3});
  CHECK(by_head == Layout{0, 1, 3, 2});
  // Joined over what does not lie together, the elements would have to move.
  CHECK_FALSE(reshaped_layout(by_head, {1, 3, 7, 4}, {1, 21, 4}));
  CHECK_FALSE(reshaped_layout(tokens_last, {1, 7, 12}, {84}));
  CHECK(same_elements({1, 7, 1}, {0, 1, 2}, {1, 2, 0}));
  CHECK(*permutation({0, 1, 2}, {2, 0, 1}) == std::vector<int64_t>{2, 0, 1});
}

TEST_CASE("tidy: what changes nothing goes away, and the numbers stay") {
  Net net;
  Value* x = net.input({1, 3, 4});
  Value* a = net.transpose(net.transpose(x, {0, 2, 1}), {0, 2, 1});  // none
  Value* b =
      net.reshape(net.op("expand_dims", {{"x", a}, {"axes", Constant::ints({0})}}), {3, 4});  // one reshape
  Value* c = net.op("mul", {{"x", b}, {"y", Constant::number(1, DType::fp32)}});              // none
  Value* d = net.op("add", {{"x", net.op("exp", {{"x", c}})}, {"y", net.op("exp", {{"x", c}})}});  // one exp
  net.output(net.op("cast", {{"x", d}, {"dtype", Constant::text("fp32")}}));                       // none
  const std::vector<float> before = outputs(net.program);
  const TidyReport report = tidy(net.f);
  CHECK(report.before == 10);
  CHECK(report.after == 3);
  CHECK(count(net.program, "transpose") == 0);
  CHECK(count(net.program, "exp") == 1);
  CHECK(net.f.body.outputs[0]->name == "y");
  CHECK(outputs(net.program) == before);
}

TEST_CASE("tidy: an output that is an input's own value keeps its operation") {
  Net net;
  net.output(net.input({2, 2}));
  tidy(net.f);
  CHECK(net.f.body.outputs[0]->name == "y");
  CHECK(count(net.program, "identity") == 1);
}

TEST_CASE("fuse: layer norm, GELU, biases and batch norm in parts become whole") {
  Net net;
  const auto number = [](float v) { return Constant::number(v, DType::fp32); };
  Value* x = net.input({1, 6, 8});
  Value* h = net.op(
      "add", {{"x", net.op("linear", {{"x", x}, {"weight", noise({8, 8}, 3)}})}, {"y", noise({8}, 4)}});
  const Args over = {{"x", h}, {"axes", Constant::ints({-1})}, {"keep_dims", Constant::boolean(true)}};
  Value* center = net.op("sub", {{"x", h}, {"y", net.op("reduce_mean", over)}});
  Value* square = net.op("pow", {{"x", center}, {"y", number(2)}});
  Value* variance = net.op(
      "reduce_mean", {{"x", square}, {"axes", Constant::ints({-1})}, {"keep_dims", Constant::boolean(true)}});
  Value* root = net.op("sqrt", {{"x", net.op("add", {{"x", variance}, {"y", number(1e-5f)}})}});
  Value* normal = net.op("real_div", {{"x", center}, {"y", root}});
  normal = net.op("add", {{"x", net.op("mul", {{"x", normal}, {"y", noise({8}, 5)}})}, {"y", noise({8}, 6)}});
  Value* erf = net.op("erf", {{"x", net.op("real_div", {{"x", normal}, {"y", number(std::sqrt(2.0f))}})}});
  Value* gate = net.op("add", {{"x", erf}, {"y", number(1)}});
  Value* gelu = net.op("mul", {{"x", net.op("mul", {{"x", normal}, {"y", gate}})}, {"y", number(0.5f)}});
  Value* conv = net.op("conv", {{"x", gelu}, {"weight", noise({4, 6, 3}, 7)}});
  Constant positive = noise({4}, 8);
  for (auto* v = reinterpret_cast<float*>(std::get<Constant::Bytes>(positive.data).data());
       float& f : std::span(v, 4))
    f = std::fabs(f) + 0.5f;
  net.output(
      net.op("batch_norm",
             {{"x", conv}, {"mean", noise({4}, 9)}, {"variance", positive}, {"gamma", noise({4}, 10)}}));
  const std::vector<float> before = outputs(net.program);
  const FuseReport report = fuse(net.f);
  CHECK(report.found.at("layer_norm") == 3);
  CHECK(report.found.at("gelu") == 1);
  CHECK(report.found.at("bias") == 1);
  CHECK(report.found.at("batch_norm") == 1);
  tidy(net.f);
  CHECK(count_operations(net.f) == 4);  // linear, layer_norm, gelu, conv
  check_near(outputs(net.program), before);
}

TEST_CASE("fuse: what only looks like a layer norm stays") {
  Net net;
  Value* x = net.input({1, 6, 8});
  const auto mean = [&](Value* v, int64_t axis) {
    return net.op("reduce_mean",
                  {{"x", v}, {"axes", Constant::ints({axis})}, {"keep_dims", Constant::boolean(true)}});
  };
  Value* center = net.op("sub", {{"x", x}, {"y", mean(x, 2)}});
  Value* variance = mean(net.op("square", {{"x", center}}), 1);  // along another axis
  Value* root =
      net.op("sqrt", {{"x", net.op("add", {{"x", variance}, {"y", Constant::number(1e-5f, DType::fp32)}})}});
  net.output(net.op("real_div", {{"x", center}, {"y", root}}));
  CHECK(fuse(net.f).found.empty());
}

TEST_CASE("move_axes: transposes that cancel behind elementwise operations go away") {
  Net net;
  Value* x = net.input({1, 4, 3, 2});
  Value* last = net.transpose(x, {0, 2, 3, 1});  // channels last, as TensorFlow has them
  Value* sum = net.op("add", {{"x", net.op("relu", {{"x", last}})}, {"y", noise({4}, 2)}});
  Value* small =
      net.op("slice_by_index",
             {{"x", sum}, {"begin", Constant::ints({0, 0, 0, 1})}, {"end", Constant::ints({1, 3, 2, 3})}});
  Value* most = net.op("softmax", {{"x", small}, {"axis", Constant::integer(-1)}});
  net.output(net.transpose(most, {0, 3, 1, 2}));
  const std::vector<float> before = outputs(net.program);
  const LayoutReport report = move_axes(net.program, {});
  CHECK(report.transposes_before == 2);
  CHECK(report.transposes_after == 0);
  CHECK(outputs(net.program) == before);
}

TEST_CASE("move_axes: a transpose that is needed stays, and nothing changes") {
  Net net;
  Value* x = net.transpose(net.input({1, 4, 3}), {0, 2, 1});
  net.output(net.op("cumsum", {{"x", x}, {"axis", Constant::integer(1)}}));
  const Program before = net.program.clone();
  CHECK(move_axes(net.program, {}).transposes_after == 1);
  CHECK(same_program(before, net.program));
}

TEST_CASE(
    "move_axes: attention between linear layers stays [B, C, 1, S], with transposes at the border alone") {
  Net net;
  attention(net, net.input({1, 5, 8}));
  const std::vector<float> before = outputs(net.program);
  CHECK(count(net.program, "transpose") == 5);
  const LayoutReport report = move_axes(net.program, {.convolve = true});
  CHECK(report.convolved == 5);
  CHECK(report.left == 0);
  CHECK(count(net.program, "linear") == 0);
  CHECK(count(net.program, "conv") == 5);
  CHECK(report.transposes_after == 2);  // in and out
  CHECK(net.program.functions[0]->body.outputs[0]->name == "y");
  check_near(outputs(net.program), before);
  // Values with another order are listed, so that others can find them by name.
  CHECK(report.layouts.size() > 5);
  for (const auto& [name, layout] : report.layouts)
    CHECK(layout != plain_layout(static_cast<int>(layout.size())));
}

TEST_CASE("move_axes: one linear layer is not worth two transposes") {
  Net net;
  net.output(
      net.op("cumsum", {{"x", net.linear(net.input({1, 5, 8}), 8, 8, 1)}, {"axis", Constant::integer(1)}}));
  const LayoutReport report = move_axes(net.program, {.convolve = true});
  CHECK(report.convolved == 0);
  CHECK(count(net.program, "linear") == 1);
}

namespace {

// A weight that counts how often somebody asks for its numbers.
class Counted : public WeightSource {
 public:
  explicit Counted(Shape shape) : type_(Type::tensor(DType::fp32, std::move(shape))) {}
  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    ++asked;
    const int64_t row = type_.size() / type_.dim(0).size();
    for (int64_t k = begin * row; k < end * row; ++k) {
      const float v = static_cast<float>(k % 7) - 3;
      std::memcpy(out.data() + (k - begin * row) * 4, &v, 4);
    }
  }

  mutable int asked = 0;

 private:
  Type type_;
};

}  // namespace

TEST_CASE("move_axes: weights that are read later are not read for the form of convolutions") {
  Net net;
  Value* x = net.input({1, 5, 8});
  const auto first = std::make_shared<Counted>(Shape{16, 8}),
             second = std::make_shared<Counted>(Shape{8, 16});
  Value* h = net.op("linear", {{"x", x}, {"weight", Constant::from_source(first)}});
  h = net.op("linear", {{"x", net.op("relu", {{"x", h}})}, {"weight", Constant::from_source(second)}});
  net.output(net.op("add", {{"x", h}, {"y", x}}));
  const std::vector<float> before = outputs(net.program);
  first->asked = second->asked = 0;
  const LayoutReport report = move_axes(net.program, {.convolve = true});
  CHECK(report.convolved == 2);
  CHECK(first->asked + second->asked == 0);
  for_each_op(std::as_const(net.program.functions[0]->body), [](const Operation& op) {
    if (op.type != "conv") return;
    const Constant* weight = op.value("weight")->constant();
    REQUIRE(weight);
    CHECK(weight->type.rank() == 4);
    CHECK(std::holds_alternative<Constant::Source>(weight->data));
  });
  check_near(outputs(net.program), before);
}

TEST_CASE("move_axes: a number for all of a convolved value has no dimensions") {
  Net net;
  Value* h = net.linear(net.input({1, 5, 8}), 8, 8, 1);
  h = net.op("relu", {{"x", net.linear(h, 8, 8, 3)}});
  Value* sum = net.op(
      "reduce_sum", {{"x", h}, {"axes", Constant::ints({0, 1, 2})}, {"keep_dims", Constant::boolean(false)}});
  net.output(net.op("mul", {{"x", h}, {"y", sum}}));
  net.builder().output(net.op("expand_dims", {{"x", sum}, {"axes", Constant::ints({0})}}, "sum"));
  const std::vector<float> before = outputs(net.program);
  CHECK(move_axes(net.program, {.convolve = true}).convolved == 2);
  // Core ML's reshape cannot make it; squeeze can.
  for_each_op(std::as_const(net.program.functions[0]->body), [](const Operation& op) {
    if (op.type == "reshape") CHECK(op.outputs[0]->type.rank() > 0);
  });
  check_near(outputs(net.program), before);
}

TEST_CASE("fuse: a layer norm whose parts make it another shape stays in parts") {
  Net net;
  Value* x = net.input({2, 8});
  const auto mean = [&](Value* v) {
    return net.op("reduce_mean",
                  {{"x", v}, {"axes", Constant::ints({-1})}, {"keep_dims", Constant::boolean(true)}});
  };
  Value* center = net.op("sub", {{"x", x}, {"y", mean(x)}});
  Constant epsilon = Constant::numbers(std::vector<float>{1e-5f}, DType::fp32, {1, 1, 1});
  Value* sum = net.op("add", {{"x", mean(net.op("square", {{"x", center}}))}, {"y", epsilon}});
  net.output(net.op("real_div", {{"x", center}, {"y", net.op("sqrt", {{"x", sum}})}}));
  const Type before = net.f.body.outputs[0]->type;
  CHECK(fuse(net.f).found.empty());
  CHECK(net.f.body.outputs[0]->type == before);
  CHECK(verify(net.program).empty());
}

TEST_CASE("fuse: a gain and a shift that are the same constant are both kept") {
  Net net;
  Value* both = net.builder().constant(noise({8}, 2), "both");
  Value* normal = net.op("layer_norm", {{"x", net.input({2, 8})}, {"axes", Constant::ints({1})}});
  net.output(net.op("add", {{"x", net.op("mul", {{"x", normal}, {"y", both}})}, {"y", both}}));
  const std::vector<float> before = outputs(net.program);
  CHECK(fuse(net.f).found.at("layer_norm") == 2);
  check_near(outputs(net.program), before);
}

TEST_CASE("fuse: a batch norm over no channels stays") {
  Net net;
  const auto none = [](Shape shape) { return Constant::numbers({}, DType::fp32, std::move(shape)); };
  Value* conv = net.op("conv", {{"x", net.input({1, 3, 4, 4})}, {"weight", none({0, 3, 1, 1})}});
  net.output(net.op("batch_norm", {{"x", conv}, {"mean", none({0})}, {"variance", none({0})}}));
  CHECK(fuse(net.f).found.empty());
}

TEST_CASE("fuse: parameters that are written in place are not lost") {
  const auto in_place = [](Value* of, const char* param) {
    Input* input = of->producer->input(param);
    input->bindings[0] = {nullptr, std::make_shared<const Constant>(*input->bindings[0].constant()), {}};
  };
  Net net;
  Constant ones = Constant::numbers(std::vector<float>{1, 1}, DType::fp32, {2});
  Value* conv = net.op("conv", {{"x", net.input({1, 2, 6, 6})},
                                {"weight", noise({2, 2, 3, 3}, 2)},
                                {"strides", Constant::ints({2, 2})}});
  in_place(conv, "strides");
  Value* sum = net.op("add", {{"x", conv}, {"y", noise({2, 1, 1}, 3)}});
  Value* again = net.op("conv", {{"x", sum}, {"weight", noise({2, 2, 1, 1}, 4)}});
  Value* normal = net.op("batch_norm", {{"x", again},
                                        {"mean", noise({2}, 5)},
                                        {"variance", ones},
                                        {"epsilon", Constant::number(0.5f, DType::fp32)}});
  in_place(normal, "epsilon");
  const auto scaled = [&](Value* x) { return net.op("mul", {{"x", x}, {"y", noise({2}, 6)}}); };
  Value* layer = net.op(
      "layer_norm",
      {{"x", normal}, {"axes", Constant::ints({3})}, {"epsilon", Constant::number(0.25f, DType::fp32)}});
  in_place(layer, "epsilon");
  net.output(scaled(layer));
  const std::vector<float> before = outputs(net.program);
  fuse(net.f);
  check_near(outputs(net.program), before);
}

}  // namespace anemone::made
