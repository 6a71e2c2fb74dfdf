#include <doctest/doctest.h>

#include "mil/ops/op_tester.h"
#include "mil/rules.h"

using namespace anemone;

namespace {

Constant names(const std::vector<const char*>& list) {
  Constant out;
  out.type = Type::list(Type::tensor(DType::string), static_cast<int64_t>(list.size()));
  Constant::Items items;
  for (const char* name : list) items.push_back(Constant::text(name));
  out.data = std::move(items);
  return out;
}

}  // namespace

TEST_CASE("classify gives the place of the best class and the probabilities") {
  OpTester tester("classify");
  tester.in("probabilities", {1, 3}, {0.25f, 0.5f, 0.25f}).constant("classes", names({"cat", "dog", "eel"}));
  const auto out = tester.run();
  CHECK(out[0].type == Type::tensor(DType::string));
  CHECK(out[0].ints == std::vector<int32_t>{1});
  CHECK(out[1].type.kind == Type::Kind::dict);
  CHECK(out[1].type.size() == 3);
  // The tester shows what is no floating tensor as integers.
  CHECK(out[1].ints == std::vector<int32_t>{0x3e800000, 0x3f000000, 0x3e800000});
  Type declared = out[1].type;  // a file does not say how many values there are
  declared.shape.clear();
  CHECK(compatible(out[1].type, declared));
}

TEST_CASE("classify needs one probability for each class") {
  CHECK_THROWS_AS(
      OpTester("classify").in("probabilities", {2}, {0, 1}).constant("classes", names({"cat"})).run(), Error);
  CHECK_THROWS_AS(OpTester("classify").in("probabilities", {0}, {}).constant("classes", names({})).run(),
                  Error);
  const Type open = Type::tensor(DType::fp32, {Dim::symbol(1), 2});
  CHECK(OpTester("classify")
            .of_type("probabilities", open)
            .constant("classes", names({"a", "b"}))
            .infer()[1]
            .size() == 2);
  Constant numbers;
  numbers.type = Type::list(Type::tensor(DType::fp32), 1);
  numbers.data = Constant::Items{Constant::number(1, DType::fp32)};
  CHECK_THROWS_AS(OpTester("classify").in("probabilities", {1}, {1}).constant("classes", numbers).run(),
                  Error);
}
