#include <doctest/doctest.h>

#include <algorithm>

#include "anemone/predictor.h"
#include "mil/builder.h"
#include "package/package.h"

using namespace anemone;

namespace {

// One more than the places of the elements that are not zero.
std::unique_ptr<Predictor> places() {
  auto package = std::make_shared<Package>();
  package->spec_version = 9;
  Function& f = add_function(package->program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp32, {4}));
  Builder b(f);
  Value* found = b.op("non_zero", {{"x", x}});
  b.output(b.op("add", {{"x", found}, {"y", Constant::integer(1)}}, "y"));
  package->description = description_of(package->program);
  return make_predictor(package, "main", {.threads = 1});
}

Array four(std::vector<float> values) {
  Array out(DType::fp32, {4});
  std::copy(values.begin(), values.end(), out.values<float>().begin());
  return out;
}

}  // namespace

TEST_CASE("operations run on what turns out to be empty") {
  const auto predictor = places();
  CHECK(predictor->predict({{"x", four({0, 5, 0, 7})}}).at("y").to_float() == std::vector<float>{2, 4});
  CHECK(predictor->predict({{"x", four({0, 0, 0, 0})}}).at("y").shape() == std::vector<int64_t>{0, 1});
}

TEST_CASE("an output may be empty, also when nothing else needs memory") {
  auto package = std::make_shared<Package>();
  package->spec_version = 9;
  Function& f = add_function(package->program, "main", Opset::ios18);
  Value* n = add_input(f, "n", Type::tensor(DType::int32, {1}));
  Builder b(f);
  Value* end = b.op("squeeze", {{"x", n}});
  b.output(
      b.op("range_1d", {{"start", Constant::integer(0)}, {"end", end}, {"step", Constant::integer(1)}}, "y"));
  package->description = description_of(package->program);
  const auto predictor = make_predictor(package, "main", {.threads = 1});
  const auto count = [&](int32_t upto) {
    return predictor->predict({{"n", Array::from<int32_t>({1}, {upto})}}).at("y").to_int();
  };
  CHECK(count(3) == std::vector<int64_t>{0, 1, 2});
  CHECK(count(0).empty());
}
