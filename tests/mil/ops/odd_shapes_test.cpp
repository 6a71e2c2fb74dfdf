// Data movement at its limits: rank 0, empty tensors, five dimensions, the narrow integers, sizes that
// overflow.
#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("a tensor of rank 0 can be moved about") {
  const auto same = [](OpTester& t) {
    const auto out = t.in("x", {}, {7}).run()[0];
    CHECK(out.type.shape == Shape{});
    CHECK(out.floats == std::vector<float>{7});
  };
  OpTester transpose("transpose"), slice("slice_by_index"), size("slice_by_size"), tile("tile"),
      reverse("reverse"), pad("pad");
  same(transpose.set("perm", Ints{}));
  same(slice.set("begin", Ints{}).set("end", Ints{}));
  same(size.set("begin", Ints{}).set("size", Ints{}));
  same(tile.set("reps", Ints{}));
  same(reverse);
  same(pad.set("pad", Ints{}));
  CHECK(OpTester("fill").set("shape", Ints{}).set("value", 3).run()[0].ints == std::vector<int32_t>{3});
  CHECK(OpTester("non_zero").in("x", {}, {7}).run()[0].type.shape == Shape{1, 0});
  CHECK(OpTester("one_hot").in_ints("indices", {}, {1}).set("one_hot_vector_size", 3).run()[0].ints ==
        std::vector<int32_t>{0, 1, 0});
  CHECK(OpTester("stack").in("values", {}, {1}).in("values", {}, {2}).set("axis", 0).run()[0].floats ==
        std::vector<float>{1, 2});
  CHECK_THROWS_AS(OpTester("topk").in("x", {}, {7}).run(), Error);
  CHECK_THROWS_AS(OpTester("split").in("x", {}, {7}).set("num_splits", 1).set("axis", 0).run(), Error);
}

TEST_CASE("an empty tensor stays empty") {
  const auto shape = [](OpTester& t) {
    const auto out = t.in("x", {2, 0, 3}, {}).run()[0];
    CHECK(out.floats.empty());
    return out.type.shape;
  };
  OpTester slice("slice_by_index"), tile("tile"), reverse("reverse"), band("band_part"), pad("pad"),
      top("topk");
  CHECK(shape(slice.set("begin", {0, 0, 0}).set("end", {1, 9, 2})) == Shape{1, 0, 2});
  CHECK(shape(tile.set("reps", {2, 3, 1})) == Shape{4, 0, 3});
  CHECK(shape(reverse) == Shape{2, 0, 3});
  CHECK(shape(band) == Shape{2, 0, 3});
  CHECK(shape(pad.set("pad", {1, 1})) == Shape{2, 0, 5});
  CHECK(shape(top.set("k", 2)) == Shape{2, 0, 2});
  CHECK(OpTester("split").in("x", {0}, {}).set("num_splits", 3).set("axis", 0).run().size() == 3);
  CHECK(OpTester("stack").in("values", {0}, {}).in("values", {0}, {}).set("axis", 0).run()[0].type.shape ==
        Shape{2, 0});
  CHECK(OpTester("slice_update")
            .in("x", {3}, {1, 2, 3})
            .in("update", {0}, {})
            .set("begin", Ints{1})
            .set("end", Ints{1})
            .run()[0]
            .floats == std::vector<float>{1, 2, 3});
  CHECK(
      OpTester("one_hot").in_ints("indices", {0, 2}, {}).set("one_hot_vector_size", 3).run()[0].type.shape ==
      Shape{0, 2, 3});
  CHECK(OpTester("resample")
            .in("x", {0, 1, 2, 2}, {})
            .in("coordinates", {0, 1, 1, 2}, {})
            .set("sampling_mode", "bilinear")
            .set("padding_mode", "border")
            .set("padding_value", 0.0f)
            .set("coordinates_mode", "unnormalized")
            .set("align_corners", true)
            .run()[0]
            .type.shape == Shape{0, 1, 1, 1});
}

TEST_CASE("five dimensions are as good as two") {
  const auto x = count_up(32);
  OpTester slice("slice_by_index"), pad("pad"), tile("tile"), reverse("reverse");
  slice.in("x", {2, 2, 2, 2, 2}, x)
      .set("begin", {1, 0, 1, 1, 1})
      .set("end", {2, 2, 2, 0, 2})
      .set("stride", {1, 1, 1, -1, 1});
  CHECK(slice.run()[0].floats == std::vector<float>{23, 31});
  pad.in("x", {1, 1, 1, 1, 2}, {1, 2}).set("pad", {1, 0, 0, 0, 0, 0, 0, 1, 0, 0});
  CHECK(pad.run()[0].floats == std::vector<float>{0, 0, 0, 0, 1, 2, 0, 0});
  tile.in("x", {1, 2, 1, 1, 1}, {1, 2}).set("reps", {2, 1, 1, 1, 2});
  CHECK(tile.run()[0].floats == std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2});
  reverse.in("x", {2, 1, 2, 1, 2}, count_up(8)).set("axes", {0, 4});
  CHECK(reverse.run()[0].floats == std::vector<float>{5, 4, 7, 6, 1, 0, 3, 2});
}

TEST_CASE("results do not depend on the number of threads") {
  const auto run = [](int threads) {
    OpTester t("transpose");
    return t.in("x", {70, 90, 11}, count_up(70 * 90 * 11)).set("perm", {2, 0, 1}).run(threads)[0].floats;
  };
  CHECK(run(1) == run(3));
}

TEST_CASE("narrow integers move like others since iOS 17") {
  const auto t = [](Opset opset) {
    return OpTester("transpose", opset)
        .in_ints("x", {1, 2}, {200, 3}, DType::uint8)
        .set("perm", {1, 0})
        .run()[0];
  };
  CHECK(t(Opset::ios17).type == Type::tensor(DType::uint8, {2, 1}));
  CHECK(t(Opset::ios17).ints == std::vector<int32_t>{200, 3});
  CHECK_THROWS_AS(t(Opset::ios16), Error);
}

TEST_CASE("a size that overflows is an error, not a small tensor") {
  const Type huge = Type::tensor(DType::fp32, {Dim(int64_t{1} << 61)});
  const Type image = Type::tensor(DType::fp32, {1, 1, Dim(int64_t{1} << 61), 1});
  CHECK_THROWS_AS(OpTester("tile").of_type("x", huge).set("reps", Ints{16}).infer(), Error);
  CHECK_THROWS_AS(OpTester("concat")
                      .of_type("values", huge)
                      .of_type("values", huge)
                      .of_type("values", huge)
                      .set("axis", 0)
                      .infer(),
                  Error);
  CHECK_THROWS_AS(OpTester("pixel_shuffle").of_type("x", image).set("upscale_factor", 1000).infer(), Error);
  CHECK_THROWS_AS(OpTester("upsample_bilinear").of_type("x", image).set("scale_factor_height", 1000).infer(),
                  Error);
  CHECK_THROWS_AS(OpTester("split").of_type("x", huge).set("num_splits", INT32_MAX).set("axis", 0).infer(),
                  Error);
}
