// One computation, written in several ways: the reports agree. And operations that are not probed, on every page.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "check/report.h"
#include "check/seeds.h"

using namespace anemone;

namespace {

constexpr DType kHalf = DType::fp16;

using Make = std::function<Value*(Graph&)>;

CheckReport checked(Shape input, const Make& make, const char* target = "m4") {
  Graph g(std::move(input));
  Value* y = make(g);
  return check_package(g.finish({y}), {.target = target});
}

// The rule under which the engine refuses the last operation; empty when it takes it.
std::string refusal(Shape input, const Make& make, const char* target = "m4") {
  const CheckReport report = checked(std::move(input), make, target);
  const auto& ops = report.packages[0].functions[0].placed.ops;
  return std::string(ops.back().cost[placement::Processor::ane].rule);
}

Make convolution(const char* type, Shape weight) {
  return [=](Graph& g) {
    return g.b.op(type, {{"x", g.x}, {"weight", zeros(kHalf, weight)}, {"pad_type", Constant::text("same")}},
                  "y");
  };
}

Make product(bool turned, Shape weight) {
  return [=](Graph& g) {
    return g.b.op("matmul",
                  {{"x", g.x},
                   {"y", zeros(kHalf, weight)},
                   {"transpose_x", Constant::boolean(false)},
                   {"transpose_y", Constant::boolean(turned)}},
                  "y");
  };
}

}  // namespace

TEST_CASE("kernel limits are the same for convolutions of every dimension, transposed or not") {
  struct Kernel {
    int64_t size;
    const char *m4, *m1;  // 15 wide; 13 on M1
  };
  for (const auto& [k, m4, m1] : {Kernel{13, "", ""}, Kernel{14, "", "O07"}, Kernel{15, "", "O07"},
                                  Kernel{16, "O07", "O07"}, Kernel{65, "O07", "O07"}})
    for (const char* type : {"conv", "conv_transpose"})
      for (const char* target : {"m4", "m1"}) {
        CAPTURE(k);
        CAPTURE(type);
        CAPTURE(target);
        const std::string expected = target == std::string("m4") ? m4 : m1;
        CHECK(refusal({1, 4, 128}, convolution(type, {4, 4, k}), target) == expected);
        CHECK(refusal({1, 4, 1, 128}, convolution(type, {4, 4, 1, k}), target) == expected);
        CHECK(refusal({1, 4, 1, 1, 128}, convolution(type, {4, 4, 1, 1, k}), target) == expected);
      }
  // Heights go to 31, and so do depths.
  for (const char* type : {"conv", "conv_transpose"})
    for (const auto& [k, expected] : {std::pair<int64_t, const char*>{31, ""}, {32, "O07"}, {65, "O07"}}) {
      CHECK(refusal({1, 4, 128, 1}, convolution(type, {4, 4, k, 1})) == expected);
      CHECK(refusal({1, 4, 1, 128, 1}, convolution(type, {4, 4, 1, k, 1})) == expected);
      CHECK(refusal({1, 4, 128, 1, 1}, convolution(type, {4, 4, k, 1, 1})) == expected);
    }
  CHECK(refusal({1, 4, 32, 32}, convolution("conv", {4, 4, 16, 16})) == "");
  CHECK(refusal({1, 4, 1, 32, 32}, convolution("conv", {4, 4, 1, 16, 16})) == "");
  CHECK(refusal({1, 4, 32, 32}, convolution("conv", {4, 4, 17, 17})) == "O07");
}

TEST_CASE("max_pool's width is limited in every dimension") {
  const auto pool = [](std::vector<int64_t> kernel) -> Make {
    return [=](Graph& g) {
      return g.b.op("max_pool",
                    {{"x", g.x},
                     {"kernel_sizes", Constant::ints(kernel)},
                     {"strides", Constant::ints(std::vector<int64_t>(kernel.size(), 1))},
                     {"pad_type", Constant::text("valid")}},
                    "y");
    };
  };
  CHECK(refusal({1, 4, 64}, pool({8})) == "");
  CHECK(refusal({1, 4, 64}, pool({9})) == "O08");
  CHECK(refusal({1, 4, 8, 64}, pool({1, 9})) == "O08");
  CHECK(refusal({1, 4, 4, 8, 64}, pool({1, 1, 9})) == "O08");
  CHECK(refusal({1, 4, 64, 64}, pool({9, 1})) == "");
}

