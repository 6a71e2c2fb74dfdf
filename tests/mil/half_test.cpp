#include "mil/passes/half.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mil/made_net.h"
#include "mil/passes/tidy.h"

namespace anemone::made {

namespace {

std::vector<float> halves(const Net& net, const std::map<std::string, Array>& inputs) {
  const Prediction p = predicted(net.program, inputs, Arithmetic::fp16);
  CHECK_FALSE(p.fault);
  return p.at("y").to_float();
}

Constant number(float v) { return Constant::number(v, DType::fp32); }

Array row(const std::vector<float>& values, std::vector<int64_t> shape) {
  Array out(DType::fp32, std::move(shape));
  std::copy(values.begin(), values.end(), out.values<float>().begin());
  return out;
}

// Numbers that are made when they are asked for.
class Made : public WeightSource {
 public:
  Made(std::vector<float> values, Shape shape)
      : values_(std::move(values)), type_(Type::tensor(DType::fp32, std::move(shape))) {}
  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    const int64_t row = type_.size() / type_.dim(0).size();
    std::memcpy(out.data(), values_.data() + begin * row, static_cast<size_t>((end - begin) * row) * 4);
  }

 private:
  std::vector<float> values_;
  Type type_;
};

}  // namespace

TEST_CASE("tidy: casts there and back stay unless they lose nothing") {
  const std::vector<std::string> types = {"fp16", "fp32", "int32", "bool"};
  const Array x = Array::from<float>({6}, {0.3f, 1.7f, -2.5f, 0, 70.1f, 1e-5f});
  for (const std::string& a : types)
    for (const std::string& b : types)
      for (const bool half : {false, true}) {
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(half);
        Net net;
        Value* v = net.input({6});
        v = net.cast(net.cast(net.cast(v, a), b), a);
        net.output(net.cast(v, "fp32"));
        if (half) to_half(net.f);
        const std::vector<float> before = halves(net, {{"x", x}});
        tidy(net.f);
        CHECK(halves(net, {{"x", x}}) == before);
      }
}

TEST_CASE("to_half and tidy: truncation through whole numbers stays") {
  Net net;
  net.output(net.cast(net.cast(net.input({4}), "int32"), "fp32"));
  to_half(net.f);
  tidy(net.f);
  const Array x = Array::from<float>({4}, {0.3f, 1.7f, -2.5f, 100.9f});
  CHECK(halves(net, {{"x", x}}) == std::vector<float>{0, 1, -2, 100});
}

TEST_CASE("to_half: sums of products of whole numbers stay exact") {
  // 300 codes of 200 by weights of 100 make 6,000,000.
  Net net;
  Value* codes = net.op(
      "clip",
      {{"x", net.op("round", {{"x", net.input({1, 300})}})}, {"alpha", number(0)}, {"beta", number(255)}});
  Value* whole = net.cast(net.cast(codes, "int32"), "fp32");
  Value* centered = net.op("sub", {{"x", whole}, {"y", number(1)}});
  Value* weight =
      net.builder().constant(Constant::numbers(std::vector<float>(300, 100.0f), DType::fp32, {300, 1}), "w");
  Value* sums = net.cast(net.op("matmul", {{"x", centered}, {"y", weight}}), "int32");
  // As quantized networks go on: times a small scale.
  Value* scaled = net.op("mul", {{"x", net.cast(sums, "fp32")}, {"y", number(1e-5f)}});
  net.output(scaled);
  const HalfReport report = to_half(net.f);
  CHECK(report.islands == 4);  // sub, matmul, the cast behind it, mul
  tidy(net.f);
  const std::vector<float> values(300, 200.3f);
  // 300 * 199 * 100 / 10^5; fp16 has it to 0.03.
  CHECK(halves(net, {{"x", row(values, {1, 300})}})[0] == doctest::Approx(59.7).epsilon(5e-4));
}

TEST_CASE("to_half: what becomes a whole number stays exact through selections and views") {
  // As the indices of MaxPool are found: places in floats, chosen by a comparison, then whole numbers.
  Net net;
  Value* x = net.input({1, 3000});
  std::vector<float> places, further;
  for (int k = 0; k < 3000; ++k) {
    places.push_back(static_cast<float>(k));
    further.push_back(static_cast<float>(k + 30001));
  }
  Value* a = net.builder().constant(Constant::numbers(places, DType::fp32, {1, 3000}), "a");
  Value* b = net.builder().constant(Constant::numbers(further, DType::fp32, {1, 3000}), "b");
  Value* chosen =
      net.op("select", {{"cond", net.op("greater", {{"x", x}, {"y", number(0)}})}, {"a", a}, {"b", b}});
  chosen = net.op("slice_by_index", {{"x", net.reshape(chosen, {3000})},
                                     {"begin", Constant::ints({2998})},
                                     {"end", Constant::ints({3000})}});
  Value* whole = net.cast(chosen, "int32");
  // The remainder fits fp16, and only the right whole number has it.
  net.output(net.cast(net.op("mod", {{"x", whole}, {"y", Constant::integer(1000)}}), "fp32"));
  to_half(net.f);
  std::vector<float> values(3000, 1.0f);
  values[2999] = -1;
  CHECK(halves(net, {{"x", row(values, {1, 3000})}}) == std::vector<float>{998, 0});
}

