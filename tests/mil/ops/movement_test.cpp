#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("transpose takes any permutation and refuses others") {
  const auto out = OpTester("transpose").in("x", {2, 3}, count_up(6)).set("perm", {-1, 0}).run()[0];
  CHECK(out.type.shape == Shape{3, 2});
  CHECK(out.floats == std::vector<float>{0, 3, 1, 4, 2, 5});
  const auto five =
      OpTester("transpose").in("x", {1, 2, 1, 2, 2}, count_up(8)).set("perm", {4, 3, 2, 1, 0}).run()[0];
  CHECK(five.type.shape == Shape{2, 2, 1, 2, 1});
  CHECK(five.floats == std::vector<float>{0, 4, 2, 6, 1, 5, 3, 7});
  const Dim s = Dim::symbol(1);
  CHECK(OpTester("transpose")
            .of_type("x", Type::tensor(DType::fp16, {2, s}))
            .set("perm", {1, 0})
            .infer()[0]
            .shape == Shape{s, 2});
  CHECK_THROWS_AS(OpTester("transpose").in("x", {2, 3}, count_up(6)).set("perm", {0, 0}).run(), Error);
  CHECK(OpTester("transpose").in("x", {0, 3}, {}).set("perm", {1, 0}).run()[0].type.shape == Shape{3, 0});
}

TEST_CASE("concat joins along an axis, in turn when interleaved") {
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{7, 8, 9, 10, 11, 12};
  const auto run = [&](int axis, bool interleave) {
    return OpTester("concat")
        .in("values", {3, 2}, a)
        .in("values", {3, 2}, b)
        .set("axis", axis)
        .set("interleave", interleave)
        .run()[0]
        .floats;
  };
  CHECK(run(0, true) == std::vector<float>{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12});
  CHECK(run(-1, false) == std::vector<float>{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12});
  CHECK(run(1, true) == std::vector<float>{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12});
  const auto scalars =
      OpTester("concat").in_ints("values", {}, {4}).in_ints("values", {}, {5}).set("axis", 0).run()[0];
  CHECK(scalars.type.shape == Shape{2});
  CHECK(scalars.ints == std::vector<int32_t>{4, 5});
  const auto with_empty =
      OpTester("concat").in("values", {2, 0}, {}).in("values", {2, 1}, {1, 2}).set("axis", 1).run()[0];
  CHECK(with_empty.floats == std::vector<float>{1, 2});
  CHECK_THROWS_AS(
      OpTester("concat").in("values", {2, 1}, {1, 2}).in("values", {3, 1}, {1, 2, 3}).set("axis", 1).run(),
      Error);
  CHECK_THROWS_AS(OpTester("concat").in("values", {1}, {1}).in_ints("values", {1}, {1}).set("axis", 0).run(),
                  Error);
  const Dim s = Dim::symbol(1);
  const auto type = [&](Dim rows, Dim columns) { return Type::tensor(DType::fp16, {rows, columns}); };
  CHECK(OpTester("concat")
            .of_type("values", type(s, 2))
            .of_type("values", type(s, 3))
            .set("axis", 1)
            .infer()[0]
            .shape == Shape{s, 5});
  CHECK(OpTester("concat")
            .of_type("values", type(s, 2))
            .of_type("values", type(1, 2))
            .set("axis", 0)
            .infer()[0]
            .shape == Shape{Dim::unknown(), 2});
}

TEST_CASE("stack makes a new axis and split takes apart") {
  const auto out =
      OpTester("stack").in("values", {2}, {1, 2}).in("values", {2}, {3, 4}).set("axis", -1).run()[0];
  CHECK(out.type.shape == Shape{2, 2});
  CHECK(out.floats == std::vector<float>{1, 3, 2, 4});
  const auto parts =
      OpTester("split").in("x", {2, 3}, count_up(6)).set("split_sizes", {1, 2}).set("axis", 1).run();
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].floats == std::vector<float>{0, 3});
  CHECK(parts[1].floats == std::vector<float>{1, 2, 4, 5});
  CHECK(OpTester("split").in("x", {4}, count_up(4)).set("num_splits", 2).set("axis", 0).run()[1].floats ==
        std::vector<float>{2, 3});
  CHECK_THROWS_AS(OpTester("split").in("x", {4}, count_up(4)).set("num_splits", 3).set("axis", 0).run(),
                  Error);
  CHECK_THROWS_AS(OpTester("split").in("x", {4}, count_up(4)).set("split_sizes", {1, 2}).set("axis", 0).run(),
                  Error);
  CHECK_THROWS_AS(OpTester("split").in("x", {4}, count_up(4)).set("axis", 0).run(), Error);
}

