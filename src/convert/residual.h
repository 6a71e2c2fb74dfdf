// The residual scale that keeps a model's stream in the range of fp16 and of the Neural Engine's accumulators.
//     const ResidualChoice choice = choose_residual_scale(checkpoint, model, threads);
//     choice.scale;                                                   // 1, 0.5, 0.25 …
#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

struct ResidualChoice {
  double scale = 1;    // a power of two: the mantissas stay as they are, so it costs no precision
  double largest = 0;  // |value| of the stream, or of what a block adds to it
  int64_t layer = 0;   // where that was
};

// Runs the reference over a page of ordinary text, or over ids from all over the vocabulary where the
// checkpoint has no tokenizer; reference/ranges.h says what the scale leaves. Error when a value is not finite.
ResidualChoice choose_residual_scale(std::shared_ptr<const Checkpoint> checkpoint, const Model& model,
                                     int threads);

// The same on a dozen tokens of it, in a fraction of the time. The largest values stand at the start of a text and at
// its first full stop and line break, and those are among them. What a longer text might add is allowed for: there is
// a scale where twice as much as usual is left.
ResidualChoice glance_at_residual(std::shared_ptr<const Checkpoint> checkpoint, const Model& model,
                                  int threads);

}  // namespace anemone
