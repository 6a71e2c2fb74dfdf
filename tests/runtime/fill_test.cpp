// The inputs that a host makes, in the types and strides that a backend may have, against their definitions one by one.
#include "runtime/fill.h"

#include <doctest/doctest.h>

#include "base/half.h"
#include "runtime/columns.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// Memory of [1, 1, rows, columns] or [1, rows, columns, 1], dense or with gaps as Core ML leaves them; nines at first.
struct Memory {
  TensorView view;
  std::vector<float> floats;
  std::vector<uint16_t> halves;

  Memory(DType dtype, std::vector<int64_t> shape, int64_t gap) {
    std::vector<int64_t> strides(4);
    int64_t size = 1;
    for (size_t i = 4; i-- > 0;) {
      strides[i] = size;
      size *= shape[i] + (shape[i] > 1 ? gap : 0);
    }
    floats.assign(static_cast<size_t>(size), 9);
    halves.assign(static_cast<size_t>(size), half_from_float(9));
    void* data = dtype == DType::fp32 ? static_cast<void*>(floats.data()) : halves.data();
    view = {dtype, std::move(shape), std::move(strides), data};
  }
};

MadeModel& model() {
  static MadeModel made(small_decoder(1));
  return made;
}

template <class Check>
void each_memory(const std::vector<int64_t>& shape, const Check& check) {
  for (const DType dtype : {DType::fp32, DType::fp16})
    for (const int64_t gap : {0, 3}) {
      CAPTURE(dtype_name(dtype));
      CAPTURE(gap);
      Memory memory(dtype, shape, gap);
      check(memory.view);
      // Nothing was written between the elements.
      if (gap)
        CHECK((dtype == DType::fp32 ? memory.floats.back() : half_to_float(memory.halves.back())) == 9);
    }
}

}  // namespace

TEST_CASE("masks show each token what its reach says, whatever the type and the strides") {
  const auto bundle = model().bundle({.context = {16}});
  BundleInfo info = bundle->info();
  info.masks = {{Reach::Kind::causal, 0}, {Reach::Kind::window, 3}, {Reach::Kind::window, 40},
                {Reach::Kind::full, 0},   {Reach::Kind::band, 2},   {Reach::Kind::band, INT64_MAX}};
  const std::vector<int32_t> ids = {1, 2, 3};
  for (size_t m = 0; m < info.masks.size(); ++m)
    for (const int64_t position : {0, 1, 7, 12}) {
      const Reach& reach = info.masks[m];
      if (!reach.causal() && position) continue;
      CAPTURE(m);
      CAPTURE(position);
      const int64_t width = 4, rows = reach.kind == Reach::Kind::full ? 1 : width;
      const int64_t columns = reach.causal() ? 16 : width;
      each_memory({1, 1, rows, columns}, [&](const TensorView& view) {
        fill_input(view, {.kind = Role::Kind::mask, .index = m},
                   {.ids = ids, .position = position, .width = width}, info, bundle->embedding());
        std::vector<float> expected;
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t j = 0; j < columns; ++j) {
            const bool real = reach.causal() || j < 3;  // of padding nobody sees anything
            expected.push_back(real && reach.sees(position + std::min<int64_t>(t, 2), j) ? 0.0f : kMaskedOut);
          }
        CHECK(view.to_float() == expected);
      });
    }
}

TEST_CASE("rows to write, columns to keep and the stream, whatever the type and the strides") {
  const auto bundle = model().bundle({.context = {16}});
  const std::vector<int32_t> ids = {5, 2};
  for (const int64_t width : {2, 4}) {
    const Pass pass{.ids = ids, .position = 6, .width = width};
    each_memory({1, 1, 16, width}, [&](const TensorView& view) {
      fill_input(view, {.kind = Role::Kind::write}, pass, bundle->info(), bundle->embedding());
      std::vector<float> expected(static_cast<size_t>(16 * width));
      expected[static_cast<size_t>(6 * width)] = expected[static_cast<size_t>(7 * width + 1)] = 1;
      CHECK(view.to_float() == expected);
    });
    each_memory({1, 1, 3, 3 + width}, [&](const TensorView& view) {
      fill_input(view, {.kind = Role::Kind::advance, .index = 3}, pass, bundle->info(), bundle->embedding());
      std::vector<float> expected(static_cast<size_t>(3 * (3 + width)));
      for (int64_t r = 0; r < 3; ++r) expected[static_cast<size_t>(r * (3 + width) + r + 2)] = 1;
      CHECK(view.to_float() == expected);
    });
    each_memory({1, kHidden, width, 1}, [&](const TensorView& view) {
      fill_input(view, {.kind = Role::Kind::stream}, pass, bundle->info(), bundle->embedding());
      const std::vector<float> all = view.to_float();
      std::vector<float> row(kHidden), columns(static_cast<size_t>(width * kHidden));
      read_columns(view, 0, width, columns.data(), kHidden);
      for (int64_t t = 0; t < width; ++t) {
        bundle->embedding().read({.id = ids[t ? 1 : 0], .position = 6}, row);  // padding repeats the last
        for (int64_t c = 0; c < kHidden; ++c) {
          CHECK(all[static_cast<size_t>(c * width + t)] == row[static_cast<size_t>(c)]);
          CHECK(columns[static_cast<size_t>(t * kHidden + c)] == row[static_cast<size_t>(c)]);
          CHECK(read_number(view, c, t) == row[static_cast<size_t>(c)]);
        }
      }
    });
  }
}

TEST_CASE("an output that is no fp32 and no fp16 is not read as one") {
  std::vector<int32_t> numbers(4);
  const TensorView view = TensorView::row_major(DType::int32, {1, 4, 1, 1}, numbers.data());
  CHECK(error_of([&] { read_number(view, 0, 0); }) ==
        "an output of type int32 cannot be read; expected fp32 or fp16");
}
