#include <doctest/doctest.h>

#include <cmath>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

namespace {

OpTester small() {
  OpTester tester("scaled_dot_product_attention");
  tester.in("query", {1, 2, 2}, {1, 0, 0.5f, -1})
      .in("key", {1, 3, 2}, {1, 2, 0, 1, -1, 0.5f})
      .in("value", {1, 3, 2}, {1, 2, 3, 4, 5, 6});
  return tester;
}

}  // namespace

// Expected values: the formula in numpy, in double precision.
TEST_CASE("attention without a mask, with a bool mask and with a float mask") {
  CHECK(near(small().run()[0].floats, {2.128107786f, 3.128107786f, 3.220422506f, 4.220422268f}));
  CHECK(near(small().in_ints("attn_mask", {3}, {1, 0, 1}, DType::boolean).run()[0].floats,
             {1.782281280f, 2.782281160f, 3.349915981f, 4.349915981f}));
  CHECK(near(small().in("attn_mask", {1, 2, 3}, {0, 1, 2, 3, 4, 5}).run()[0].floats,
             {3.385042429f, 4.385042667f, 4.237217426f, 5.237217426f}));
}

TEST_CASE("a row that is masked wholly is not a number") {
  const auto out = small().in_ints("attn_mask", {2, 3}, {0, 0, 0, 1, 0, 0}, DType::boolean).run()[0].floats;
  CHECK(std::isnan(out[0]));
  CHECK(out[2] == 1);
  CHECK(out[3] == 2);
}

TEST_CASE("attention over several heads and many rows averages equal scores") {
  // Queries of zero: every key weighs the same, the result is the mean of the values.
  std::vector<float> values(2 * 3 * 40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / 40);
  const auto out = OpTester("scaled_dot_product_attention")
                       .in("query", {1, 2, 70, 8}, std::vector<float>(2 * 70 * 8, 0))
                       .in("key", {1, 2, 3, 8}, std::vector<float>(2 * 3 * 8, 1))
                       .in("value", {1, 2, 3, 40}, values)
                       .run(3)[0];
  CHECK(out.type.shape == Shape{1, 2, 70, 40});
  CHECK(std::fabs(out.floats.front() - 1) < 1e-6f);
  CHECK(std::fabs(out.floats.back() - 4) < 1e-6f);
}

TEST_CASE("attention keeps symbols and refuses what does not fit") {
  const Dim t = Dim::symbol(1), s = Dim::symbol(2);
  OpTester tester("scaled_dot_product_attention");
  tester.of_type("query", Type::tensor(DType::fp16, {1, 4, t, 64}))
      .of_type("key", Type::tensor(DType::fp16, {1, 4, s, 64}))
      .of_type("value", Type::tensor(DType::fp16, {1, 4, s, 32}))
      .of_type("attn_mask", Type::tensor(DType::fp16, {1, 1, t, s}));
  CHECK(tester.infer()[0].shape == Shape{1, 4, t, 32});
  CHECK_THROWS_AS(small().in("attn_mask", {2, 4}, std::vector<float>(8)).infer(), Error);
  OpTester flat("scaled_dot_product_attention");
  flat.in("query", {1, 2}, {1, 2}).in("key", {1, 2}, {1, 2}).in("value", {1, 2}, {1, 2});
  CHECK_THROWS_AS(flat.infer(), Error);
}
