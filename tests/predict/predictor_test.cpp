#include "predict/predictor.h"

#include <doctest/doctest.h>

#include <numeric>

#include "anemone/error.h"

using namespace anemone;

TEST_CASE("a scalar result is an array of one element, as from Core ML") {
  float value = 2.5f;
  const Array out = view_elements(Type::tensor(DType::fp16), &value).copy();
  CHECK(out.shape() == std::vector<int64_t>{1});
  CHECK(out.to_float() == std::vector<float>{2.5f});
}

TEST_CASE("a view knows whether its elements lie one behind the other") {
  std::vector<float> memory(24);
  CHECK(TensorView::row_major(DType::fp32, {2, 3, 4}, memory.data()).dense());
  CHECK(TensorView{DType::fp32, {1, 3, 1, 4}, {99, 4, 99, 1}, memory.data()}.dense());
  CHECK_FALSE(TensorView{DType::fp32, {2, 3}, {4, 1}, memory.data()}.dense());  // padded rows
  CHECK_FALSE(TensorView{DType::fp32, {2, 3}, {1, 2}, memory.data()}.dense());  // transposed
  CHECK_FALSE(TensorView{DType::fp32, {2, 3}, {0, 0}, memory.data()}.dense());  // one value for all
  CHECK(TensorView{DType::fp32, {2, 0, 3}, {7, 7, 7}, nullptr}.dense());        // nothing is everywhere
  CHECK(TensorView::row_major(DType::fp32, {}, memory.data()).dense());
  CHECK(TensorView::row_major(DType::fp32, {2, 3}, memory.data()).values<float>().size() == 6);
  CHECK_THROWS_WITH_AS((TensorView{DType::fp32, {2, 3}, {4, 1}, memory.data()}.values<float>()),
                       doctest::Contains("[2, 3] with strides [4, 1]"), Error);
  CHECK_THROWS_WITH_AS(TensorView::row_major(DType::fp16, {2}, memory.data()).values<float>(),
                       doctest::Contains("found fp16, expected fp32"), Error);
}

TEST_CASE("a view of any strides and type is read in the order of a dense array") {
  std::vector<float> memory(24);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const auto read = [&](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return TensorView{DType::fp32, std::move(shape), std::move(strides), memory.data()};
  };
  CHECK(read({2, 3}, {4, 1}).to_float() == std::vector<float>{0, 1, 2, 4, 5, 6});
  CHECK(read({2, 3}, {1, 2}).to_int() == std::vector<int64_t>{0, 2, 4, 1, 3, 5});
  CHECK(read({2, 2, 2}, {12, 5, 1}).copy().to_float() == std::vector<float>{0, 1, 5, 6, 12, 13, 17, 18});
  CHECK(read({2, 2}, {0, 0}).to_float() == std::vector<float>{0, 0, 0, 0});
  std::vector<int64_t> wide{1, -2, int64_t{1} << 40};
  CHECK(TensorView::row_major(DType::int64, {2}, wide.data()).copy().values<int32_t>()[1] == -2);
  CHECK_THROWS_AS(TensorView::row_major(DType::int64, {3}, wide.data()).copy(), Error);
}

TEST_CASE("elements are taken into 4 bytes each, whatever the view") {
  const TensorInfo x{"x", DType::fp16, {2, 3}, {}, {}, false};
  // 1, 2, 3 and 4, 5, 6 as halves, in rows of four.
  std::vector<uint16_t> halves{0x3c00, 0x4000, 0x4200, 0xffff, 0x4400, 0x4500, 0x4600, 0xffff};
  const std::vector<float> expected{1, 2, 3, 4, 5, 6};
  std::vector<float> out(6);
  const auto take = [&](const TensorView& view) {
    out.assign(6, -1.0f);
    take_elements("input", x, view, out.data());
    return out;
  };
  CHECK(take({DType::fp16, {2, 3}, {4, 1}, halves.data()}) == expected);
  std::vector<float> floats{1, 2, 3, -1, -1, 4, 5, 6};
  CHECK(take({DType::fp32, {2, 3}, {5, 1}, floats.data()}) == expected);
  std::vector<double> across{1, 4, 2, 5, 3, 6};
  CHECK(take({DType::fp64, {2, 3}, {1, 2}, across.data()}) == expected);
  std::vector<int8_t> integers{1, 2, 3, 4, 5, 6};
  CHECK(take(TensorView::row_major(DType::int8, {2, 3}, integers.data())) == expected);

  const TensorInfo flags{"f", DType::boolean, {2}, {}, {}, false};
  std::vector<int32_t> bits(2), two{1, 2};
  CHECK_THROWS_WITH_AS(
      take_elements("input", flags, TensorView::row_major(DType::int32, {2}, two.data()), bits.data()),
      "a value of the input 'f' is outside its type; found 2, expected bool: 0 to 1", Error);
  CHECK_THROWS_WITH_AS(check_elements("input", flags, two), doctest::Contains("is outside its type"), Error);
}
