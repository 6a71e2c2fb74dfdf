// Faster kernels for single operations give what the operations' own kernels give, on random shapes.
#include "engine/op_kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "anemone/predictor.h"
#include "base/thread_pool.h"
#include "mil/builder.h"
#include "mil/function_info.h"
#include "package/package.h"
#include "support/random.h"

using namespace anemone;
using anemone::test::normal_floats;

namespace {

using MakeOp = std::function<Value*(Builder& b, Value* x)>;

// One operation over x: by the engine, and by its own kernel. `of_range`: errors that go with the largest result.
void check_op(const std::vector<int64_t>& shape, std::mt19937& random, const MakeOp& make,
              float of_range = 0) {
  auto package = std::make_shared<Package>();
  Function& f = add_function(package->program, "main", Opset::ios18);
  Shape dims(shape.begin(), shape.end());
  Value* x = add_input(f, "x", Type::tensor(DType::fp32, dims));
  Builder b(f);
  Value* y = make(b, x);
  b.output(y);
  package->description = description_of(package->program);
  package->spec_version = 9;
  Array in(DType::fp32, shape);
  const auto values = normal_floats(static_cast<int64_t>(in.values<float>().size()), random);
  std::copy(values.begin(), values.end(), in.values<float>().begin());

  const FunctionInfo info(f);
  const Operation& op = *y->producer;
  OpBinding binding = OpBinding::bind(op, f.opset);
  const bool faster = find_op_kernel(binding) != nullptr;
  REQUIRE(faster);
  std::vector<const void*> data(binding.operands.size());
  std::vector<std::vector<float>> decoded;
  for (size_t i = 0; i < data.size(); ++i) {
    const Value* value = binding.sources[i] ? binding.sources[i]->value : nullptr;
    if (value == x) {
      data[i] = in.values<float>().data();
    } else if (value && info.value(info.id(value))->type.dtype != DType::string) {
      binding.operands[i].constant = value->constant();
      data[i] = info.dense(info.id(value));
      if (!data[i]) {
        decoded.push_back(decode_floats(*info.stored(info.id(value))));
        data[i] = decoded.back().data();
      }
    } else if (value) {
      binding.operands[i].constant = value->constant();
    } else if (binding.operands[i].constant && binding.operands[i].type.dtype != DType::string) {
      data[i] = info.dense(*binding.operands[i].constant);
    }
  }
  const Types types = binding.op->infer(OpCall(binding, data));
  std::vector<float> expected(static_cast<size_t>(types[0].size()));
  std::vector<void*> out = {expected.data()};
  ThreadPool pool(1);
  binding.op->run(OpCall(binding, data, types, out, pool));
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::abs(v));
  for (const int threads : {1, 3}) {
    const auto got =
        make_predictor(package, "", {.threads = threads})->predict({{"x", in}}).at("y").to_float();
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      REQUIRE(std::abs(got[i] - expected[i]) <=
              4e-6f * std::abs(expected[i]) + std::max(2e-5f, of_range * largest));
  }
}

Constant numbers(const std::vector<float>& values, Shape shape, DType dtype = DType::fp32) {
  return Constant::numbers(values, dtype, std::move(shape));
}

int64_t pick(std::mt19937& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

}  // namespace

TEST_CASE("op kernels: activations") {
  std::mt19937 random(1);
  for (const char* op : {"sigmoid", "tanh", "silu", "relu", "relu6"})
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {3, 5, 7}, {2, 40, 31, 17}})
      check_op(shape, random, [op](Builder& b, Value* x) { return b.op(op, {{"x", x}}, "y"); });
  for (const char* mode : {"EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"})
    check_op({3, 37, 111}, random, [mode](Builder& b, Value* x) {
      return b.op("gelu", {{"x", x}, {"mode", Constant::text(mode)}}, "y");
    });
}

TEST_CASE("op kernels: softmax and layer norm along any axes") {
  std::mt19937 random(2);
  const std::vector<int64_t> shape = {3, 5, 18, 35};
  for (const int32_t axis : {-1, 3, 1, -2})
    check_op(shape, random, [axis](Builder& b, Value* x) {
      return b.op("softmax", {{"x", x}, {"axis", Constant::integer(axis)}}, "y");
    });
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{-1}, {2, 3}, {3, 2}, {1}, {1, 3}, {0, 1, 2, 3}}) {
    Shape normed;
    int64_t n = 1;
    std::vector<int64_t> sorted;
    for (const int64_t a : axes) sorted.push_back(a < 0 ? a + 4 : a);
    for (const int64_t a : sorted) {
      normed.push_back(shape[static_cast<size_t>(a)]);
      n *= shape[static_cast<size_t>(a)];
    }
    const bool ordered = std::is_sorted(sorted.begin(), sorted.end());
    check_op(shape, random, [&](Builder& b, Value* x) {
      const auto part = [&](const char* name) {
        return ordered ? b.constant(numbers(normal_floats(n, random), normed), name) : nullptr;
      };
      return b.op("layer_norm",
                  {{"x", x},
                   {"axes", Constant::ints(axes)},
                   {"gamma", part("gamma")},
                   {"beta", part("beta")},
                   {"epsilon", Constant::number(1e-5f, DType::fp32)}},
                  "y");
    });
  }
}

