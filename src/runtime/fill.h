// Fills the inputs of a call by their roles.
//     Pass pass{.ids = ids, .position = 12, .width = 16, .context = 512};
//     fill_input(call->input("mask"), port.role, pass, info, embedding);
#pragma once

#include <cstdint>
#include <span>

#include "anemone/predictor.h"
#include "bundle/bundle_info.h"
#include "bundle/embedding.h"

namespace anemone {

// Tokens that go through the stages together. Columns behind the last token are padding: they repeat it in every
// respect, which the engine sees and computes once, and they leave nothing behind.
struct Pass {
  std::span<const int32_t> ids;
  std::span<const int32_t> types;  // empty: all 0
  int64_t position = 0;            // of the first
  int64_t width = 0;               // columns, padding included
  bool long_rope = false;          // longrope's choice for the whole text
  std::optional<Pooling> pooling;  // for `pool`; empty: as the bundle says

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// `view` has the shape that the function declares. Error for a role that is no input which the host makes.
void fill_input(const TensorView& view, const Role& role, const Pass& pass, const BundleInfo& info,
                const EmbeddingReader& embedding);

// Column `t` of a view [1, C, T, 1], whatever its type and strides.
void fill_column(const TensorView& view, int64_t t, std::span<const float> values);

}  // namespace anemone
