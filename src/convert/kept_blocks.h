// KeptBlocks: 4- and 8-bit blocks of an ONNX bundle as Core ML's blockwise constants, with the codes of the file.
//     if (auto kept = KeptBlocks::of(checkpoint, ref, factor))
//       b.op("constexpr_blockwise_shift_scale", {{"data", Constant::from_source(kept->data)}, …}, name);
// Scales become fp16. Without zero points the codes become signed; with them they stay unsigned and get an offset.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "families/weight_ref.h"
#include "mil/constant.h"

namespace anemone {

struct KeptBlocks {
  Constant::Source data, scale, offset;  // offset: only with zero points

  // Nothing where the weight is not held in such blocks: other widths, a transposed matrix, blocks across rows, a last
  // block that is not full, zero points that are no whole numbers.
  static std::optional<KeptBlocks> of(const Checkpoint& checkpoint, const WeightRef& ref, double factor);
};

}  // namespace anemone
