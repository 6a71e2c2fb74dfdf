#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("reshape fills in one -1, also through symbols") {
  const auto infer = [](Shape from, std::vector<int64_t> to) {
    return OpTester("reshape")
        .of_type("x", Type::tensor(DType::fp16, std::move(from)))
        .set("shape", to)
        .infer()[0]
        .shape;
  };
  CHECK(infer({2, 12}, {3, -1}) == Shape{3, 8});
  const Dim t = Dim::symbol(1);
  CHECK(infer({1, 32, t, 1}, {1, 4, 8, -1}) == Shape{1, 4, 8, t});
  CHECK(infer({1, 4, t, 8}, {1, -1, 8}) == Shape{1, Dim(4).times(t), 8});
  CHECK(infer({Dim(4).times(t), 8}, {4, -1, 8}) == Shape{4, t, 8});
  CHECK_THROWS_AS(infer({2, 3}, {4, -1}), Error);
  CHECK_THROWS_AS(infer({2, 3}, {-1, -1}), Error);
}

TEST_CASE("a shape known only at run time leaves the dimensions open") {
  OpTester tester("reshape");
  tester.in("x", {6}, {1, 2, 3, 4, 5, 6}).in_ints("shape", {2}, {2, 3});
  CHECK(tester.infer()[0].shape == Shape{Dim::unknown(), Dim::unknown()});
  CHECK(tester.run()[0].type.shape == Shape{2, 3});
}

TEST_CASE("expand_dims and squeeze are each other's inverse") {
  CHECK(
      OpTester("expand_dims").in("x", {2, 3}, {1, 2, 3, 4, 5, 6}).set("axes", {0, -1}).run()[0].type.shape ==
      Shape{1, 2, 3, 1});
  CHECK(OpTester("squeeze").in("x", {1, 2, 1}, {1, 2}).run()[0].type.shape == Shape{2});
  CHECK(OpTester("squeeze").in("x", {1, 2}, {1, 2}).set("axes", {0, 1}).run()[0].type.shape == Shape{2});
  CHECK_THROWS_AS(OpTester("squeeze").in("x", {1, 2}, {1, 2}).set("axes", 2).run(), Error);
}

TEST_CASE("a 0 in the shape of reshape stands for the dimension at its place") {
  const auto shape = [](Opset opset, std::vector<int64_t> to) {
    const Type x = Type::tensor(DType::fp32, {2, 50});
    return OpTester("reshape", opset).of_type("x", x).set("shape", to).infer()[0].shape;
  };
  CHECK(shape(Opset::ios17, {1, 0, -1, 0}) == Shape{1, 1, 2, 50});
  CHECK(shape(Opset::ios15, {0, -1}) == Shape{2, 50});
  CHECK_THROWS_AS(shape(Opset::ios15, {0, -1, 5}), Error);
  CHECK(OpTester("reshape").in("x", {0, 3}, {}).set("shape", {3, 0}).run()[0].type.shape == Shape{3, 0});
}

TEST_CASE("reshape_like puts a shape together from parts of others") {
  OpTester tester("reshape_like");
  tester.of_type("x", Type::tensor(DType::fp32, {180}))
      .of_type("ref_tensors", Type::tensor(DType::boolean, {2, 3, 4}))
      .of_type("ref_tensors", Type::tensor(DType::int32, {1, 5, 6}));
  tester.set("begins", 0)
      .set("begins", -2)
      .set("ends", 2)
      .set("ends", 0)
      .set("end_masks", false)
      .set("end_masks", true);
  CHECK(tester.infer()[0].shape == Shape{2, 3, 5, 6});
}
