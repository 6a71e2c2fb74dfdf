#include "check/seeds.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace anemone {
namespace {

using enum DType;
using enum Level;
using Made = std::shared_ptr<const Package>;

constexpr DType kHalf = fp16;

// Something in the middle of work that is worth the engine.
Made in_the_middle(const std::function<Value*(Graph&, Value*)>& fault) {
  Graph g;
  Value* x = fault(g, g.work(g.x, "before"));
  return g.finish({g.work(x, "behind")});
}

Value* unary(Graph& g, Value* x, const char* op) { return g.b.op(op, {{"x", x}}, "fault"); }

Value* cast(Graph& g, Value* x, const char* to, const char* name) {
  return g.b.op("cast", {{"x", x}, {"dtype", Constant::text(to)}}, name);
}

Value* product(Graph& g, Value* x, Value* y, bool turned, const char* name) {
  return g.b.op("matmul",
                {{"x", x},
                 {"y", y},
                 {"transpose_x", Constant::boolean(false)},
                 {"transpose_y", Constant::boolean(turned)}},
                name);
}

Value* slice_rest(Graph& g, Value* x) {
  return g.b.op("slice_by_index",
                {{"x", x}, {"begin", Constant::ints({0, 0, 1, 0})}, {"end", Constant::ints({1, 2, 64, 64})}},
                "rest");
}

Value* blockwise(Graph& g, DType dtype, Shape shape, Shape scales, float scale = 1) {
  return g.b.op("constexpr_blockwise_shift_scale",
                {{"data", zeros(dtype, shape)}, {"scale", filled(kHalf, scales, scale)}}, "weight");
}

Value* palette(Graph& g, DType indices, Shape lut, DType entries = kHalf) {
  return g.b.op("constexpr_lut_to_dense",
                {{"indices", zeros(indices, {64, 64, 1, 1})}, {"lut", zeros(entries, lut)}}, "weight");
}

Made with_weight(const std::function<Value*(Graph&)>& weight, Shape input = {1, 64, 1, 64}) {
  Graph g(input);
  return g.finish({g.conv_by(g.x, weight(g), "fault")});
}

// `count` states of this shape that are read, blended and written.
Made with_states(int count, Shape shape, DType dtype = kHalf) {
  Graph g;
  Value* keep = g.input("keep", kHalf, {1, 1, shape[2], 1});
  for (int i = 0; i < count; ++i) {
    Value* state = g.state(fmt::format("cache_{}", i), shape, dtype);
    Value* old = g.b.op("read_state", {{"input", state}}, fmt::format("old_{}", i));
    Value* kept = dtype == kHalf ? g.b.op("mul", {{"x", old}, {"y", keep}}, fmt::format("kept_{}", i)) : old;
    Value* full = dtype == kHalf ? g.b.op("add", {{"x", kept}, {"y", Constant::number(1, kHalf)}},
                                          fmt::format("full_{}", i))
                                 : old;
    g.b.op("write_state", {{"input", state}, {"data", full}}, fmt::format("write_{}", i));
  }
  return g.finish({g.work(g.x, "work")});
}

Made shifted_state() {
  Graph g;
  Value* rows = g.input("rows", kHalf, {1, 2, 1, 64});
  Value* state = g.state("cache", {1, 2, 64, 64});
  Value* rest = slice_rest(g, g.b.op("read_state", {{"input", state}}, "old"));
  Value* all = g.b.op("concat",
                      {{"values", std::vector<Value*>{rest, rows}},
                       {"axis", Constant::integer(2)},
                       {"interleave", Constant::boolean(false)}},
                      "fault");
  g.b.op("write_state", {{"input", state}, {"data", all}}, "write");
  return g.finish({g.work(g.x, "work")});
}

// Rows that are written at a place known at run time, into a state or into a plain tensor.
Made slice_written(bool into_state) {
  Graph g;
  Value* rows = g.input("rows", kHalf, {1, 2, 1, 64});
  Value* begin = g.input("begin", DType::int32, {4});
  Value* end = g.input("end", DType::int32, {4});
  Value* state = into_state ? g.state("cache", {1, 2, 64, 64}) : nullptr;
  Value* old =
      into_state ? g.b.op("read_state", {{"input", state}}, "old") : g.input("cache", kHalf, {1, 2, 64, 64});
  Value* all =
      g.b.op("slice_update", {{"x", old}, {"update", rows}, {"begin", begin}, {"end", end}}, "fault");
  if (!into_state) return g.finish({g.work(g.x, "work"), all});
  g.b.op("write_state", {{"input", state}, {"data", all}}, "write");
  return g.finish({g.work(g.x, "work")});
}

Made many_convs(int count) {
  Graph g({1, 8, 1, 32});
  Value* x = g.x;
  for (int i = 0; i < count; ++i) x = g.conv(x, 8, fmt::format("conv_{}", i));
  return g.finish({x});
}

Made plain_norm() {
  Graph g;
  Value* square = g.b.op("mul", {{"x", g.x}, {"y", g.x}}, "square");
  Value* mean =
      g.b.op("reduce_mean",
             {{"x", square}, {"axes", Constant::ints({1})}, {"keep_dims", Constant::boolean(true)}}, "mean");
  Value* sum = g.b.op("add", {{"x", mean}, {"y", Constant::number(1e-5f, kHalf)}}, "sum");
  Value* root = g.b.op("rsqrt", {{"x", sum}, {"epsilon", Constant::number(0, kHalf)}}, "root");
  return g.finish({g.b.op("mul", {{"x", g.x}, {"y", root}}, "norm")});
}

std::vector<Seed> shape_seeds() {
  return {
      {"S01", error, "rank 6",
       [] {
         return in_the_middle([](Graph& g, Value* x) {
           Value* y = g.b.op("reshape", {{"x", x}, {"shape", Constant::ints({1, 2, 2, 16, 8, 8})}}, "fault");
           return g.b.op("reshape", {{"x", y}, {"shape", Constant::ints({1, 64, 1, 64})}}, "back");
         });
       }},
      {"S02", hint, "two layouts",
       [] {
         Graph g;
         Value* y = g.conv(g.x, 64, "wide");
         Value* turned = g.b.op("transpose", {{"x", y}, {"perm", Constant::ints({0, 1, 3, 2})}}, "turned");
         return g.finish({g.conv(turned, 64, "tall")});
       }},
      {"S03", hint, "a last axis of 1",
       [] {
         Graph g({1, 64, 64, 1});
         return g.finish({g.conv(g.x, 64, "conv")});
       }},
      {"S04", error, "a state 270 wide", [] { return with_states(1, {1, 2, 64, 270}); }},
      {"S05", error, "a convolution 70,000 wide",
       [] {
         Graph g({1, 8, 1, 70000});
         return g.finish({g.conv(g.x, 8, "fault")});
       }},
      {"S05", error, "70,000 output channels",
       [] {
         Graph g({1, 8, 1, 32});
         return g.finish({g.conv(g.x, 70000, "fault")});
       }},
      {"S06",
       error,
       "a width of 20,000 on M1",
       [] {
         Graph g({1, 8, 1, 20000});
         return g.finish({g.conv(g.x, 8, "fault")});
       },
       {.target = "m1"}},
      {"S07", error, "an inner dimension of 40,000",
       [] {
         Graph g({1, 16, 40000});
         return g.finish({product(g, g.x, g.input("y", kHalf, {1, 40000, 16}), false, "fault")});
       }},
      {"S08", warning, "an input of unknown size",
       [] {
         Graph g({1, 64, 1, Dim::unknown()});
         return g.finish({g.conv(g.x, 64, "conv")});
       }},
      {"S09", warning, "a batch of 2",
       [] {
         Graph g({2, 64, 1, 64});
         return g.finish({g.conv(g.x, 64, "fault")});
       }},
      {"S10", warning, "a tile of a computed value",
       [] {
         return in_the_middle([](Graph& g, Value* x) {
           return g.b.op("tile", {{"x", x}, {"reps", Constant::ints({1, 1, 1, 1})}}, "fault");
         });
       }},
      {"S11", hint, "a transpose of the last axis",
       [] {
         Graph g;
         return g.finish(
             {g.b.op("transpose", {{"x", g.x}, {"perm", Constant::ints({0, 1, 3, 2})}}, "fault")});
       }},
      {"S12", hint, "64 tokens in a row",
       [] {
         Graph g;
         return g.finish({g.conv(g.x, 64, "conv")});
       }},
      {"S13", hint, "272 output channels",
       [] {
         Graph g({1, 64, 1, 32});
         return g.finish({g.conv(g.x, 272, "fault")});
       }},
  };
}

std::vector<Seed> type_seeds() {
  return {
      {"D01", error, "a cast to fp32 and back",
       [] {
         return in_the_middle(
             [](Graph& g, Value* x) { return cast(g, cast(g, x, "fp32", "fault"), "fp16", "back"); });
       }},
      {"D01", error, "an fp32 operation",
       [] {
         Graph g({1, 64, 1, 64}, fp32);
         return g.finish({unary(g, g.x, "exp")});
       }},
      {"D02", error, "int32 in the middle",
       [] {
         return in_the_middle(
             [](Graph& g, Value* x) { return cast(g, cast(g, x, "int32", "fault"), "fp16", "back"); });
       }},
      {"D02", warning, "int32 at the edge",
       [] {
         Graph g;
         Value* at = g.input("position", int32, {1, 64, 1, 64});
         Value* next = g.b.op("add", {{"x", at}, {"y", Constant::integer(1)}}, "fault");
         return g.finish(
             {g.work(g.b.op("add", {{"x", g.x}, {"y", cast(g, next, "fp16", "cast")}}, "sum"), "work")});
       }},
      {"D08", error, "a mask of -inf",
       [] {
         return in_the_middle([](Graph& g, Value* x) {
           return g.b.op("add", {{"x", x}, {"y", filled(kHalf, {1, 1, 1, 64}, -INFINITY)}}, "fault");
         });
       }},
      {"D09", warning, "softplus",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "softplus"); }); }},
      {"D10", hint, "silu",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "silu"); }); }},
      {"D12", warning, "scores scaled after the product",
       [] {
         Graph g({1, 4, 8, 128});
         Value* scores = product(g, g.x, g.input("keys", kHalf, {1, 4, 64, 128}), true, "fault");
         Value* scaled = g.b.op("mul", {{"x", scores}, {"y", Constant::number(0.0884f, kHalf)}}, "scaled");
         return g.finish({g.b.op("softmax", {{"x", scaled}, {"axis", Constant::integer(-1)}}, "p")});
       }},
  };
}

