#include <doctest/doctest.h>

#include <cmath>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("topk gives values and indices, the lower index first among equals") {
  OpTester t("topk");
  t.in("x", {2, 3}, {-1, 2, -3, 4, -5, 6}).set("k", 2).set("axis", 1);
  auto out = t.run();
  CHECK(out[0].floats == std::vector<float>{2, -1, 6, 4});
  CHECK(out[1].ints == std::vector<int32_t>{1, 0, 2, 0});
  CHECK(t.infer()[1] == Type::tensor(DType::int32, {2, 2}));
  out = OpTester("topk").in("x", {4}, {1, 3, 3, 1}).set("k", 3).set("output_indices_dtype", "uint16").run();
  CHECK(out[0].floats == std::vector<float>{3, 3, 1});
  CHECK(out[1].type.dtype == DType::uint16);
  CHECK(out[1].ints == std::vector<int32_t>{1, 2, 0});
  out = OpTester("topk")
            .in_ints("x", {3, 2}, {5, 1, 2, 7, 3, 0})
            .set("k", 1)
            .set("axis", 0)
            .set("ascending", true)
            .run();
  CHECK(out[0].ints == std::vector<int32_t>{2, 0});
  CHECK(out[1].ints == std::vector<int32_t>{1, 2});
  OpTester values("topk", Opset::ios16);
  values.in("x", {3}, {1, 2, 3}).set("return_indices", false).set("sort", false);
  CHECK(values.run().size() == 1);
}

TEST_CASE("topk takes k from -1, all, to the size of the axis") {
  const auto run = [](int k) { return OpTester("topk").in("x", {2}, {1, 2}).set("k", k).run()[0].floats; };
  CHECK(run(-1) == std::vector<float>{2, 1});
  CHECK(run(0).empty());
  CHECK_THROWS_AS(run(3), Error);
  CHECK_THROWS_AS(run(-2), Error);
  const Type x = Type::tensor(DType::fp16, {Dim::symbol(1), 4});
  CHECK(OpTester("topk").of_type("x", x).set("k", 3).infer()[0].shape == Shape{Dim::symbol(1), 3});
  CHECK(OpTester("topk").of_type("x", x).set("k", 3).set("axis", 0).infer()[0].shape == Shape{3, 4});
}

TEST_CASE("argsort is descending unless told, with NaN at the end") {
  CHECK(OpTester("argsort").in("x", {4}, {2, std::nanf(""), 5, 1}).run()[0].ints ==
        std::vector<int32_t>{2, 0, 3, 1});
  CHECK(
      OpTester("argsort").in("x", {2, 2}, {2, 1, 0, 3}).set("axis", 0).set("ascending", true).run()[0].ints ==
      std::vector<int32_t>{1, 0, 0, 1});
  CHECK(OpTester("argsort").in("x", {0}, {}).run()[0].ints.empty());
}

TEST_CASE("non_maximum_suppression keeps the best of boxes that overlap") {
  // Two boxes overlap by 9 / 11, the third stands alone; the last has too low a score.
  const std::vector<float> boxes{5, 5, 10, 10, 6, 5, 10, 10, 40, 40, 2, 2, 80, 80, 2, 2};
  const auto run = [&](std::vector<float> scores, bool per_class) {
    const auto classes = static_cast<int64_t>(scores.size()) / 4;
    return OpTester("non_maximum_suppression", Opset::ios15)
        .in("boxes", {1, 4, 4}, boxes)
        .in("scores", {1, 4, classes}, scores)
        .set("iou_threshold", 0.5f)
        .set("score_threshold", 0.1f)
        .set("max_boxes", 3)
        .set("per_class_suppression", per_class)
        .run();
  };
  auto out = run({0.5f, 0.9f, 0.7f, 0.05f}, false);
  CHECK(out[0].floats == std::vector<float>{6, 5, 10, 10, 40, 40, 2, 2, 0, 0, 0, 0});
  CHECK(out[1].floats == std::vector<float>{0.9f, 0.7f, 0});
  CHECK(out[2].ints == std::vector<int32_t>{1, 2, -1});
  CHECK(out[3].ints == std::vector<int32_t>{2});
  out = run({0.5f, 0, 0, 0.9f, 0.7f, 0, 0.05f, 0}, true);
  CHECK(out[2].ints == std::vector<int32_t>{1, 2, 0});
  out = run({0, 0, 0.05f, 0}, false);  // none is good enough: the best is given all the same
  CHECK(out[2].ints == std::vector<int32_t>{2, -1, -1});
  CHECK(out[3].ints == std::vector<int32_t>{1});
}

TEST_CASE("non_maximum_suppression keeps boxes of negative size, which overlap nothing") {
  // The second is the first turned upside down.
  const auto out = OpTester("non_maximum_suppression", Opset::ios15)
                       .in("boxes", {1, 3, 4}, {5, 5, 10, 10, 5, 5, 10, -10, 5, 5, -10, -10})
                       .in("scores", {1, 3, 1}, {3, 2, 1})
                       .set("iou_threshold", 0.5f)
                       .set("score_threshold", 0.0f)
                       .set("max_boxes", 3)
                       .run();
  CHECK(out[2].ints == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("non_maximum_suppression of iOS 17 has the boxes in the last dimension") {
  const auto out = OpTester("non_maximum_suppression")
                       .in("boxes", {1, 4, 2}, {5, 40, 5, 40, 10, 2, 10, 2})
                       .in("scores", {1, 1, 2}, {1, 3})
                       .set("iou_threshold", 0.5f)
                       .set("max_boxes", 3)
                       .run();
  REQUIRE(out.size() == 3);
  CHECK(out[0].floats == std::vector<float>{40, 5, 0, 40, 5, 0, 2, 10, 0, 2, 10, 0});
  CHECK(out[1].floats == std::vector<float>{3, 1, 0});
  CHECK(out[2].ints == std::vector<int32_t>{1, 0, -1});
}

TEST_CASE("non_maximum_suppression: an overlap that equals the threshold hides a box since iOS 17") {
  // [0, 2] × [0, 2] and [1, 2] × [1, 3]: 1 / 5. The numbers are those of coremltools' test of this case.
  const auto kept = [](Opset opset) {
    const bool last = opset >= Opset::ios17;
    OpTester out("non_maximum_suppression", opset);
    if (last)
      out.in("boxes", {1, 4, 2}, {1, 1.5f, 1, 2, 2, 1, 2, 2}).in("scores", {1, 1, 2}, {2, 4});
    else
      out.in("boxes", {1, 2, 4}, {1, 1, 2, 2, 1.5f, 2, 1, 2})
          .in("scores", {1, 2, 1}, {2, 4})
          .set("score_threshold", 0.0f);
    return out.set("iou_threshold", 0.2f).set("max_boxes", 2).run()[2].ints;
  };
  CHECK(kept(Opset::ios15) == std::vector<int32_t>{1, 0});
  CHECK(kept(Opset::ios17) == std::vector<int32_t>{1, -1});
}