TEST_CASE("an inner size is refused whichever operation sums over it") {
  const auto linear = [](int64_t inner) -> Make {
    return
        [=](Graph& g) { return g.b.op("linear", {{"x", g.x}, {"weight", zeros(kHalf, {16, inner})}}, "y"); };
  };
  const auto einsum = [](int64_t inner) -> Make {
    return [=](Graph& g) {
      return g.b.op("einsum",
                    {{"values", std::vector<Value*>{g.x, g.input("k", kHalf, {1, inner, 1, 16})}},
                     {"equation", Constant::text("nchw,nwhu->nchu")}},
                    "y");
    };
  };
  const auto attention = [](int64_t keys) -> Make {
    return [=](Graph& g) {
      Value* k = g.input("k", kHalf, {1, 2, keys, 64});
      return g.b.op("scaled_dot_product_attention", {{"query", g.x}, {"key", k}, {"value", k}}, "y");
    };
  };
  struct Case {
    int64_t inner;
    const char *m4, *m1;
  };
  for (const auto& [inner, m4, m1] :
       {Case{16384, "", ""}, Case{20000, "", "S07"}, Case{32768, "", "S07"}, Case{40000, "S07", "S07"}})
    for (const char* target : {"m4", "m1"}) {
      CAPTURE(inner);
      CAPTURE(target);
      const std::string expected = target == std::string("m4") ? m4 : m1;
      CHECK(refusal({8, inner}, linear(inner), target) == expected);
      CHECK(refusal({8, inner}, product(false, {inner, 16}), target) == expected);
      CHECK(refusal({8, inner}, product(true, {16, inner}), target) == expected);
      CHECK(refusal({inner}, product(false, {inner, 16}), target) == expected);
      // Of an einsum and of attention the long axis is a width, too (S06 on M1).
      CHECK((refusal({1, 8, 1, inner}, einsum(inner), target) == "") == expected.empty());
      CHECK((refusal({1, 2, 8, 64}, attention(inner), target) == "") == expected.empty());
    }
}

TEST_CASE("blocks of scales along the inputs are refused in every product") {
  const auto blocks = [](Graph& g, Shape shape, Shape scales) {
    return g.b.op(
        "constexpr_blockwise_shift_scale",
        {{"data", zeros(DType::int8, std::move(shape))}, {"scale", filled(kHalf, std::move(scales), 1)}},
        "w");
  };
  const auto einsum = [&](Shape scales) -> Make {
    return [=](Graph& g) {
      return g.b.op("einsum",
                    {{"values", std::vector<Value*>{g.x, blocks(g, {1, 64, 1, 16}, scales)}},
                     {"equation", Constant::text("nchw,nwhu->nchu")}},
                    "y");
    };
  };
  const auto linear = [&](Shape scales) -> Make {
    return [=](Graph& g) {
      return g.b.op("linear", {{"x", g.x}, {"weight", blocks(g, {16, 64}, scales)}}, "y");
    };
  };
  CHECK(refusal({8, 64}, linear({16, 1})) == "");
  CHECK(refusal({8, 64}, linear({16, 4})) == "Q02");
  CHECK(refusal({1, 8, 1, 64}, einsum({1, 1, 1, 16})) == "");
  CHECK(refusal({1, 8, 1, 64}, einsum({1, 4, 1, 16})) == "Q02");
}

TEST_CASE("sin and cos go to the engine from A15 and M2 on") {
  for (const char* op : {"sin", "cos"}) {
    const Make make = [=](Graph& g) { return g.b.op(op, {{"x", g.x}}, "y"); };
    for (const char* target : {"a14", "m1", "m1-max", "ios18", "macos15"})
      CHECK_MESSAGE(refusal({1, 4, 8, 64}, make, target) == "O15", target);
    for (const char* target : {"a15", "a17", "m2", "m4", "m6"})
      CHECK_MESSAGE(refusal({1, 4, 8, 64}, make, target) == "", target);
  }
}