TEST_CASE("op kernels: max_pool with every kind of window") {
  std::mt19937 random(6);
  for (int round = 0; round < 24; ++round) {
    const std::vector<int64_t> kernel = {pick(random, 1, 4), pick(random, 1, 4)},
                               strides = {pick(random, 1, 3), pick(random, 1, 3)};
    const int64_t side = pick(random, 0, 1);
    const std::vector<int64_t> pad = {side, side, side, side};
    const char* kind = round % 3 == 0 ? "same" : round % 3 == 1 ? "valid" : "custom";
    check_op({2, 5, pick(random, 5, 30), pick(random, 5, 30)}, random, [&](Builder& b, Value* x) {
      return b.op("max_pool",
                  {{"x", x},
                   {"kernel_sizes", Constant::ints(kernel)},
                   {"strides", Constant::ints(strides)},
                   {"pad_type", Constant::text(kind)},
                   {"pad", round % 3 == 2 ? b.constant(Constant::ints(pad), "pad") : nullptr},
                   {"ceil_mode", Constant::boolean(round % 3 == 2 && round % 2 == 0)}},
                  "y");
    });
  }
}

TEST_CASE("op kernels: linear over many positions, in blocks and with what is left of them") {
  std::mt19937 random(4);
  for (const auto& [positions, rows, k] :
       {std::tuple<int64_t, int64_t, int64_t>{9, 70, 40}, {300, 25, 390}, {5, 64, 33}})
    for (const DType dtype : {DType::fp32, DType::fp16})
      check_op({1, positions, k}, random, [&, rows = rows, k = k](Builder& b, Value* x) {
        return b.op("linear",
                    {{"x", x},
                     {"weight", numbers(normal_floats(rows * k, random), {rows, k}, dtype)},
                     {"bias", numbers(normal_floats(rows, random), {rows}, dtype)}},
                    "y");
      });
}

TEST_CASE("op kernels: convolutions of one group, over 1 to 3 dimensions") {
  std::mt19937 random(5);
  for (int round = 0; round < 24; ++round) {
    const size_t spatial = static_cast<size_t>(1 + round % 3);
    const int64_t channels = pick(random, 3, 40), out = pick(random, 20, 60);
    std::vector<int64_t> shape = {pick(random, 1, 2), channels}, strides, pad;
    Shape kernel = {out, channels};
    int64_t taps = 1;
    for (size_t i = 0; i < spatial; ++i) {
      shape.push_back(pick(random, 6, spatial == 1 ? 700 : spatial == 2 ? 40 : 12));
      strides.push_back(pick(random, 1, 2));
      kernel.push_back(pick(random, 1, 3));
      taps *= kernel.back().size();
      for (int side = 0; side < 2; ++side) pad.push_back(pick(random, 0, 2));
    }
    // By Winograd's way, which the engine may take here, outputs of a tile share their errors.
    const bool by_winograd = kernel.size() == 4 && kernel[2].size() == 3 && kernel[3].size() == 3 &&
                             strides == std::vector<int64_t>{1, 1};
    check_op(
        shape, random,
        [&](Builder& b, Value* x) {
          const DType dtype = round % 2 ? DType::fp16 : DType::fp32;
          Value* bias =
              round % 4 ? b.constant(numbers(normal_floats(out, random), {out}, dtype), "bias") : nullptr;
          return b.op("conv",
                      {{"x", x},
                       {"weight", numbers(normal_floats(out * channels * taps, random), kernel, dtype)},
                       {"bias", bias},
                       {"strides", Constant::ints(strides)},
                       {"pad_type", Constant::text("custom")},
                       {"pad", Constant::ints(pad)}},
                      "y");
        },
        by_winograd ? 1e-6f : 0.f);
  }
}

TEST_CASE("op kernels: depthwise convolutions, with every kind of padding, stride and dilation") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const int64_t channels = pick(random, 2, 9), times = pick(random, 1, 2), kh = pick(random, 1, 5),
                  kw = pick(random, 1, 5);
    const std::vector<int64_t> strides = {pick(random, 1, 3), pick(random, 1, 3)};
    const std::vector<int64_t> dilations = {pick(random, 1, 2), pick(random, 1, 2)};
    const std::vector<int64_t> pad = {pick(random, 0, 2), pick(random, 0, 2), pick(random, 0, 2),
                                      pick(random, 0, 2)};
    const char* kind = round % 3 == 0 ? "same" : round % 3 == 1 ? "valid" : "custom";
    check_op(
        {pick(random, 1, 2), channels, pick(random, 9, 24), pick(random, 9, 40)}, random,
        [&](Builder& b, Value* x) {
          const int64_t out = channels * times;
          const DType dtype = round % 2 ? DType::fp16 : DType::fp32;
          Value* bias =
              round % 4 ? b.constant(numbers(normal_floats(out, random), {out}, dtype), "bias") : nullptr;
          Value* padding = round % 3 == 2 ? b.constant(Constant::ints(pad), "pad") : nullptr;
          return b.op("conv",
                      {{"x", x},
                       {"weight", numbers(normal_floats(out * kh * kw, random), {out, 1, kh, kw}, dtype)},
                       {"bias", bias},
                       {"strides", Constant::ints(strides)},
                       {"dilations", Constant::ints(dilations)},
                       {"pad_type", Constant::text(kind)},
                       {"pad", padding},
                       {"groups", Constant::integer(static_cast<int32_t>(channels))}},
                      "y");
        });
  }
}
