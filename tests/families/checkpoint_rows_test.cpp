#include "families/checkpoint_rows.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/half.h"
#include "base/thread_pool.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

TEST_CASE("rows of a checkpoint become halves, and int8 with scales of either kind") {
  const MadeModel made(small_decoder(1));
  WeightRef ref = std::get<Attention>(made.model.layers[0].steps[0].block).q.weight;
  ref.row_begin = 3;  // a part of the tensor
  const TensorReader& tensor = made.checkpoint->tensor(ref.tensor);
  const int64_t rows = ref.rows(), columns = ref.columns;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  read_rows(tensor, ref, 0, rows, values);
  for (float& v : values) v *= 2;
  const auto largest_of = [&](int64_t begin, int64_t end) {
    float most = 0;
    for (int64_t i = begin * columns; i < end * columns; ++i)
      most = std::max(most, std::abs(values[static_cast<size_t>(i)]));
    return most;
  };

  const CheckpointRows source(tensor, ref, 2);
  std::vector<uint16_t> halves(values.size());
  source.halves(0, rows, halves.data());
  for (size_t i = 0; i < values.size(); ++i) CHECK(half_to_float(halves[i]) == round_to_half(values[i]));

  ThreadPool pool(2);
  for (const bool per_row : {true, false})
    for (const bool half : {true, false}) {
      CAPTURE(per_row);
      CAPTURE(half);
      Int8Rows int8(source, {.per_row = per_row, .half = half});
      CHECK(int8.scales() == (per_row ? rows : 1));
      int8.prepare(pool);
      // The last scale is asked for before its row is quantised.
      const auto scale_of = [&](int64_t row) {
        const float s = (per_row ? largest_of(row, row + 1) : largest_of(0, rows)) / 127;
        return half ? round_to_half(s) : s;
      };
      CHECK(int8.scale(int8.scales() - 1) == scale_of(rows - 1));
      std::vector<int8_t> codes(values.size());
      int8.quantize(0, rows, codes.data());
      for (int64_t r = 0; r < rows; ++r) {
        CHECK(int8.scale(per_row ? r : 0) == scale_of(r));
        for (int64_t c = 0; c < columns; ++c) {
          const auto i = static_cast<size_t>(r * columns + c);
          // To the nearest, but for products that round onto a half step.
          CHECK(std::abs(codes[i] - values[i] / scale_of(r)) <= 0.5f + 1e-4f);
        }
      }
    }
}
