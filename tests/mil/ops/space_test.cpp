#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

Constant pairs(std::vector<int64_t> values) {
  Constant out = Constant::ints(values);
  out.type.shape = {2, 2};
  return out;
}

}  // namespace

TEST_CASE("depth_to_space and pixel_shuffle read the channels in different orders") {
  // Eight channels of one pixel. As TensorFlow's depth_to_space and PyTorch's pixel_shuffle give.
  const auto depth =
      OpTester("depth_to_space").in("x", {1, 8, 1, 1}, count_up(8)).set("block_size", 2).run()[0];
  CHECK(depth.type.shape == Shape{1, 2, 2, 2});
  CHECK(depth.floats == std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
  const auto pixel =
      OpTester("pixel_shuffle").in("x", {1, 8, 1, 1}, count_up(8)).set("upscale_factor", 2).run()[0];
  CHECK(pixel.floats == count_up(8));
  const auto rows =
      OpTester("pixel_shuffle").in("x", {1, 4, 1, 2}, count_up(8)).set("upscale_factor", 2).run()[0];
  CHECK(rows.floats == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
}

TEST_CASE("space_to_depth and pixel_unshuffle undo them") {
  const auto there =
      OpTester("depth_to_space").in("x", {2, 8, 2, 3}, count_up(96)).set("block_size", 2).run()[0];
  CHECK(OpTester("space_to_depth").in("x", {2, 2, 4, 6}, there.floats).set("block_size", 2).run()[0].floats ==
        count_up(96));
  const auto pixel =
      OpTester("pixel_shuffle").in("x", {2, 8, 2, 3}, count_up(96)).set("upscale_factor", 2).run()[0];
  CHECK(OpTester("pixel_unshuffle")
            .in("x", {2, 2, 4, 6}, pixel.floats)
            .set("downscale_factor", 2)
            .run()[0]
            .floats == count_up(96));
  CHECK_THROWS_AS(OpTester("space_to_depth").in("x", {1, 1, 3, 2}, count_up(6)).set("block_size", 2).run(),
                  Error);
  CHECK_THROWS_AS(OpTester("pixel_shuffle").in("x", {1, 3, 1, 1}, count_up(3)).set("upscale_factor", 2).run(),
                  Error);
  const Dim s = Dim::symbol(1);
  const Type x = Type::tensor(DType::fp16, {1, 8, s, 4});
  CHECK(OpTester("pixel_shuffle").of_type("x", x).set("upscale_factor", 2).infer()[0].shape ==
        Shape{1, 2, s.times(2), 8});
}

TEST_CASE("space_to_batch pads and spreads, batch_to_space puts together and crops") {
  std::vector<float> x = count_up(17);
  x.erase(x.begin());
  const auto out = OpTester("space_to_batch")
                       .in("x", {2, 1, 2, 4}, x)
                       .set("block_shape", {2, 2})
                       .constant("paddings", pairs({0, 0, 2, 0}))
                       .run()[0];
  CHECK(out.type.shape == Shape{8, 1, 1, 3});
  CHECK(out.floats ==
        std::vector<float>{0, 1, 3, 0, 9, 11, 0, 2, 4, 0, 10, 12, 0, 5, 7, 0, 13, 15, 0, 6, 8, 0, 14, 16});
  const auto back = OpTester("batch_to_space")
                        .in("x", {8, 1, 1, 3}, out.floats)
                        .set("block_shape", {2, 2})
                        .constant("crops", pairs({0, 0, 2, 0}))
                        .run()[0];
  CHECK(back.type.shape == Shape{2, 1, 2, 4});
  CHECK(back.floats == x);
  CHECK_THROWS_AS(OpTester("batch_to_space")
                      .in("x", {3, 1, 1, 1}, {1, 2, 3})
                      .set("block_shape", {2, 2})
                      .constant("crops", pairs({0, 0, 0, 0}))
                      .run(),
                  Error);
}

TEST_CASE("sliding_windows gives each window a row") {
  const auto out = OpTester("sliding_windows")
                       .in("x", {5, 1}, count_up(5))
                       .set("axis", 0)
                       .set("size", 3)
                       .set("stride", 2)
                       .run()[0];
  CHECK(out.type.shape == Shape{2, 3, 1});
  CHECK(out.floats == std::vector<float>{0, 1, 2, 2, 3, 4});
  const auto last =
      OpTester("sliding_windows").in("x", {2, 3}, count_up(6)).set("axis", -1).set("size", 2).run()[0];
  CHECK(last.type.shape == Shape{2, 2, 2});
  CHECK(last.floats == std::vector<float>{0, 1, 1, 2, 3, 4, 4, 5});
  CHECK_THROWS_AS(OpTester("sliding_windows").in("x", {2}, count_up(2)).set("axis", 0).set("size", 3).run(),
                  Error);
}
