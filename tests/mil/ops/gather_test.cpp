#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

const std::vector<float> kSix = {1, 2, 3, 4, 5, 6};

}  // namespace

TEST_CASE("gather takes rows of a stored table or of a value") {
  CHECK(OpTester("gather")
            .weight("x", {3, 2}, kSix, DType::fp16)
            .in_ints("indices", {2, 2}, {2, 0, -1, 1})
            .run()[0]
            .floats == std::vector<float>{5, 6, 1, 2, 5, 6, 3, 4});
  const auto columns = OpTester("gather")
                           .in("x", {2, 3}, kSix)
                           .in_ints("indices", {2}, {2, 0}, DType::uint16)
                           .set("axis", -1)
                           .run()[0];
  CHECK(columns.floats == std::vector<float>{3, 1, 6, 4});
  const auto one =
      OpTester("gather").in_ints("x", {3}, {7, 8, 9}, DType::int8).in_ints("indices", {}, {1}).run()[0];
  CHECK(one.type == Type::tensor(DType::int8));
  CHECK(one.ints == std::vector<int32_t>{8});
  CHECK(OpTester("gather")
            .constant("x", Constant::ints({7, 8, 9}))
            .in_ints("indices", {2}, {2, 1})
            .run()[0]
            .ints == std::vector<int32_t>{9, 8});
}

TEST_CASE("gather with batch dimensions, as in TensorFlow") {
  // x[b, :, indices[b]]
  const auto out = OpTester("gather")
                       .in("x", {2, 1, 3}, kSix)
                       .in_ints("indices", {2, 2}, {2, 0, 1, 1})
                       .set("axis", 2)
                       .set("batch_dims", 1)
                       .run()[0];
  CHECK(out.type.shape == Shape{2, 1, 2});
  CHECK(out.floats == std::vector<float>{3, 1, 5, 5});
}

TEST_CASE("an index outside the table is an error that names it") {
  for (const int32_t index : {3, -4, INT32_MIN, INT32_MAX}) {
    CAPTURE(index);
    CHECK_THROWS_AS(OpTester("gather").in("x", {3, 2}, kSix).in_ints("indices", {1}, {index}).run(), Error);
  }
  CHECK_THROWS_AS(
      OpTester("gather").in("x", {3, 2}, kSix).in_ints("indices", {1}, {0}).set("axis", 2).infer(), Error);
}

TEST_CASE("validate_indices refuses negative indices too") {
  const auto run = [](bool validate) {
    return OpTester("gather")
        .in("x", {3}, {1, 2, 3})
        .in_ints("indices", {1}, {-1})
        .set("validate_indices", validate)
        .run()[0]
        .floats;
  };
  CHECK(run(false) == std::vector<float>{3});
  CHECK_THROWS_AS(run(true), Error);
}

TEST_CASE("gather keeps symbols") {
  const Dim t = Dim::symbol(1);
  CHECK(OpTester("gather")
            .weight("x", {3, 2}, kSix)
            .of_type("indices", Type::tensor(DType::int32, {1, t}))
            .infer()[0]
            .shape == Shape{1, t, 2});
}

TEST_CASE("gather_along_axis is numpy's take_along_axis") {
  CHECK(OpTester("gather_along_axis")
            .in("x", {2, 3}, kSix)
            .in_ints("indices", {2, 2}, {2, -3, 1, 0})
            .set("axis", 1)
            .run()[0]
            .floats == std::vector<float>{3, 1, 5, 4});
  CHECK(OpTester("gather_along_axis")
            .weight("x", {2, 3}, kSix)
            .in_ints("indices", {1, 3}, {1, 0, 1})
            .run()[0]
            .floats == std::vector<float>{4, 2, 6});
  CHECK_THROWS_AS(OpTester("gather_along_axis")
                      .in("x", {2, 3}, kSix)
                      .in_ints("indices", {2, 1}, {0, 3})
                      .set("axis", 1)
                      .run(),
                  Error);
  CHECK_THROWS_AS(OpTester("gather_along_axis")
                      .in("x", {2, 3}, kSix)
                      .in_ints("indices", {3, 1}, {0, 0, 0})
                      .set("axis", 1)
                      .infer(),
                  Error);
}

TEST_CASE("gather_nd takes slices by tuples") {
  CHECK(
      OpTester("gather_nd").in("x", {2, 3}, kSix).in_ints("indices", {2, 2}, {1, 2, 0, -3}).run()[0].floats ==
      std::vector<float>{6, 1});
  CHECK(OpTester("gather_nd").in("x", {2, 3}, kSix).in_ints("indices", {1, 1}, {1}).run()[0].floats ==
        std::vector<float>{4, 5, 6});
  const auto batch = OpTester("gather_nd")
                         .in("x", {2, 3}, kSix)
                         .in_ints("indices", {2, 1}, {2, 0})
                         .set("batch_dims", 1)
                         .run()[0];
  CHECK(batch.type.shape == Shape{2});
  CHECK(batch.floats == std::vector<float>{3, 4});
  CHECK_THROWS_AS(OpTester("gather_nd").in("x", {2, 3}, kSix).in_ints("indices", {1, 3}, {0, 0, 0}).infer(),
                  Error);
}
