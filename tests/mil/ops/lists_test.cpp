#include <doctest/doctest.h>

#include <bit>

#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

// Items: [1, 2], one that was never written, [5, 6].
OpTester on_list(const char* op) {
  return std::move(OpTester(op).in_list("ls", DType::fp32,
                                        {{{2}, {bits(1), bits(2)}}, {{}, {}}, {{2}, {bits(5), bits(6)}}}));
}

OpTester make() { return std::move(OpTester("make_list").set("elem_shape", 2).set("elem_shape", 3)); }

}  // namespace

TEST_CASE("make_list takes its shape as a tuple, with names for sizes that are open") {
  const auto out = make().set("init_length", 4).set("dynamic_length", false).run();
  CHECK(out[0].type == Type::list(Type::tensor(DType::fp32, {2, 3}), 4));
  CHECK(out[0].list.items.size() == 4);
  CHECK(make().infer()[0].length.is_unknown());
  CHECK(make().run()[0].list.items.size() == 1);
  const auto open =
      OpTester("make_list").set("elem_shape", "s0").set("elem_shape", 3).set("dtype", "int32").run();
  CHECK(open[0].type.items[0] == Type::tensor(DType::int32, {Dim::unknown(), 3}));
  CHECK(open[0].list.dtype == DType::int32);
  CHECK(OpTester("make_list").infer()[0].items[0] == Type::tensor(DType::fp32));
  CHECK_THROWS_AS(make().set("init_length", -1).run(), Error);
  CHECK_THROWS_AS(make().set("init_length", INT32_MAX).run(), Error);
  CHECK_THROWS_AS(make().set("dtype", "complex").run(), Error);
}

TEST_CASE("list_write puts one item and grows the list") {
  const auto out = on_list("list_write").set("index", 4).in("value", {2}, {7, 8}).run();
  REQUIRE(out[0].list.items.size() == 5);
  CHECK(out[0].list.items[0].data == std::vector<uint32_t>{bits(1), bits(2)});
  CHECK(out[0].list.items[3].dims.empty());
  CHECK(out[0].list.items[4].dims == std::vector<int64_t>{2});
  CHECK(out[0].list.items[4].data == std::vector<uint32_t>{bits(7), bits(8)});
  CHECK_THROWS_AS(on_list("list_write").set("index", -1).in("value", {2}, {7, 8}).run(), Error);
  CHECK_THROWS_AS(on_list("list_write").set("index", INT32_MAX).in("value", {2}, {7, 8}).run(), Error);
  CHECK_THROWS_AS(on_list("list_write").set("index", 0).in("value", {3}, {7, 8, 9}).run(), Error);
  CHECK_THROWS_AS(on_list("list_write").set("index", 0).in_ints("value", {2}, {7, 8}).run(), Error);
}

TEST_CASE("a list of fixed length keeps it while it is written inside") {
  const Type list = Type::list(Type::tensor(DType::fp32, {2}), 3), item = Type::tensor(DType::fp32, {2});
  const auto length = [&](int index) {
    return OpTester("list_write")
        .of_type("ls", list)
        .set("index", index)
        .of_type("value", item)
        .infer()[0]
        .length;
  };
  CHECK(length(2) == Dim(3));
  CHECK(length(3).is_unknown());
}

TEST_CASE("list_read and list_gather give items, zeros where none was written") {
  CHECK(on_list("list_read").set("index", 2).run()[0].floats == std::vector<float>{5, 6});
  CHECK(on_list("list_read").set("index", 1).run()[0].floats == std::vector<float>{0, 0});
  const auto gathered = on_list("list_gather").in_ints("indices", {3}, {2, 1, 0}).run();
  CHECK(gathered[0].type == Type::tensor(DType::fp32, {3, 2}));
  CHECK(gathered[0].floats == std::vector<float>{5, 6, 0, 0, 1, 2});
  CHECK(on_list("list_gather").in_ints("indices", {0}, {}).run()[0].type.shape == Shape{0, 2});
  for (const int index : {-1, 3}) {
    CHECK_THROWS_AS(on_list("list_read").set("index", index).run(), Error);
    CHECK_THROWS_AS(on_list("list_gather").in_ints("indices", {1}, {index}).run(), Error);
  }
}

TEST_CASE("items of open shape have the shape of what was written") {
  const Type list = Type::list(Type::tensor(DType::fp32, {Dim::unknown()}), Dim::unknown());
  CHECK(OpTester("list_read").of_type("ls", list).set("index", 0).infer()[0].shape == Shape{Dim::unknown()});
  CHECK(OpTester("list_gather").of_type("ls", list).set("indices", {0, 1}).infer()[0].shape ==
        Shape{2, Dim::unknown()});
  OpTester unequal("list_gather");
  unequal.in_list("ls", DType::fp32, {{{1}, {bits(1)}}, {{2}, {bits(1), bits(2)}}})
      .in_ints("indices", {2}, {0, 1});
  CHECK_THROWS_AS(unequal.run(), Error);
}

TEST_CASE("list_scatter puts several items") {
  const auto out =
      on_list("list_scatter").in_ints("indices", {2}, {3, 0}).in("value", {2, 2}, {7, 8, 9, 10}).run();
  REQUIRE(out[0].list.items.size() == 4);
  CHECK(out[0].list.items[3].data == std::vector<uint32_t>{bits(7), bits(8)});
  CHECK(out[0].list.items[0].data == std::vector<uint32_t>{bits(9), bits(10)});
  CHECK_THROWS_AS(
      on_list("list_scatter").in_ints("indices", {1}, {0}).in("value", {2, 2}, {1, 2, 3, 4}).run(), Error);
  CHECK_THROWS_AS(on_list("list_scatter").in_ints("indices", {}, {0}).in("value", {2, 2}, {1, 2, 3, 4}).run(),
                  Error);
}

TEST_CASE("list_length counts the items") {
  CHECK(on_list("list_length").run()[0].ints == std::vector<int32_t>{3});
  CHECK_THROWS_AS(OpTester("list_length").in("ls", {1}, {1}).run(), Error);
}