TEST_CASE("rules see through the spelling of an operation") {
  struct Case {
    const char* rule;
    Shape input;
    std::vector<Make> spellings;
  };
  const auto norm = [](const std::function<Value*(Graph&)>& square) -> Make {
    return [=](Graph& g) {
      Value* mean = g.b.op(
          "reduce_mean",
          {{"x", square(g)}, {"axes", Constant::ints({1})}, {"keep_dims", Constant::boolean(true)}}, "mean");
      return g.b.op("rsqrt", {{"x", mean}, {"epsilon", Constant::number(0.001f, kHalf)}}, "y");
    };
  };
  const auto joined = [](const char* type) -> Make {
    return [=](Graph& g) {
      return std::string(type) == "concat"
                 ? g.b.op("concat",
                          {{"values", std::vector<Value*>{g.x, g.x, g.x}},
                           {"axis", Constant::integer(1)},
                           {"interleave", Constant::boolean(false)}},
                          "y")
                 : g.b.op("stack",
                          {{"values", std::vector<Value*>{g.x, g.x, g.x}}, {"axis", Constant::integer(1)}},
                          "y");
    };
  };
  const auto linear = [](int64_t outputs) -> Make {
    return [=](Graph& g) {
      return g.b.op("linear", {{"x", g.x}, {"weight", zeros(kHalf, {outputs, 64})}}, "y");
    };
  };
  const Case cases[] = {
      {"H03",
       {1, 4, 8, 64},
       {norm([](Graph& g) { return g.b.op("square", {{"x", g.x}}, "s"); }),
        norm([](Graph& g) { return g.b.op("mul", {{"x", g.x}, {"y", g.x}}, "s"); }),
        norm([](Graph& g) { return g.b.op("pow", {{"x", g.x}, {"y", Constant::number(2, kHalf)}}, "s"); })}},
      {"S11",
       {1, 4, 8, 64},
       {[](Graph& g) {
          return g.b.op("reshape", {{"x", g.x}, {"shape", Constant::ints({1, 4, 8, 64, 1})}}, "y");
        },
        [](Graph& g) { return g.b.op("expand_dims", {{"x", g.x}, {"axes", Constant::ints({4})}}, "y"); }}},
      {"S10",
       {1, 4, 8, 1},
       {[](Graph& g) { return g.b.op("add", {{"x", g.x}, {"y", g.input("z", kHalf, {1, 1, 1, 64})}}, "y"); },
        [](Graph& g) { return g.b.op("add", {{"x", g.x}, {"y", g.input("z", kHalf, {64})}}, "y"); }}},
      {"H01", {1, 8, 64}, {linear(16), product(false, {64, 16}), product(true, {16, 64})}},
      {"S09", {2, 8, 64}, {linear(16), product(false, {64, 16})}},
      {"S13", {1, 8, 64}, {linear(272), product(false, {64, 272})}},
      {"O11", {1, 4, 8, 64}, {joined("concat"), joined("stack")}},
      {"O05",
       {1, 4, 8, 64},
       {[](Graph& g) { return g.b.op("reduce_argmax", {{"x", g.x}, {"axis", Constant::integer(1)}}, "y"); },
        [](Graph& g) { return g.b.op("reduce_argmin", {{"x", g.x}, {"axis", Constant::integer(1)}}, "y"); }}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.rule);
    for (size_t i = 0; i < c.spellings.size(); ++i) {
      CAPTURE(i);
      CHECK(of_rule(checked(c.input, c.spellings[i]), c.rule).size() == 1);
    }
  }
}

TEST_CASE("bounds and weights are no masks") {
  const Constant low = Constant::number(-INFINITY, kHalf);
  const Make clip = [&](Graph& g) {
    return g.b.op("clip", {{"x", g.x}, {"alpha", low}, {"beta", Constant::number(6, kHalf)}}, "y");
  };
  const Make less = [&](Graph& g) {
    Value* cond = g.b.op("less", {{"x", g.x}, {"y", low}}, "less");
    return g.b.op("select", {{"cond", cond}, {"a", g.x}, {"b", Constant::number(-1e4f, kHalf)}}, "y");
  };
  const Make mask = [&](Graph& g) { return g.b.op("add", {{"x", g.x}, {"y", low}}, "y"); };
  const Make taken = [&](Graph& g) {
    return g.b.op("sub", {{"x", g.x}, {"y", Constant::number(INFINITY, kHalf)}}, "y");
  };
  CHECK(of_rule(checked({1, 4, 8, 64}, clip), "D08").empty());
  CHECK(of_rule(checked({1, 4, 8, 64}, less), "D08").empty());
  CHECK(of_rule(checked({1, 4, 8, 64}, mask), "D08").size() == 1);
  CHECK(of_rule(checked({1, 4, 8, 64}, taken), "D08").size() == 1);
}