std::vector<Seed> op_seeds() {
  return {
      {"O01", error, "a cumsum in the middle",
       [] {
         return in_the_middle([](Graph& g, Value* x) {
           return g.b.op("cumsum", {{"x", x}, {"axis", Constant::integer(3)}}, "fault");
         });
       }},
      {"O01", error, "tan",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "tan"); }); }},
      {"O02", error, "band_part",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "band_part"); }); }},
      {"O03", error, "a gather with a run-time index",
       [] {
         Graph g;
         Value* at = g.input("at", int16, {64});
         Value* rows =
             g.b.op("gather", {{"x", g.work(g.x, "before")}, {"indices", at}, {"axis", Constant::integer(3)}},
                    "fault");
         return g.finish({g.work(rows, "behind")});
       }},
      {"O03", error, "a scatter",
       [] {
         Graph g;
         Value* at = g.input("at", int32, {4});
         Value* rows = g.input("rows", kHalf, {1, 64, 1, 4});
         return g.finish({g.b.op(
             "scatter", {{"data", g.x}, {"indices", at}, {"updates", rows}, {"axis", Constant::integer(3)}},
             "fault")});
       }},
      {"O04", error, "a slice that begins at run time",
       [] {
         Graph g;
         Value* at = g.input("at", int32, {4});
         return g.finish(
             {g.b.op("slice_by_size", {{"x", g.x}, {"begin", at}, {"size", Constant::ints({1, 64, 1, 8})}},
                     "fault")});
       }},
      {"O05", warning, "an argmax",
       [] {
         Graph g;
         Value* y = g.work(g.x, "work");
         return g.finish({g.b.op(
             "reduce_argmax",
             {{"x", y}, {"axis", Constant::integer(1)}, {"keep_dims", Constant::boolean(true)}}, "fault")});
       }},
      {"O06", error, "topk",
       [] {
         Graph g;
         return g.finish({g.b.ops(
             "topk",
             {{"x", g.work(g.x, "work")}, {"k", Constant::integer(4)}, {"axis", Constant::integer(1)}},
             "fault")[0]});
       }},
      {"O07", error, "a kernel of 17 by 17",
       [] {
         Graph g({1, 8, 32, 32});
         return g.finish({g.conv(g.x, 8, "fault", 17, 17)});
       }},
      {"O07",
       error,
       "a kernel 14 wide on M1",
       [] {
         Graph g({1, 8, 32, 32});
         return g.finish({g.conv(g.x, 8, "fault", 1, 14)});
       },
       {.target = "m1"}},
      {"O08", error, "a max_pool 9 wide",
       [] {
         Graph g({1, 8, 32, 32});
         return g.finish({g.b.op("max_pool",
                                 {{"x", g.x},
                                  {"kernel_sizes", Constant::ints({1, 9})},
                                  {"strides", Constant::ints({1, 1})},
                                  {"pad_type", Constant::text("valid")}},
                                 "fault")});
       }},
      {"O09", warning, "the fused attention",
       [] {
         Graph g({1, 4, 8, 64});
         return g.finish({g.b.op("scaled_dot_product_attention",
                                 {{"query", g.x},
                                  {"key", g.input("k", kHalf, {1, 4, 64, 64})},
                                  {"value", g.input("v", kHalf, {1, 4, 64, 64})}},
                                 "fault")});
       }},
      {"O10", warning, "a computed convolution weight",
       [] {
         Graph g;
         return g.finish({g.conv_by(g.x, g.input("w", kHalf, {64, 64, 1, 1}), "fault")});
       }},
      {"O11", hint, "a concat of three",
       [] {
         Graph g;
         return g.finish({g.b.op("concat",
                                 {{"values", std::vector<Value*>{g.x, g.x, g.x}},
                                  {"axis", Constant::integer(1)},
                                  {"interleave", Constant::boolean(false)}},
                                 "fault")});
       }},
      {"O12", warning, "square and sqrt at width 96",
       [] {
         Graph g({1, 64, 1, 96});
         return g.finish({g.b.op("sqrt", {{"x", unary(g, g.x, "square")}}, "root")});
       }},
      {"O13",
       error,
       "quantised activations on an iPhone",
       [] {
         Graph g;
         Value* q = g.b.op("quantize",
                           {{"input", g.x},
                            {"scale", Constant::number(0.1f, kHalf)},
                            {"output_dtype", Constant::text("int8")}},
                           "fault");
         return g.finish(
             {g.work(g.b.op("dequantize", {{"input", q}, {"scale", Constant::number(0.1f, kHalf)}}, "back"),
                     "work")});
       },
       {.target = "iphone"}},
      {"O15",
       error,
       "cos on M1",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "cos"); }); },
       {.target = "m1"}},
      {"O14", warning, "a product of two quantised values",
       [] {
         Graph g;
         const auto round_trip = [&](const char* name) {
           Value* q = g.b.op("quantize",
                             {{"input", g.x},
                              {"scale", Constant::number(0.1f, kHalf)},
                              {"output_dtype", Constant::text("int8")}},
                             name);
           return g.b.op("dequantize", {{"input", q}, {"scale", Constant::number(0.1f, kHalf)}}, name);
         };
         return g.finish({g.b.op("mul", {{"x", round_trip("a")}, {"y", round_trip("b")}}, "fault")});
       }},
  };
}

