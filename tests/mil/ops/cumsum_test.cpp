#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("cumsum along both axes, exclusive and reversed") {
  const auto run = [](int axis, bool exclusive, bool reverse) {
    return OpTester("cumsum")
        .in("x", {2, 3}, {1, 2, 3, 4, 5, 6})
        .set("axis", axis)
        .set("exclusive", exclusive)
        .set("reverse", reverse)
        .run()[0]
        .floats;
  };
  CHECK(run(0, false, false) == std::vector<float>{1, 2, 3, 5, 7, 9});
  CHECK(run(1, false, false) == std::vector<float>{1, 3, 6, 4, 9, 15});
  CHECK(run(-1, true, false) == std::vector<float>{0, 1, 3, 0, 4, 9});
  CHECK(run(1, false, true) == std::vector<float>{6, 5, 3, 15, 11, 6});
  CHECK(run(0, true, true) == std::vector<float>{4, 5, 6, 0, 0, 0});
}

TEST_CASE("cumsum starts at axis 0, wraps integers, keeps symbols and refuses an axis outside") {
  CHECK(OpTester("cumsum").in_ints("x", {3}, {INT32_MAX, 1, 1}).run()[0].ints ==
        std::vector<int32_t>{INT32_MAX, INT32_MIN, INT32_MIN + 1});
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1)});
  CHECK(OpTester("cumsum").of_type("x", symbolic).infer()[0] == symbolic);
  CHECK_THROWS_AS(OpTester("cumsum").of_type("x", symbolic).set("axis", 2).infer(), Error);
  CHECK_THROWS_AS(OpTester("cumsum").in("x", {}, {1}).run(), Error);
}
