#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("select takes a where the condition holds, with broadcasting") {
  const auto out = OpTester("select")
                       .in_ints("cond", {2, 1}, {1, 0}, DType::boolean)
                       .in("a", {3}, {1, 2, 3})
                       .in("b", {}, {-1})
                       .run();
  CHECK(out[0].type == Type::tensor(DType::fp32, {2, 3}));
  CHECK(out[0].floats == std::vector<float>{1, 2, 3, -1, -1, -1});
  const auto ints = OpTester("select")
                        .in_ints("cond", {}, {0}, DType::boolean)
                        .in_ints("a", {}, {4})
                        .in_ints("b", {}, {5})
                        .run();
  CHECK(ints[0].ints == std::vector<int32_t>{5});
}

TEST_CASE("select keeps symbols and refuses unlike types and shapes") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1)});
  OpTester tester("select");
  tester.of_type("cond", Type::tensor(DType::boolean, symbolic.shape))
      .of_type("a", symbolic)
      .of_type("b", symbolic);
  CHECK(tester.infer()[0] == symbolic);
  CHECK_THROWS_AS(OpTester("select")
                      .in_ints("cond", {1}, {0}, DType::boolean)
                      .in("a", {1}, {4})
                      .in_ints("b", {1}, {5})
                      .run(),
                  Error);
  CHECK_THROWS_AS(OpTester("select")
                      .in_ints("cond", {2}, {0, 1}, DType::boolean)
                      .in("a", {1}, {4})
                      .in("b", {3}, {5, 6, 7})
                      .run(),
                  Error);
}

TEST_CASE("identity copies tensors and lists") {
  CHECK(OpTester("identity").in("x", {2}, {1, 2}).run()[0].floats == std::vector<float>{1, 2});
  CHECK(OpTester("identity").in_ints("x", {}, {3}).run()[0].ints == std::vector<int32_t>{3});
  const auto out = OpTester("identity").in_list("x", DType::int32, {{{1}, {7}}, {{1}, {8}}}).run();
  REQUIRE(out[0].list.items.size() == 2);
  CHECK(out[0].list.items[1].data == std::vector<uint32_t>{8});
}
