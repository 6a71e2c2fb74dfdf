#include "predict/predictor.h"

#include <doctest/doctest.h>

using namespace anemone;

TEST_CASE("a scalar result is an array of one element, as from Core ML") {
  const float value = 2.5f;
  const Array out = give_output(Type::tensor(DType::fp16), &value);
  CHECK(out.shape() == std::vector<int64_t>{1});
  CHECK(out.to_float() == std::vector<float>{2.5f});
}
