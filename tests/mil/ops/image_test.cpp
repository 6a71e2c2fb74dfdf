// Expected values: the examples of Core ML's documentation of the ops, and what its users' tests see.
#include <doctest/doctest.h>

#include <limits>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
}

std::vector<float> one_to(int n) {
  std::vector<float> out;
  for (int i = 1; i <= n; ++i) out.push_back(static_cast<float>(i));
  return out;
}

}  // namespace

TEST_CASE("resize_bilinear samples the grid of each mode") {
  const auto row = [](const char* mode, int n) {
    return OpTester("resize_bilinear")
        .in("x", {1, 1, 2}, {0, 1})
        .set("target_size_height", 1)
        .set("target_size_width", n)
        .set("sampling_mode", mode)
        .run()[0]
        .floats;
  };
  check_near(row("STRICT_ALIGN_CORNERS", 5), {0, 0.25, 0.5, 0.75, 1});
  check_near(row("ALIGN_CORNERS", 5), {0, 0.25, 0.5, 0.75, 1});
  check_near(row("DEFAULT", 5), {0, 0.4f, 0.8f, 1, 1});
  check_near(row("OFFSET_CORNERS", 5), {0.1f, 0.3f, 0.5f, 0.7f, 0.9f});
  check_near(row("UNALIGN_CORNERS", 5), {0, 0.1f, 0.5f, 0.9f, 1});
  check_near(row("UNALIGN_CORNERS", 6), {0, 0, 1 / 3.0f, 2 / 3.0f, 1, 1});
  check_near(row("DEFAULT", 6), {0, 1 / 3.0f, 2 / 3.0f, 1, 1, 1});
  check_near(row("STRICT_ALIGN_CORNERS", 1), {0});
  check_near(row("ALIGN_CORNERS", 1), {0.5f});
  CHECK_THROWS_AS(row("CORNERS", 5), Error);
  CHECK_THROWS_AS(row("DEFAULT", 0), Error);
}

TEST_CASE("resize_bilinear mixes rows and columns") {
  const auto out = OpTester("resize_bilinear")
                       .in("x", {1, 2, 2}, {0, 1, 2, 3})
                       .set("target_size_height", 3)
                       .set("target_size_width", 3)
                       .set("sampling_mode", "ALIGN_CORNERS")
                       .run()[0];
  check_near(out.floats, {0, 0.5f, 1, 1, 1.5f, 2, 2, 2.5f, 3});
}

TEST_CASE("upsample scales by factors") {
  const auto bilinear = [](float factor, bool align) {
    return OpTester("upsample_bilinear")
        .in("x", {1, 1, 2}, {0, 1})
        .set("scale_factor_height", 1.0f)
        .set("scale_factor_width", factor)
        .set("align_corners", align)
        .run()[0]
        .floats;
  };
  check_near(bilinear(3, true), {0, 0.2f, 0.4f, 0.6f, 0.8f, 1});
  check_near(bilinear(2.6f, false), {0, 0.1f, 0.5f, 0.9f, 1});
  const auto plain = OpTester("upsample_bilinear")
                         .in("x", {1, 1, 2}, {1, 2})
                         .set("scale_factor_width", 3)
                         .set("align_corners", false)
                         .set("half_pixel_centers", false)
                         .run()[0];
  check_near(plain.floats, {1, 4 / 3.0f, 5 / 3.0f, 2, 2, 2});
  const auto nearest = [](float height, float width) {
    return OpTester("upsample_nearest_neighbor")
        .in("x", {1, 1, 1, 3}, {1.5f, -2.5f, 3.5f})
        .set("scale_factor_height", height)
        .set("scale_factor_width", width)
        .run()[0]
        .floats;
  };
  CHECK(nearest(3.17f, 0.67f) == std::vector<float>{1.5f, -2.5f, 1.5f, -2.5f, 1.5f, -2.5f});
  CHECK(nearest(1, 2) == std::vector<float>{1.5f, 1.5f, -2.5f, -2.5f, 3.5f, 3.5f});
  const Dim s = Dim::symbol(1);
  CHECK(OpTester("upsample_nearest_neighbor")
            .of_type("x", Type::tensor(DType::fp16, {1, s, 4}))
            .set("scale_factor_height", 2)
            .infer()[0]
            .shape == Shape{1, s.times(2), 4});
  CHECK_THROWS_AS(
      OpTester("upsample_bilinear").in("x", {1, 1, 2}, {1, 2}).set("half_pixel_centers", true).run(), Error);
}

