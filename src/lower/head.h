// What a function gives of the stream behind the final norm.
#pragma once

#include "lower/functions.h"
#include "mil/builder.h"

namespace anemone::lower {

// Rows of the head as convolutions of at most spec.piece_rows, each with its outputs.
void add_vocabulary_head(Builder& b, Value* y, const Model& model, Weights& weights, const HeadSpec& spec,
                         FunctionInterface& interface);

// What a model gives of a text that it sees whole: a vector, classes of its tokens, or classes of the text. How the
// tokens count in it is an input, `pool`, so that padding does not.
void add_text_head(Builder& b, Value* y, const Model& model, Weights& weights, const LayersSpec& spec,
                   Function& f, FunctionInterface& interface);

}  // namespace anemone::lower
