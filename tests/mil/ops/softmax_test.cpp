#include <doctest/doctest.h>

#include "mil/ops/near.h"
#include "mil/ops/op_tester.h"

using namespace anemone;

TEST_CASE("softmax along the last and along another axis") {
  const auto run = [](int axis) {
    return OpTester("softmax").in("x", {2, 3}, {1, 2, 3, 4, 5, 7}).set("axis", axis).run()[0].floats;
  };
  const std::vector<float> rows{0.09003057f, 0.24472847f, 0.66524096f, 0.04201007f, 0.11419520f, 0.84379473f};
  CHECK(near(run(-1), rows));
  CHECK(near(run(1), rows));
  CHECK(near(run(0), {0.04742587f, 0.04742587f, 0.01798621f, 0.95257413f, 0.95257413f, 0.98201379f}));
  CHECK(near(OpTester("softmax").in("x", {2}, {1000, 1000}).run()[0].floats, {0.5f, 0.5f}));
}

TEST_CASE("softmax over more columns than are taken at once") {
  std::vector<float> x(2 * 3 * 150);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 150 % 3 == 2 ? 1000 : 0);
  const auto out = OpTester("softmax").in("x", {2, 3, 150}, x).set("axis", 1).run(3)[0].floats;
  for (size_t i = 0; i < x.size(); ++i) CHECK(out[i] == (i / 150 % 3 == 2 ? 1.0f : 0.0f));
}

TEST_CASE("softmax keeps symbols and refuses an axis outside") {
  const Type symbolic = Type::tensor(DType::fp16, {1, Dim::symbol(1)});
  CHECK(OpTester("softmax").of_type("x", symbolic).infer()[0] == symbolic);
  CHECK(OpTester("softmax").in("x", {0, 3}, {}).run()[0].floats.empty());
  CHECK_THROWS_AS(OpTester("softmax").of_type("x", symbolic).set("axis", 2).infer(), Error);
}