std::vector<Seed> weight_seeds() {
  const Shape square{64, 64, 1, 1};
  return {
      {"Q02", error, "int4 blocks along K",
       [=] { return with_weight([&](Graph& g) { return blockwise(g, int4, square, {64, 2, 1, 1}); }); }},
      {"Q02", error, "int8 blocks along K",
       [=] { return with_weight([&](Graph& g) { return blockwise(g, int8, square, {1, 4, 1, 1}); }); }},
      {"Q03", warning, "int4 per channel",
       [=] { return with_weight([&](Graph& g) { return blockwise(g, int4, square, {64, 1, 1, 1}); }); }},
      {"Q05", error, "palettes by row and block",
       [] { return with_weight([](Graph& g) { return palette(g, uint4, {4, 2, 1, 1, 16, 1}); }); }},
      {"Q06", error, "a palette of vectors",
       [] {
         return with_weight([](Graph& g) {
           return g.b.op("constexpr_lut_to_dense",
                         {{"indices", zeros(uint4, {32, 64, 1, 1})},
                          {"lut", zeros(kHalf, {1, 1, 1, 1, 16, 2})},
                          {"vector_axis", Constant::integer(0)}},
                         "weight");
         });
       }},
      {"Q07", error, "a palette of int8 entries",
       [] {
         return with_weight([](Graph& g) {
           Value* codes = palette(g, uint4, {1, 1, 1, 1, 16, 1}, int8);
           return g.b.op("constexpr_blockwise_shift_scale",
                         {{"data", codes}, {"scale", filled(kHalf, {64, 1, 1, 1}, 1)}}, "scaled");
         });
       }},
      {"Q08", warning, "palettes in a function of 64 tokens",
       [] { return with_weight([](Graph& g) { return palette(g, uint4, {1, 1, 1, 1, 16, 1}); }); }},
      {"Q09",
       error,
       "a palette with scales, on 26",
       [] {
         return with_weight([](Graph& g) {
           Value* lut = g.b.op("constexpr_blockwise_shift_scale",
                               {{"data", zeros(kHalf, {4, 64, 1, 1, 16, 1})},
                                {"scale", filled(kHalf, {1, 64, 1, 1, 1, 1}, 1)}},
                               "table");
           return g.b.op("constexpr_lut_to_dense", {{"indices", zeros(uint4, {64, 64, 1, 1})}, {"lut", lut}},
                         "weight");
         });
       },
       {.target = "m4", .os = 26}},
      {"Q10",
       hint,
       "int8 on M1",
       [=] { return with_weight([&](Graph& g) { return blockwise(g, int8, square, {64, 1, 1, 1}); }); },
       {.target = "m1"}},
      {"Q12", warning, "one scale over eleven million weights",
       [] {
         return with_weight([](Graph& g) { return blockwise(g, int8, {172032, 64, 1, 1}, {1, 1, 1, 1}); },
                            {1, 64, 1, 1});
       }},
      {"Q13", error, "a scale that is not a number",
       [=] { return with_weight([&](Graph& g) { return blockwise(g, int8, square, {64, 1, 1, 1}, NAN); }); }},
      {"Q14", warning, "two bits",
       [] { return with_weight([](Graph& g) { return palette(g, uint2, {1, 1, 1, 1, 4, 1}); }); }},
  };
}

