#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

}  // namespace

TEST_CASE("scatter adds by default, as in the documentation of coremltools") {
  CHECK(OpTester("scatter")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {2}, {1, 0})
            .in("updates", {2, 3}, {5, 6, 7, 8, 9, 10})
            .run()[0]
            .floats == std::vector<float>{9, 11, 13, 9, 11, 13});
}

TEST_CASE("every mode of scatter, on floats and integers, with repeated and negative indices") {
  const auto run = [](const char* mode) {
    return OpTester("scatter")
        .in("data", {3}, {10, 20, 30})
        .in_ints("indices", {3}, {0, -1, 0})
        .in("updates", {3}, {4, 5, 2})
        .set("mode", mode)
        .run()[0]
        .floats;
  };
  CHECK(run("update") == std::vector<float>{2, 20, 5});
  CHECK(run("add") == std::vector<float>{16, 20, 35});
  CHECK(run("sub") == std::vector<float>{4, 20, 25});
  CHECK(run("mul") == std::vector<float>{80, 20, 150});
  CHECK(run("div") == std::vector<float>{1.25f, 20, 6});
  CHECK(run("max") == std::vector<float>{10, 20, 30});
  CHECK(run("min") == std::vector<float>{2, 20, 5});
  CHECK_THROWS_AS(run("other"), Error);
  const auto ints = [](const char* mode) {
    return OpTester("scatter")
        .in_ints("data", {2}, {INT32_MIN, 7})
        .in_ints("indices", {2}, {0, 1})
        .in_ints("updates", {2}, {-1, 0})
        .set("mode", mode)
        .run()[0]
        .ints;
  };
  CHECK(ints("div") == std::vector<int32_t>{INT32_MIN, 0});
  CHECK(ints("add") == std::vector<int32_t>{INT32_MAX, 7});
}

TEST_CASE("scatter along another axis, and along each place") {
  CHECK(OpTester("scatter")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {1}, {2})
            .in("updates", {2, 1}, {10, 20})
            .set("axis", 1)
            .set("mode", "update")
            .run()[0]
            .floats == std::vector<float>{1, 2, 10, 4, 5, 20});
  CHECK(OpTester("scatter_along_axis")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {2, 1}, {2, -3})
            .in("updates", {2, 1}, {10, 20})
            .set("axis", 1)
            .run()[0]
            .floats == std::vector<float>{1, 2, 13, 24, 5, 6});
  CHECK(OpTester("scatter_along_axis")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {1, 3}, {1, 0, 1})
            .in("updates", {1, 3}, {10, 20, 30})
            .set("mode", "update")
            .run()[0]
            .floats == std::vector<float>{1, 20, 3, 10, 5, 30});
}

TEST_CASE("scatter_nd combines slices by tuples") {
  CHECK(OpTester("scatter_nd")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {2, 2}, {1, 2, 0, 0})
            .in("updates", {2}, {10, 20})
            .run()[0]
            .floats == std::vector<float>{21, 2, 3, 4, 5, 16});
  CHECK(OpTester("scatter_nd")
            .in("data", {2, 3}, kSix)
            .in_ints("indices", {1, 1}, {-1})
            .in("updates", {1, 3}, {7, 8, 9})
            .set("mode", "update")
            .run()[0]
            .floats == std::vector<float>{1, 2, 3, 7, 8, 9});
}

TEST_CASE("scatter refuses indices outside and updates of another shape, and keeps symbols") {
  CHECK_THROWS_AS(OpTester("scatter")
                      .in("data", {3}, {1, 2, 3})
                      .in_ints("indices", {1}, {3})
                      .in("updates", {1}, {1})
                      .run(),
                  Error);
  CHECK_THROWS_AS(OpTester("scatter_nd")
                      .in("data", {3}, {1, 2, 3})
                      .in_ints("indices", {1, 1}, {-4})
                      .in("updates", {1}, {1})
                      .run(),
                  Error);
  CHECK_THROWS_AS(OpTester("scatter")
                      .in("data", {3}, {1, 2, 3})
                      .in_ints("indices", {1}, {0})
                      .in("updates", {2}, {1, 2})
                      .infer(),
                  Error);
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("scatter")
            .of_type("data", Type::tensor(DType::fp16, {t, 3}))
            .in_ints("indices", {1}, {0})
            .of_type("updates", Type::tensor(DType::fp16, {1, 3}))
            .infer()[0]
            .shape == Shape{t, 3});
}
