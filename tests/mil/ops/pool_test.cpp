#include <doctest/doctest.h>

#include <numeric>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"
#include "mil/rules.h"

using namespace anemone;

namespace {

// 1, 2, 3 … in the shape given.
OpTester counting(const char* op, std::vector<int64_t> dims) {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  std::vector<float> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 1.0f);
  return std::move(OpTester(op).in("x", std::move(dims), std::move(x)));
}

}  // namespace

TEST_CASE("sliding_window gives the sizes of coremltools") {
  struct Row {
    int64_t in, kernel, stride, dilation;
    const char* pad_type;
    int64_t before, after;  // as asked for
    bool ceil;
    int64_t out, out_before;
  };
  const Row rows[] = {
      {7, 3, 3, 1, "same", 0, 0, false, 3, 1},
      {2, 2, 1, 1, "same", 0, 0, false, 2, 0},
      {2, 2, 1, 1, "same_lower", 0, 0, false, 2, 1},
      {7, 1, 2, 1, "valid", 9, 9, false, 4, 0},
      {10, 3, 1, 2, "valid", 0, 0, false, 6, 0},
      {6, 3, 2, 1, "custom", 1, 1, false, 3, 1},
      {6, 3, 2, 1, "custom", 1, 1, true, 4, 1},
      {6, 2, 3, 1, "custom", 1, 1, true, 3, 1},
      {6, 2, 4, 1, "custom", 1, 1, true, 2, 1},
      {2, 1, 3, 1, "valid", 0, 0, true, 2, 0},  // begins outside
      {2, 3, 2, 1, "valid", 0, 0, true, 1, 0},
      {5, 2, 2, 1, "custom", 0, 1, false, 3, 0},
  };
  for (const Row& r : rows) {
    CAPTURE(r.in);
    CAPTURE(r.kernel);
    const Dim in[] = {r.in};
    const int64_t kernel[] = {r.kernel}, stride[] = {r.stride}, dilation[] = {r.dilation},
                  pad[] = {r.before, r.after};
    const Window w = sliding_window(in, r.pad_type, kernel, stride, dilation, pad, r.ceil);
    CHECK(w.out[0] == Dim(r.out));
    CHECK(w.before[0] == r.out_before);
  }
}

TEST_CASE("sliding_window keeps a symbol where the size does not change, and refuses what cannot be") {
  const int64_t three[] = {3}, one[] = {1}, two[] = {2}, none[] = {0, 0}, both[] = {1, 1},
                huge[] = {INT32_MAX, 0};
  const Dim symbol[] = {Dim::symbol(1)}, small[] = {2}, large[] = {int64_t{1} << 60};
  CHECK(sliding_window(symbol, "same", three, one, one, none, false).out[0] == Dim::symbol(1));
  CHECK(sliding_window(symbol, "custom", three, one, one, both, false).out[0] == Dim::symbol(1));
  CHECK(sliding_window(symbol, "same", three, two, one, none, false).out[0].is_unknown());
  CHECK_THROWS_AS(sliding_window(small, "valid", three, one, one, none, false), Error);
  CHECK_THROWS_AS(sliding_window(small, "full", one, one, one, none, false), Error);
  CHECK_THROWS_AS(sliding_window(small, "valid", none, one, one, none, false), Error);
  CHECK_THROWS_AS(sliding_window(large, "valid", three, one, one, none, false), Error);
  CHECK(sliding_window(small, "custom", three, one, one, huge, false).out[0] == Dim(INT32_MAX));
}