std::vector<Seed> other_seeds() {
  return {
      {"K01", hint, "a state", [] { return with_states(1, {1, 2, 64, 64}); }},
      {"K02",
       error,
       "three states on an iPhone",
       [] { return with_states(3, {1, 2, 64, 64}); },
       {.target = "iphone 15 pro"}},
      {"K03", error, "a state of fp32", [] { return with_states(1, {1, 2, 64, 64}, fp32); }},
      {"K04", warning, "a cache that shifts", shifted_state},
      {"K04", warning, "a slice_update of a tensor that is no state", [] { return slice_written(false); }},
      {"K05", hint, "a slice_update of a state", [] { return slice_written(true); }},
      {"K05", hint, "a masked blend", [] { return with_states(1, {1, 2, 64, 64}); }},
      {"K09", warning, "a state and an unknown size",
       [] {
         Graph g({1, 64, 1, Dim::unknown()});
         Value* old = g.b.op("read_state", {{"input", g.state("cache", {1, 2, 64, 64})}}, "old");
         return g.finish({g.conv(g.x, 64, "conv"), old});
       }},
      {"Z03", hint, "hardly any work",
       [] {
         Graph g;
         return g.finish({g.conv(g.x, 64, "conv")});
       }},
      {"Z05", error, "460 convolutions in a chain", [] { return many_convs(460); }},
      {"T01",
       error,
       "a program of iOS 18 on iOS 17",
       [] {
         Graph g;
         return g.finish({g.conv(g.x, 64, "conv")});
       },
       {.target = "m4", .os = 17}},
      {"T02", error, "an operation that nobody knows",
       [] {
         Graph g;
         Value* y = unary(g, g.x, "relu");
         y->producer->type = "relu_of_tomorrow";
         return g.finish({y});
       }},
      {"T03", error, "an operation of iOS 18 in a program of iOS 16",
       [] {
         Graph g({1, 4, 8, 64});
         Value* y =
             g.b.op("scaled_dot_product_attention", {{"query", g.x}, {"key", g.x}, {"value", g.x}}, "fault");
         g.f->opset = Opset::ios16;
         return g.finish({y});
       }},
      {"T04", error, "a convolution without its weight",
       [] {
         Graph g;
         Value* y = g.conv(g.x, 64, "fault");
         std::erase_if(y->producer->inputs, [](const Input& i) { return i.name == "weight"; });
         return g.finish({y});
       }},
      {"T05", error, "a result that is declared with another shape",
       [] {
         Graph g;
         Value* y = unary(g, g.x, "relu");
         y->type.shape[3] = 32;
         return g.finish({y});
       }},
      {"T06", error, "a description with another data type",
       [] {
         Graph g;
         const auto package = g.finish({unary(g, g.x, "relu")});
         package->description.main.inputs[0].type.array.data_type = array_dtype_code(fp32);
         return package;
       }},
      {"T07", error, "a weight file that is not where the program says",
       [] {
         Graph g;
         const auto package = g.finish({unary(g, g.x, "relu")});
         package->moved_weights = {"@model_path/elsewhere/weight.bin"};
         return package;
       }},
      {"P04", warning, "two segments",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "band_part"); }); }},
      {"H01", hint, "linear",
       [] {
         Graph g({1, 64, 64});
         return g.finish(
             {g.b.op("linear", {{"x", g.x}, {"weight", zeros(kHalf, {64, 64})}, {"bias", zeros(kHalf, {64})}},
                     "fault")});
       }},
      {"H02", hint, "an operand of 4 MB",
       [] {
         Graph g({1, 8, 8, 64});
         return g.finish({product(g, g.x, g.input("keys", kHalf, {1, 8, 4096, 64}), true, "fault")});
       }},
      {"H03", warning, "a plain RMSNorm", plain_norm},
      {"H05", hint, "cos inside",
       [] { return in_the_middle([](Graph& g, Value* x) { return unary(g, x, "cos"); }); }},
      {"H07",
       hint,
       "a head of 32,000 rows on M1",
       [] {
         Graph g({1, 8, 1, 32});
         return g.finish({g.conv(g.x, 32000, "fault")});
       },
       {.target = "m1"}},
      {"H11", hint, "one token at a time",
       [] {
         Graph g({1, 64, 1, 1});
         Value* old = g.b.op("read_state", {{"input", g.state("cache", {1, 2, 64, 64})}}, "old");
         return g.finish({g.conv(g.x, 64, "conv"), old});
       }},
  };
}

}  // namespace