TEST_CASE("tile repeats along each dimension") {
  const auto out = OpTester("tile").in("x", {1, 2}, {1, 2}).in_ints("reps", {2}, {2, 2}).run()[0];
  CHECK(out.type.shape == Shape{2, 4});
  CHECK(out.floats == std::vector<float>{1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(OpTester("tile").in("x", {2, 1}, {1, 2}).set("reps", {1, 3}).run()[0].floats ==
        std::vector<float>{1, 1, 1, 2, 2, 2});
  CHECK(OpTester("tile")
            .of_type("x", Type::tensor(DType::fp16, {Dim::symbol(1), 2}))
            .set("reps", {1, 3})
            .infer()[0]
            .shape == Shape{Dim::symbol(1), 6});
  CHECK_THROWS_AS(OpTester("tile").in("x", {2}, {1, 2}).set("reps", {1, 3}).run(), Error);
}

TEST_CASE("pad fills, reflects or replicates around the last dimensions") {
  const auto run = [](const char* mode, std::vector<int64_t> pad) {
    return OpTester("pad")
        .in("x", {2, 3}, {1, 2, 3, 4, 5, 6})
        .set("pad", pad)
        .set("mode", mode)
        .set("constant_val", 9.0f)
        .run()[0];
  };
  CHECK(run("constant", {1, 0}).floats == std::vector<float>{9, 1, 2, 3, 9, 4, 5, 6});
  CHECK(run("constant", {1, 0, 0, 1}).floats == std::vector<float>{9, 9, 9, 9, 1, 2, 3, 9, 4, 5, 6, 9});
  CHECK(run("reflect", {2, 1}).floats == std::vector<float>{3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5});
  CHECK(run("replicate", {0, 1, 2, 0}).floats ==
        std::vector<float>{1, 1, 1, 2, 3, 4, 4, 4, 5, 6, 4, 4, 4, 5, 6});
  CHECK_THROWS_AS(run("circular", {1, 1}), Error);
  CHECK_THROWS_AS(run("constant", {-1, 1}), Error);
  CHECK_THROWS_AS(run("constant", {1, 1, 1, 1, 1, 1}), Error);
  const Dim s = Dim::symbol(1);
  CHECK(OpTester("pad").of_type("x", Type::tensor(DType::fp16, {s, 4})).set("pad", {1, 2}).infer()[0].shape ==
        Shape{s, 7});
  CHECK(OpTester("pad").in("x", {0}, {}).set("pad", {1, 1}).run()[0].floats == std::vector<float>{0, 0});
  CHECK_THROWS_AS(OpTester("pad").in("x", {0}, {}).set("pad", {1, 1}).set("mode", "reflect").run(), Error);
}

TEST_CASE("shape and fill make tensors of shapes and shapes of tensors") {
  const auto shape = OpTester("shape").in("x", {2, 0, 3}, {}).run()[0];
  CHECK(shape.ints == std::vector<int32_t>{2, 0, 3});
  CHECK(OpTester("shape").in("x", {}, {1}).run()[0].type.shape == Shape{0});
  OpTester fill("fill");
  fill.in_ints("shape", {2}, {2, 2}).set("value", 7);
  CHECK(fill.infer()[0] == Type::tensor(DType::int32, {Dim::unknown(), Dim::unknown()}));
  CHECK(fill.run()[0].ints == std::vector<int32_t>{7, 7, 7, 7});
  CHECK(OpTester("fill").set("shape", Ints{3}).run()[0].floats == std::vector<float>{0, 0, 0});
  CHECK(OpTester("fill_like").in_ints("ref_tensor", {2}, {1, 2}).set("value", 1.5f).run()[0].floats ==
        std::vector<float>{1.5f, 1.5f});
  CHECK_THROWS_AS(OpTester("fill").set("shape", Ints{-3}).run(), Error);
}

TEST_CASE("range_1d counts as numpy does") {
  const auto ints = [](int start, int end, int step) {
    return OpTester("range_1d")
        .in_ints("start", {}, {start})
        .in_ints("end", {}, {end})
        .in_ints("step", {}, {step})
        .run()[0]
        .ints;
  };
  CHECK(ints(1, 8, 3) == std::vector<int32_t>{1, 4, 7});
  CHECK(ints(5, 0, -2) == std::vector<int32_t>{5, 3, 1});
  CHECK(ints(5, 0, 2).empty());
  CHECK_THROWS_AS(ints(0, 1, 0), Error);
  const auto out = OpTester("range_1d").set("start", 0.0f).set("end", 0.3f).set("step", 0.1f).run()[0];
  CHECK(out.floats == std::vector<float>{0, 0.1f, 0.2f});  // numpy.arange of float32 gives three
}

TEST_CASE("band_part keeps a band") {
  const auto run = [](int lower, int upper) {
    return OpTester("band_part")
        .in("x", {1, 2, 3}, {1, 2, 3, 4, 5, 6})
        .set("lower", lower)
        .set("upper", upper)
        .run()[0]
        .floats;
  };
  CHECK(run(-1, 0) == std::vector<float>{1, 0, 0, 4, 5, 0});
  CHECK(run(0, 1) == std::vector<float>{1, 2, 0, 0, 5, 6});
  CHECK_THROWS_AS(OpTester("band_part").in("x", {3}, {1, 2, 3}).run(), Error);
}

TEST_CASE("one_hot sets one element, or none for an index outside") {
  const auto out =
      OpTester("one_hot").in_ints("indices", {3}, {1, -1, 2}).set("one_hot_vector_size", 3).run()[0];
  CHECK(out.type == Type::tensor(DType::int32, {3, 3}));
  CHECK(out.ints == std::vector<int32_t>{0, 1, 0, 0, 0, 0, 0, 0, 1});
  OpTester first("one_hot");
  first.in_ints("indices", {2}, {1, 0})
      .in_ints("one_hot_vector_size", {}, {3})
      .set("axis", 0)
      .set("on_value", 2.0f)
      .set("off_value", -1.0f);
  CHECK(first.infer()[0].shape == Shape{Dim::unknown(), 2});
  CHECK(first.run()[0].floats == std::vector<float>{-1, 2, 2, -1, -1, -1});
}

TEST_CASE("reverse and reverse_sequence turn elements around") {
  CHECK(OpTester("reverse").in("x", {2, 2}, {1, 2, 3, 4}).run()[0].floats == std::vector<float>{4, 3, 2, 1});
  CHECK(OpTester("reverse").in("x", {2, 2}, {1, 2, 3, 4}).set("axes", Ints{-1}).run()[0].floats ==
        std::vector<float>{2, 1, 4, 3});
  CHECK(OpTester("reverse").in("x", {0}, {}).run()[0].floats.empty());
  const auto sequence = [](std::vector<int32_t> lengths) {
    return OpTester("reverse_sequence")
        .in("x", {2, 3}, {1, 2, 3, 4, 5, 6})
        .in_ints("lengths", {2}, lengths)
        .set("seq_axis", 1)
        .set("batch_axis", 0)
        .run()[0]
        .floats;
  };
  CHECK(sequence({2, 3}) == std::vector<float>{2, 1, 3, 6, 5, 4});
  CHECK(sequence({0, 1}) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(sequence({4, 1}), Error);
}

TEST_CASE("non_zero has a shape that depends on the elements") {
  OpTester t("non_zero");
  t.in("x", {2, 3}, {0, 3, 0, 1, -0.0f, 2});
  CHECK(t.infer()[0] == Type::tensor(DType::int32, {Dim::unknown(), 2}));
  CHECK(t.run()[0].ints == std::vector<int32_t>{0, 1, 1, 0, 1, 2});
  CHECK(OpTester("non_zero").in("x", {2}, {0, 0}).run()[0].type.shape == Shape{0, 1});
}