TEST_CASE("nearest resizing takes the pixel under the centre") {
  const auto out = OpTester("resize_nearest_neighbor")
                       .in("x", {1, 1, 3}, {1, 2, 3})
                       .set("target_size_height", 1)
                       .set("target_size_width", 2)
                       .run()[0];
  CHECK(out.floats == std::vector<float>{1, 3});  // TensorFlow with half_pixel_centers
  OpTester t("resize");
  t.in("x", {1, 1, 2, 1}, {-6, 9})
      .in_ints("shape", {4}, {1, 1, 3, 2})
      .set("resized_dims", 2)
      .set("interpolation_mode", "NEAREST_NEIGHBOR");
  CHECK(t.infer()[0].shape == Shape{1, 1, Dim::unknown(), Dim::unknown()});
  CHECK(t.run()[0].floats == std::vector<float>{-6, -6, 9, 9, 9, 9});
}

TEST_CASE("resize works on the last dimensions, where 0 keeps the size") {
  const auto run = [](std::vector<int64_t> shape, int dims) {
    return OpTester("resize")
        .in("x", {1, 1, 2}, {0, 1})
        .set("shape", shape)
        .set("resized_dims", dims)
        .run()[0];
  };
  check_near(run({1, 5}, 1).floats, {0, 0.4f, 0.8f, 1, 1});
  CHECK(run({7, 0, 5}, 2).type.shape == Shape{1, 1, 5});
  check_near(run({2, 1, 2}, 3).floats, {0, 1, 0, 1});
  CHECK_THROWS_AS(run({1, 1, 1, 5}, 2), Error);
  CHECK_THROWS_AS(run({1, 5}, 3), Error);
}

TEST_CASE("crop cuts the edges") {
  const auto out = OpTester("crop")
                       .in("x", {1, 1, 4, 4}, one_to(16))
                       .set("crop_height", {0, 1})
                       .set("crop_width", {1, 1})
                       .run()[0];
  CHECK(out.floats == std::vector<float>{2, 3, 6, 7, 10, 11});
  CHECK_THROWS_AS(
      OpTester("crop").in("x", {1, 1, 2}, {1, 2}).set("crop_height", {1, 1}).set("crop_width", {0, 0}).run(),
      Error);
}

TEST_CASE("crop_resize takes boxes as iOS 15 and 16 give them") {
  const auto run = [](std::vector<float> roi, int size, bool normalized, const char* mode,
                      Opset opset = Opset::ios15) {
    const auto entries = static_cast<int64_t>(roi.size());
    return OpTester("crop_resize", opset)
        .in("x", {1, 1, 4, 4}, one_to(16))
        .in("roi", {1, 1, entries, 1, 1}, roi)
        .set("target_height", size)
        .set("target_width", size)
        .set("normalized_coordinates", normalized)
        .set("sampling_mode", mode)
        .run()[0]
        .floats;
  };
  check_near(run({1, 1, 2, 2}, 2, false, "ALIGN_CORNERS"), {6, 7, 10, 11});
  check_near(run({1, 1, 2, 2}, 1, false, "ALIGN_CORNERS"), {8.5f});
  check_near(run({1, 1, 2, 2}, 1, false, "STRICT_ALIGN_CORNERS"), {6});
  check_near(run({0, 0, 0, 1 / 3.0f, 1 / 3.0f}, 2, true, "ALIGN_CORNERS"), {1, 2, 5, 6});
  check_near(run({2, 2, 1, 1}, 2, false, "ALIGN_CORNERS"), {11, 10, 7, 6});
  check_near(run({2, 2, 1, 1}, 2, true, "UNALIGN_CORNERS"), {3.5f, 5.5f, 11.5f, 13.5f});
  check_near(run({0, 0, 3, 3}, 2, false, "DEFAULT", Opset::ios16), {1, 3, 9, 11});
  CHECK_THROWS_AS(run({1, 0, 0, 1, 1}, 2, true, "ALIGN_CORNERS"), Error);  // there is no image 1
  CHECK_THROWS_AS(run({0, 0, 1}, 2, true, "ALIGN_CORNERS"), Error);
}