Graph::Graph(Shape input, DType dtype, Opset opset)
    : f(&add_function(program, "main", opset)),
      b(*f),
      x(add_input(*f, "x", Type::tensor(dtype, std::move(input)))) {}

Value* Graph::state(const std::string& name, Shape shape, DType dtype) {
  return add_input(*f, name, Type::state(dtype, std::move(shape)));
}
Value* Graph::input(const std::string& name, DType dtype, Shape shape) {
  return add_input(*f, name, Type::tensor(dtype, std::move(shape)));
}

Value* Graph::conv_by(Value* in, Value* weight, const std::string& name) {
  return b.op("conv",
              {{"x", in},
               {"weight", weight},
               {"strides", Constant::ints({1, 1})},
               {"pad_type", Constant::text("same")},
               {"dilations", Constant::ints({1, 1})},
               {"groups", Constant::integer(1)}},
              name);
}

Value* Graph::conv(Value* in, int64_t outputs, const std::string& name, int64_t height, int64_t width) {
  const Dim inputs = in->type.shape[1];
  return conv_by(in, b.constant(zeros(kHalf, {outputs, inputs, height, width}), name + "_w"), name);
}

Value* Graph::work(Value* in, const std::string& name) {
  Value* wide = conv(in, 2048, name + "_up");
  Value* same = conv(wide, 2048, name + "_same");
  return conv(conv(same, 2048, name + "_again"), 64, name + "_down");
}