TEST_CASE("pooling in one dimension: values of coremltools' tests") {
  const auto run = [](const char* op, const char* pad_type) {
    OpTester t = counting(op, {1, 1, 7});
    t.set("kernel_sizes", {3}).set("strides", {3}).set("pad_type", pad_type);
    if (op == std::string("avg_pool")) t.set("exclude_padding_from_average", true);
    return t.run()[0].floats;
  };
  CHECK(run("avg_pool", "same") == std::vector<float>{1.5f, 4, 6.5f});
  CHECK(run("max_pool", "same") == std::vector<float>{2, 5, 7});
  CHECK(near(run("l2_pool", "same"), {2.236068f, 7.071068f, 9.219544f}));
  CHECK(run("max_pool", "VALID") == std::vector<float>{3, 6});
  CHECK(counting("avg_pool", {1, 1, 2, 2})
            .set("kernel_sizes", {2, 2})
            .set("pad_type", "same_lower")
            .run()[0]
            .floats == std::vector<float>{0.25f, 0.75f, 1, 2.5f});
  CHECK(counting("avg_pool", {1, 1, 2, 2, 2})
            .set("kernel_sizes", {2, 2, 2})
            .set("pad_type", "same_lower")
            .run()[0]
            .floats == std::vector<float>{0.125f, 0.375f, 0.5f, 1.25f, 0.75f, 1.75f, 2, 4.5f});
}

TEST_CASE("ceil mode and padding: values of torch") {
  const auto run = [](const char* op, bool ceil, bool exclude) {
    OpTester t = counting(op, {1, 1, 4, 5});
    t.set("kernel_sizes", {3, 2}).set("strides", {2, 2}).set("pad_type", "custom").set("pad", {1, 1, 1, 1});
    t.set("ceil_mode", ceil);
    if (exclude) t.set("exclude_padding_from_average", true);
    return t.run()[0].floats;
  };
  const float third = 1.0f / 3;
  CHECK(near(run("avg_pool", true, false),
             {3.5f * third, 10 * third, 14 * third, 5.5f, 12.5f, 14.5f, 4, 8.75f, 9.75f}));
  CHECK(near(run("avg_pool", true, true), {3.5f, 5, 7, 11, 12.5f, 14.5f, 16, 17.5f, 19.5f}));
  CHECK(run("max_pool", true, false) == std::vector<float>{6, 8, 10, 16, 18, 20, 16, 18, 20});
  CHECK(near(run("avg_pool", false, false), {3.5f * third, 10 * third, 14 * third, 5.5f, 12.5f, 14.5f}));
  const auto over = counting("avg_pool", {1, 1, 6})
                        .set("kernel_sizes", {3})
                        .set("strides", {4})
                        .set("pad_type", "valid")
                        .set("ceil_mode", true)
                        .run();
  CHECK(over[0].floats == std::vector<float>{2, 5.5f});
}

TEST_CASE("planes are pooled one by one") {
  const auto out =
      counting("max_pool", {2, 2, 1, 2}).set("kernel_sizes", {1, 2}).set("pad_type", "valid").run(3);
  CHECK(out[0].type.shape == Shape{2, 2, 1, 1});
  CHECK(out[0].floats == std::vector<float>{2, 4, 6, 8});
}

TEST_CASE("pooling keeps symbols and refuses wrong parameters") {
  const Type symbolic = Type::tensor(DType::fp16, {1, 3, Dim::symbol(1), 8});
  const auto on = [&](const char* op) {
    return std::move(OpTester(op).of_type("x", symbolic).set("kernel_sizes", {1, 2}));
  };
  CHECK(on("avg_pool").set("pad_type", "valid").infer()[0].shape == Shape{1, 3, Dim::symbol(1), 7});
  CHECK_THROWS_AS(on("avg_pool").set("pad_type", "full").infer(), Error);
  CHECK_THROWS_AS(on("avg_pool").set("pad_type", "same").set("ceil_mode", true).infer(), Error);
  CHECK_THROWS_AS(on("max_pool").set("pad_type", "valid").set("strides", {1}).infer(), Error);
  CHECK_THROWS_AS(
      counting("l2_pool", {1, 1, 2, 2, 2}).set("kernel_sizes", {1, 1, 1}).set("pad_type", "valid").infer(),
      Error);
  CHECK_THROWS_AS(counting("max_pool", {1, 2}).set("kernel_sizes", {1}).set("pad_type", "valid").infer(),
                  Error);
}