TEST_CASE("crop_resize of iOS 17 fills what lies outside") {
  OpTester t("crop_resize");
  t.in("x", {1, 1, 4, 4}, one_to(16))
      .in("boxes", {3, 4}, {0.1f, 0.3f, 1.3f, 1, 0.5f, 1.8f, 1, 0.3f, 0, 0.4f, 0.6f, 0.7f})
      .in_ints("box_indices", {3}, {0, 0, 0})
      .set("target_width", 2)
      .set("target_height", 2)
      .set("normalized_coordinates", true)
      .set("sampling_mode", "ALIGN_CORNERS")
      .set("pad_value", 10.0f);
  const auto out = t.run()[0];
  CHECK(out.type.shape == Shape{3, 1, 2, 2});
  check_near(out.floats, {3.1f, 5.2f, 10, 10, 10, 7.9f, 10, 13.9f, 2.2f, 3.1f, 9.4f, 10.3f});
  const auto center = [](const char* mode, std::vector<float> box) {
    return OpTester("crop_resize")
        .in("x", {1, 1, 4, 4}, one_to(16))
        .in("boxes", {1, 4}, box)
        .set("target_height", 2)
        .set("target_width", 1)
        .set("box_coordinate_mode", mode)
        .set("sampling_mode", "ALIGN_CORNERS")
        .run()[0]
        .floats;
  };
  check_near(center("CENTER_SIZE_HEIGHT_FIRST", {1, 2, 2, 0}), {3, 11});
  check_near(center("CENTER_SIZE_WIDTH_FIRST", {2, 1, 0, 2}), {3, 11});
  check_near(center("CORNERS_WIDTH_FIRST", {2, 0, 2, 2}), {3, 11});
}

TEST_CASE("resample looks points up with each padding") {
  const auto run = [](const char* sampling, const char* padding, float value, const char* coordinates,
                      bool align) {
    return OpTester("resample")
        .in("x", {1, 1, 2, 2}, {11, 22, 33, 44})
        .in("coordinates", {1, 2, 2, 2}, {-1, -2, -3.7f, -1, 0, 0, 3.5f, 1.2f})
        .set("sampling_mode", sampling)
        .set("padding_mode", padding)
        .set("padding_value", value)
        .set("coordinates_mode", coordinates)
        .set("align_corners", align)
        .run()[0]
        .floats;
  };
  check_near(run("bilinear", "constant", 6.17f, "normalized_minus_one_to_one", true),
             {8.585f, 6.17f, 27.5f, 6.17f});
  check_near(run("nearest", "border", -1, "unnormalized", false), {11, 11, 11, 44});
  check_near(run("bilinear", "reflection", -1, "normalized_zero_to_one", true), {22, 36.3f, 11, 34.1f});
  check_near(run("nearest", "symmetric", -1, "normalized_zero_to_one", false), {22, 33, 11, 33});
  CHECK_THROWS_AS(run("cubic", "border", 0, "unnormalized", false), Error);
}

TEST_CASE("resample survives points that are no numbers") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* padding : {"constant", "border", "reflection", "symmetric"}) {
    const auto out = OpTester("resample")
                         .in("x", {1, 1, 1, 1}, {5})
                         .in("coordinates", {1, 1, 2, 2}, {inf, nan, 1e30f, -inf})
                         .set("sampling_mode", "bilinear")
                         .set("padding_mode", padding)
                         .set("padding_value", 5.0f)
                         .set("coordinates_mode", "unnormalized")
                         .set("align_corners", false)
                         .run()[0];
    CHECK(out.floats == std::vector<float>{5, 5});
  }
}

TEST_CASE("affine maps the output grid into the image") {
  const auto run = [](int height, int width) {
    return OpTester("affine")
        .in("x", {1, 1, 2, 2}, {11, 22, 33, 44})
        .in("transform_matrix", {1, 6}, {-1, -2, -3.7f, -1, 3.5f, 1.2f})
        .set("output_height", height)
        .set("output_width", width)
        .set("sampling_mode", "bilinear")
        .set("padding_mode", "constant")
        .set("padding_value", 0.0f)
        .set("coordinates_mode", "normalized_minus_one_to_one")
        .set("align_corners", true)
        .run()[0]
        .floats;
  };
  check_near(run(3, 3), {10.7525f, 2.5025f, 0, 1.98f, 0, 0, 0, 0, 0});
  check_near(run(2, 5), {10.7525f, 5.94f, 2.5025f, 0.44f, 0, 0, 0, 0, 0, 0});
}
