#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

using Ints = std::vector<int64_t>;

Constant flags(std::vector<int> values) {
  Constant::Bytes bytes;
  for (const int v : values) bytes.push_back(std::byte(v));
  return Constant::from_bytes(Type::tensor(DType::boolean, {Dim(static_cast<int64_t>(values.size()))}),
                              bytes);
}

const std::vector<float> kTen{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

}  // namespace

TEST_CASE("slice_by_index follows numpy along one dimension") {
  struct Case {
    int begin, end, stride;
    std::vector<float> out;
  };
  const Case cases[] = {
      {2, 5, 1, {2, 3, 4}},    {-3, 100, 1, {7, 8, 9}},    {-100, 2, 1, {0, 1}}, {8, 2, -3, {8, 5}},
      {-1, -4, -1, {9, 8, 7}}, {100, -100, -4, {9, 5, 1}}, {5, 5, 1, {}},        {7, 3, 1, {}},
      {1, 9, 3, {1, 4, 7}},    {0, -1, 4, {0, 4, 8}},      {3, 7, -1, {}},       {20, 30, 1, {}},
  };
  for (const Case& k : cases) {
    OpTester t("slice_by_index");
    t.in("x", {10}, kTen).set("begin", Ints{k.begin}).set("end", Ints{k.end}).set("stride", Ints{k.stride});
    const auto out = t.run()[0];
    CHECK(out.floats == k.out);
    CHECK(t.infer()[0] == out.type);
  }
}

TEST_CASE("slice_by_index masks open the ends and squeeze") {
  const std::vector<float> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // 2, 3, 2
  const auto slice = [&](std::vector<int64_t> stride, std::vector<int> begins, std::vector<int> ends,
                         std::vector<int> squeeze) {
    return OpTester("slice_by_index")
        .in("x", {2, 3, 2}, x)
        .set("begin", {1, 1, -1})
        .set("end", {2, 2, -2})
        .set("stride", stride)
        .constant("begin_mask", flags(begins))
        .constant("end_mask", flags(ends))
        .constant("squeeze_mask", flags(squeeze))
        .run()[0];
  };
  auto out = slice({1, -1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0});
  CHECK(out.type.shape == Shape{2, 3, 2});
  CHECK(out.floats == std::vector<float>{4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7});
  out = slice({1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1});
  CHECK(out.type.shape == Shape{});
  CHECK(out.floats == std::vector<float>{9});
  out = slice({1, 1, -1}, {1, 0, 0}, {1, 1, 1}, {0, 0, 1});
  CHECK(out.type.shape == Shape{2, 2});
  CHECK(out.floats == std::vector<float>{3, 5, 9, 11});
}

TEST_CASE("slice_by_index keeps what it knows of symbolic shapes") {
  const Dim s = Dim::symbol(1);
  const auto infer = [&](std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int> begins,
                         std::vector<int> ends) {
    return OpTester("slice_by_index")
        .of_type("x", Type::tensor(DType::fp16, {s, 8}))
        .set("begin", begin)
        .set("end", end)
        .constant("begin_mask", flags(begins))
        .constant("end_mask", flags(ends))
        .infer()[0]
        .shape;
  };
  CHECK(infer({5, 2}, {0, 0}, {1, 0}, {1, 1}) == Shape{s, 6});
  CHECK(infer({0, 2}, {INT32_MAX, -1}, {0, 0}, {0, 0}) == Shape{s, 5});
  CHECK(infer({-1, 0}, {0, 8}, {0, 0}, {1, 0}) == Shape{1, 8});
  CHECK(infer({3, 0}, {4, 8}, {0, 0}, {0, 0}) == Shape{1, 8});
  CHECK(infer({1, 0}, {4, 8}, {0, 0}, {0, 0}) == Shape{Dim::unknown(), 8});
  OpTester late("slice_by_index");
  late.in("x", {10}, kTen).in_ints("begin", {1}, {2}).in_ints("end", {1}, {4});
  CHECK(late.infer()[0].shape == Shape{Dim::unknown()});
  CHECK(late.run()[0].floats == std::vector<float>{2, 3});
}

TEST_CASE("a slice that cannot be is an error") {
  const auto slice = [](std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> stride,
                        int squeeze) {
    OpTester t("slice_by_index");
    t.in("x", {10}, kTen).set("begin", begin).set("end", end).set("stride", stride);
    t.constant("squeeze_mask", flags({squeeze})).run();
  };
  CHECK_THROWS_AS(slice({0}, {1}, {0}, 0), Error);
  CHECK_THROWS_AS(slice({0, 0}, {1, 1}, {1}, 0), Error);
  CHECK_THROWS_AS(slice({10}, {1}, {1}, 1), Error);
  OpTester past("slice_by_size");
  past.in("x", {10}, kTen).in_ints("begin", {1}, {8}).set("size", Ints{3});
  CHECK_THROWS_AS(past.run(), Error);
  OpTester before("slice_by_size");
  before.in("x", {10}, kTen).set("begin", Ints{INT32_MIN}).set("size", Ints{-1});
  CHECK_THROWS_AS(before.infer(), Error);
}

TEST_CASE("slice_by_size takes sizes, with -1 for the rest") {
  const auto run = [](int begin, int size) {
    OpTester t("slice_by_size");
    t.in("x", {10}, kTen).in_ints("begin", {1}, {begin}).set("size", Ints{size});
    CHECK(t.infer()[0].shape == Shape{size < 0 ? Dim::unknown() : Dim(size)});
    return t.run()[0].floats;
  };
  CHECK(run(3, 2) == std::vector<float>{3, 4});
  CHECK(run(-3, 2) == std::vector<float>{7, 8});
  CHECK(run(-3, -1) == std::vector<float>{7, 8, 9});
  CHECK(run(10, -1).empty());
}

TEST_CASE("slice_update writes the slice only") {
  const std::vector<float> x{0, 1, 2, 3, 4, 5};
  OpTester out("slice_update");
  out.in("x", {2, 3}, x).in("update", {2, 2}, {10, 20, 30, 40});
  out.set("begin", {0, 2}).set("end", {2, 0}).set("stride", {1, -2}).constant("end_mask", flags({0, 1}));
  CHECK(out.run()[0].floats == std::vector<float>{20, 1, 10, 40, 4, 30});
  CHECK_THROWS_AS(OpTester("slice_update")
                      .in("x", {2, 3}, x)
                      .in("update", {2}, {1, 2})
                      .set("begin", {0, 0})
                      .set("end", {2, 2})
                      .run(),
                  Error);
}
