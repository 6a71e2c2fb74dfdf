#include "lower/ops.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mil/builder.h"

using namespace anemone;

TEST_CASE("the operations of a rotation stand in one order, whatever compiler made the program") {
  Program program;
  Function& main = add_function(program, "main", Opset::ios18);
  Value* x = add_input(main, "x", Type::tensor(DType::fp16, {1, 2, 4, 8}));
  Value* cos = add_input(main, "cos", Type::tensor(DType::fp16, {1, 1, 4, 3}));
  Value* sin = add_input(main, "sin", Type::tensor(DType::fp16, {1, 1, 4, 3}));
  Builder b(main);
  lower::rotate(b, x, cos, sin, 6, "r");
  std::vector<std::string> names;
  for (const auto& op : main.body.ops)
    if (op->type != "const") names.push_back(op->name());
  CHECK(names == std::vector<std::string>{"r_first", "r_second", "r_first_cos", "r_second_sin", "r_low",
                                          "r_first_sin", "r_second_cos", "r_high", "r_rest", "r"});
}
