#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("binary ops broadcast as numpy does") {
  const auto out = OpTester("sub").in("x", {2, 1}, {10, 20}).in("y", {3}, {1, 2, 3}).run();
  CHECK(out[0].type == Type::tensor(DType::fp32, {2, 3}));
  CHECK(out[0].floats == std::vector<float>{9, 8, 7, 19, 18, 17});
  const auto mixed = OpTester("add").in("x", {2, 1, 2}, {1, 2, 3, 4}).in("y", {3, 1}, {10, 20, 30}).run();
  CHECK(mixed[0].floats == std::vector<float>{11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34});
}

TEST_CASE("binary ops keep symbols and refuse shapes that do not fit") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1), 8});
  CHECK(OpTester("mul").of_type("x", symbolic).of_type("y", Type::tensor(DType::fp16, {8})).infer()[0] ==
        symbolic);
  CHECK_THROWS_WITH_AS(OpTester("mul").in("x", {2}, {1, 2}).in("y", {3}, {1, 2, 3}).run(),
                       "the shapes [2] and [3] do not fit together", Error);
  CHECK_THROWS_AS(OpTester("mul").in("x", {1}, {1}).in_ints("y", {1}, {1}).run(), Error);
}

TEST_CASE("integer division and remainder follow their rules for negative numbers") {
  const std::vector<int32_t> x{-7, 7, -7, 5, 5}, y{2, -2, -2, 0, 3};
  const auto run = [&](const char* op) {
    return OpTester(op).in_ints("x", {5}, x).in_ints("y", {5}, y).run()[0].ints;
  };
  CHECK(run("real_div") == std::vector<int32_t>{-3, -3, 3, 0, 1});
  CHECK(run("floor_div") == std::vector<int32_t>{-4, -4, 3, 0, 1});
  CHECK(run("mod") == std::vector<int32_t>{1, -1, -1, 0, 2});
  CHECK(OpTester("mod").in("x", {2}, {-5, 5}).in("y", {1}, {3}).run()[0].floats == std::vector<float>{1, 2});
}

TEST_CASE("comparisons give bool") {
  const auto out = OpTester("greater_equal").in("x", {3}, {1, 2, 3}).in("y", {1}, {2}).run();
  CHECK(out[0].type == Type::tensor(DType::boolean, {3}));
  CHECK(out[0].ints == std::vector<int32_t>{0, 1, 1});
}