std::shared_ptr<Package> Graph::finish(std::vector<Value*> outputs) {
  for (Value* value : outputs) b.output(value);
  auto package = std::make_shared<Package>();
  package->path = "seed.mlpackage";
  package->spec_version = opset_info(f->opset).spec_version;
  package->program = std::move(program);
  package->description = description_of(package->program);
  // Sizes that the program leaves open: 1 to 128.
  for (Feature& feature : package->description.main.inputs) {
    ArrayFeature& a = feature.type.array;
    const auto& inputs = package->program.functions[0]->inputs;
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i->name == feature.name; });
    if ((*input)->type.fixed()) continue;
    for (const Dim& size : (*input)->type.shape) {
      a.shape.push_back(size.known() ? size.size() : 64);
      a.range.push_back(size.known() ? SizeRange{static_cast<uint64_t>(size.size()), size.size()}
                                     : SizeRange{1, 128});
    }
  }
  return package;
}

Constant zeros(DType dtype, Shape shape) {
  const Type type = Type::tensor(dtype, std::move(shape));
  const auto bytes = (static_cast<size_t>(type.size()) * static_cast<size_t>(dtype_bits(dtype)) + 7) / 8;
  return Constant::from_bytes(type, Constant::Bytes(bytes));
}

Constant filled(DType dtype, Shape shape, float value) {
  const Type type = Type::tensor(dtype, shape);
  return Constant::numbers(std::vector<float>(static_cast<size_t>(type.size()), value), dtype,
                           std::move(shape));
}

std::vector<Finding> of_rule(const CheckReport& report, std::string_view id) {
  std::vector<Finding> out;
  for (const Finding& f : report.findings)
    if (f.rule->id == id) out.push_back(f);
  return out;
}

const std::vector<Seed>& seeds() {
  static const std::vector<Seed> all = [] {
    std::vector<Seed> out;
    for (const auto& group : {shape_seeds(), type_seeds(), op_seeds(), weight_seeds(), other_seeds()})
      out.insert(out.end(), group.begin(), group.end());
    return out;
  }();
  return all;
}

}  // namespace anemone
