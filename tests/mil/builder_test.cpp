#include "mil/builder.h"

#include <doctest/doctest.h>

#include "anemone/error.h"
#include "mil/text.h"
#include "mil/verify.h"

using namespace anemone;

TEST_CASE("the builder infers types and makes constants and unique names") {
  Program p;
  Function& f = add_function(p, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 8, Dim::symbol(1), 1}));
  Builder b(f);
  Value* y = b.op("add", {{"x", x}, {"y", Constant::number(1, DType::fp16)}}, "x");
  CHECK(y->name == "x_1");
  CHECK(y->type == x->type);
  Value* r = b.op("reshape", {{"x", y}, {"shape", Constant::ints({1, 2, 4, -1})}}, "heads.0");
  CHECK(r->name == "heads_0");
  CHECK(r->type.shape == Shape{1, 2, 4, Dim::symbol(1)});
  const std::vector<Value*> parts = b.ops(
      "split", {{"x", r}, {"num_splits", Constant::integer(2)}, {"axis", Constant::integer(1)}}, "part");
  CHECK(parts.size() == 2);
  CHECK(parts[1]->type.shape == Shape{1, 1, 4, Dim::symbol(1)});
  b.output(parts[0]);
  CHECK(verify(p).empty());
  // Constants stand before their user.
  CHECK(f.body.ops[0]->type == "const");
  CHECK(f.body.ops[0]->outputs[0]->name == "x_1_y");
}

TEST_CASE("what does not fit is said with the operation's name") {
  Program p;
  Function& f = add_function(p, "main", Opset::ios17);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {4}));
  Builder b(f);
  CHECK_THROWS_WITH_AS(
      b.op("add", {{"x", x}, {"y", Constant::number(1, DType::fp32)}}, "sum"),
      doctest::Contains("op 'sum' (add): the parameters 'x' and 'y' must have the same element type"), Error);
  CHECK_THROWS_WITH_AS(b.op("slice_update", {{"x", x}}, "late"), doctest::Contains("not in the opset ios17"),
                       Error);
  CHECK_THROWS_WITH_AS(b.op("relu", {{"y", x}}, "odd"), doctest::Contains("has no parameter 'y'"), Error);
}

TEST_CASE("names become what MIL text can hold") {
  CHECK(safe_name("model.layers.0/q") == "model_layers_0_q");
  CHECK(safe_name("0th") == "v_0th");
  CHECK(safe_name("state") == "state_");
  CHECK(safe_name("") == "v_");
}

TEST_CASE("a program can be cloned, rewired and cleaned up") {
  const std::string text = R"(program(1.3)
{
    func main<ios18>(tensor<fp32, [2]> x) {
            tensor<fp32, [2]> a = relu(x = x)[name = string("a")];
            tensor<fp32, [2]> b = abs(x = a)[name = string("b")];
            tensor<fp32, [2]> c = square(x = a)[name = string("c")];
        } -> (b);
}
)";
  Program p = parse_mil(text, "t");
  Program copy = p.clone();
  CHECK(same_program(p, copy));
  Function& f = *copy.find_function("main");
  replace_uses(f.body, f.body.ops[0]->outputs[0].get(), f.inputs[0].get());
  remove_dead_ops(f);
  CHECK(f.body.ops.size() == 1);
  CHECK(f.body.ops[0]->value("x")->name == "x");
  CHECK_FALSE(same_program(p, copy));
  CHECK(p.find_function("main")->body.ops.size() == 3);
}