TEST_CASE("an operation that is not probed is never called clean") {
  const Make reversed = [](Graph& g) {
    return g.b.op("reverse", {{"x", g.x}, {"axes", Constant::ints({3})}}, "y");
  };
  const Make by_length = [](Graph& g) {
    return g.b.op("reverse_sequence",
                  {{"x", g.x},
                   {"lengths", Constant::ints({2})},
                   {"seq_axis", Constant::integer(3)},
                   {"batch_axis", Constant::integer(0)}},
                  "y");
  };
  for (const auto& [kind, make] :
       {std::pair("reverse", reversed), std::pair("reverse_sequence", by_length)}) {
    CAPTURE(kind);
    const CheckReport report = checked({1, 4, 8, 64}, make);
    const auto& f = report.packages[0].functions[0].placed;
    CHECK(f.unknown_ops == 1);
    CHECK(f.ane_ops + f.cpu_ops == 0);
    CHECK(f.ane_share() == 0);
    CHECK(report.verdict(false) == "passed");
    CHECK_FALSE(report.failed(true));
    const std::string text = report_text(report), note = report.unknown_note();
    CHECK(text.find(std::string("1 operation not probed: ") + kind + " (1)") != std::string::npos);
    CHECK(text.find("\nclean") == std::string::npos);
    CHECK(text.find("\npassed: ") != std::string::npos);
    const auto json = nlohmann::json::parse(report_json(report, false));
    CHECK(json.at("verdict") == "passed");
    CHECK(json.at("unknown") == nlohmann::json{{kind, 1}});
    CHECK(json.at("notes") == nlohmann::json{note});
    CHECK(json.at("packages").at(0).at("functions").at(0).at("ops_unknown") == 1);
    const std::string page = report_html(report, false);
    CHECK(page.find(note) != std::string::npos);
    CHECK(page.find("\"verdict\":\"passed\"") != std::string::npos);
  }
}

TEST_CASE("an operation that is not in MIL is an error that names it") {
  const CheckReport report = checked({1, 4, 8, 64}, [](Graph& g) {
    Value* y = g.b.op("relu", {{"x", g.x}}, "y");
    y->producer->type = "relu_of_tomorrow";
    return y;
  });
  const auto found = of_rule(report, "T02");
  REQUIRE(found.size() == 1);
  CHECK(found[0].op == "y");
  CHECK(found[0].message == "there is no operation 'relu_of_tomorrow' in MIL");
  CHECK(report.verdict(false) == "failed");
  CHECK(report.unknown_note().find("relu_of_tomorrow (1, not in MIL)") != std::string::npos);
}

TEST_CASE("missing inputs and newer operations are named with what is needed") {
  const auto without = [](const char* type, const char* param, const Make& make) {
    const CheckReport report = checked({1, 8, 1, 64}, [&](Graph& g) {
      Value* y = make(g);
      std::erase_if(y->producer->inputs, [&](const Input& i) { return i.name == param; });
      return y;
    });
    const auto found = of_rule(report, "T04");
    REQUIRE_MESSAGE(found.size() == 1, type);
    CHECK(found[0].message == fmt::format("the parameter '{}' of '{}' is missing", param, type));
    CHECK(report.failed(false));
  };
  without("conv", "weight", convolution("conv", {8, 8, 1, 1}));
  without("conv", "x", convolution("conv", {8, 8, 1, 1}));
  without("conv_transpose", "weight", convolution("conv_transpose", {8, 8, 1, 1}));
  without("matmul", "y", product(false, {1, 8, 64, 4}));
  without("linear", "weight",
          [](Graph& g) { return g.b.op("linear", {{"x", g.x}, {"weight", zeros(kHalf, {4, 64})}}, "y"); });
  const CheckReport old = checked({1, 8, 4, 64}, [](Graph& g) {
    Value* y = g.b.op("scaled_dot_product_attention", {{"query", g.x}, {"key", g.x}, {"value", g.x}}, "y");
    g.f->opset = Opset::ios16;
    return y;
  });
  const auto newer = of_rule(old, "T03");
  REQUIRE(newer.size() == 1);
  CHECK(newer[0].message ==
        "'scaled_dot_product_attention' came with ios18 (iOS 18, macOS 15); the function is of ios16");
}