TEST_CASE("to_half: whole numbers of unknown size stay fp32 until they are small") {
  // Positions times frequencies, then their cosine.
  Net net;
  Value* positions = net.cast(net.input({3, 1}, DType::int32), "fp32");
  Value* frequencies =
      net.builder().constant(Constant::numbers(std::vector<float>{1.0f, 0.5f}, DType::fp32, {1, 2}), "w");
  Value* angles = net.op("matmul", {{"x", positions}, {"y", frequencies}});
  Value* both =
      net.op("concat", {{"values", std::vector<Value*>{angles, angles}}, {"axis", Constant::integer(1)}});
  net.output(net.op("cos", {{"x", net.transpose(both, {1, 0})}}));
  to_half(net.f);
  const std::vector<float> got = halves(net, {{"x", Array::from<int32_t>({3, 1}, {1, 3001, 100003})}});
  const double places[] = {1, 3001, 100003};
  for (size_t k = 0; k < 3; ++k) {
    CHECK(static_cast<double>(got[k]) == doctest::Approx(std::cos(places[k])).epsilon(2e-3));
    CHECK(static_cast<double>(got[3 + k]) == doctest::Approx(std::cos(places[k] / 2)).epsilon(2e-3));
  }
}

TEST_CASE("to_half: a mask of whole numbers times a number that means never stays in range") {
  Net net;
  Value* mask = net.cast(net.input({1, 4}, DType::int32, "mask"), "fp32");
  Value* x = net.input({1, 4});
  Value* off = net.op("sub", {{"x", number(1)}, {"y", mask}});
  Value* never = net.op("mul", {{"x", off}, {"y", number(-3.4028235e38f)}});
  net.output(
      net.op("softmax", {{"x", net.op("add", {{"x", x}, {"y", never}})}, {"axis", Constant::integer(1)}}));
  to_half(net.f);
  const std::vector<float> got = halves(net, {{"mask", Array::from<int32_t>({1, 4}, {1, 1, 0, 0})},
                                              {"x", Array::from<float>({1, 4}, {1, 1, 5, 5})}});
  CHECK(got == std::vector<float>{0.5f, 0.5f, 0, 0});
}

TEST_CASE("to_half: a mask of whole numbers does not draw what it is multiplied with into fp32") {
  Net net;
  Value* mask = net.cast(net.input({1, 8}, DType::int32, "mask"), "fp32");
  Value* x = net.input({1, 8});
  for (int k = 0; k < 3; ++k)
    x = net.op("mul", {{"x", net.op("add", {{"x", net.linear(x, 8, 8, k)}, {"y", x}})}, {"y", mask}});
  net.output(x);
  CHECK(to_half(net.f).islands == 1);  // the cast
}

TEST_CASE("to_half: large constants beyond fp16's range stay fp32, in place or made later") {
  std::vector<float> values(5000, 1.0f);
  values[4321] = 200000;
  for (const bool later : {false, true}) {
    CAPTURE(later);
    Net net;
    Constant c = later ? Constant::from_source(std::make_shared<Made>(values, Shape{5000}))
                       : Constant::numbers(values, DType::fp32, {5000});
    Value* sum = net.op("add", {{"x", net.input({5000})}, {"y", std::move(c)}});
    net.output(net.op("real_div", {{"x", sum}, {"y", number(1000)}}));
    to_half(net.f);
    const std::vector<float> got = halves(net, {{"x", row(std::vector<float>(5000, 1.0f), {5000})}});
    CHECK(got[4321] == doctest::Approx(200.001).epsilon(1e-3));
    CHECK(got[0] == doctest::Approx(0.002).epsilon(1e-3));
  }
}

TEST_CASE("to_half: exponents that leave the range, and the logarithm behind them") {
  const auto softplus = [](Net& net, Value* x) {
    Value* sum = net.op("add", {{"x", net.op("exp", {{"x", x}})}, {"y", number(1)}});
    return net.op("log", {{"x", sum}});
  };
  Net net;
  net.output(softplus(net, net.input({3})));
  to_half(net.f);
  const std::vector<float> got = halves(net, {{"x", Array::from<float>({3}, {12, 80, -3})}});
  CHECK(got[0] == doctest::Approx(12.0000061).epsilon(1e-3));
  CHECK(got[1] == doctest::Approx(80).epsilon(1e-3));
  CHECK(got[2] == doctest::Approx(0.04858735).epsilon(1e-3));
  // Less the largest number, as a softmax in parts has it, nothing leaves the range.
  Net parts;
  Value* x = parts.input({2, 3});
  Value* most = parts.op("reduce_max",
                         {{"x", x}, {"axes", Constant::ints({1})}, {"keep_dims", Constant::boolean(true)}});
  parts.output(parts.op("exp", {{"x", parts.op("sub", {{"x", x}, {"y", most}})}}));
  CHECK(to_half(parts.f).islands == 0);
}

}  // namespace anemone::made
