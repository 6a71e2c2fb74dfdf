// The outputs of a function, computed from the stream after the final norm.
#pragma once

#include "lower/functions.h"
#include "mil/builder.h"

namespace anemone::lower {

// Rows of the head as convolutions of at most spec.piece_rows, each with its outputs.
void add_vocabulary_head(Builder& b, Value* y, const Model& model, Weights& weights, const HeadSpec& spec,
                         FunctionInterface& interface);

// The result of an encoder: a vector, classes of the tokens, or classes of the text. The input `pool` weights the
// tokens, so that padding does not count.
void add_text_head(Builder& b, Value* y, const Model& model, Weights& weights, const LayersSpec& spec,
                   Function& f, FunctionInterface& interface);

}  // namespace anemone::lower
