#include "coreml/copy_view.h"

#include <doctest/doctest.h>

#include "support/temp_folder.h"

using namespace anemone;

TEST_CASE("views are copied with their strides and types") {
  // [2, 2, 3]: rows of 3 halves, 8 apart; 1 to 12 in fp16.
  const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff,
                             0x4400, 0x4500, 0x4600, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff,
                             0x4700, 0x4800, 0x4880, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff,
                             0x4900, 0x4980, 0x4a00, 0xffff, 0xffff, 0xffff, 0xffff, 0xffff};
  const TensorView padded{DType::fp16, {2, 2, 3}, {16, 8, 1}, const_cast<uint16_t*>(halves)};
  std::vector<float> floats(12);
  copy_view(padded, TensorView::row_major(DType::fp32, {2, 2, 3}, floats.data()));
  CHECK(floats == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});

  // Back, into a layout with the axes turned round.
  std::vector<uint16_t> turned(12);
  const TensorView across{DType::fp16, {2, 2, 3}, {1, 2, 4}, turned.data()};
  copy_view(TensorView::row_major(DType::fp32, {2, 2, 3}, floats.data()), across);
  CHECK(across.to_float() == floats);
  CHECK(turned[1] == 0x4700);

  std::vector<int32_t> whole(12);
  copy_view(padded, TensorView::row_major(DType::int32, {2, 2, 3}, whole.data()));
  CHECK(whole[11] == 12);
  clear_view(across);
  CHECK(turned == std::vector<uint16_t>(12));
  // Nothing but single elements, and nothing at all.
  copy_view({DType::fp16, {1, 1}, {64, 64}, const_cast<uint16_t*>(halves)},
            TensorView::row_major(DType::fp32, {1, 1}, floats.data()));
  copy_view({DType::fp16, {0, 3}, {3, 1}, nullptr}, TensorView::row_major(DType::fp32, {0, 3}, nullptr));
  CHECK(error_of([&] { copy_view(padded, TensorView::row_major(DType::fp32, {12}, floats.data())); }) ==
        "views of different shapes; found [2, 2, 3], expected [12]");
}
