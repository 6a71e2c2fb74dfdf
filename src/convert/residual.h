// How far a model's residual stream goes, and the scale that keeps it in fp16's range.
//     const ResidualRange range = measure_residual(checkpoint, model, threads);
//     double scale = residual_scale_for(range.largest);               // 1, 0.5, 0.25 …
#pragma once

#include <cstdint>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "families/model.h"

namespace anemone {

struct ResidualRange {
  double largest = 0;  // |value| of the stream, or of what a block adds to it
  int64_t layer = -1;  // where; -1: the embedding
};

// Runs the reference over a page of ordinary text, or over ids from all over the vocabulary where the
// checkpoint has no tokenizer. Error when a value is not finite.
ResidualRange measure_residual(std::shared_ptr<const Checkpoint> checkpoint, const Model& model, int threads);

// The largest power of two, at most 1, that keeps twice that value below 2^15: the accumulators of the Neural
// Engine end there, and other texts may go further than the measured one. It costs no precision: the mantissas
// stay as they are.
double residual_scale_for(double largest);

}  // namespace anemone
