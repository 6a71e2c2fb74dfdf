// RecurrentStates: the recurrent states of a function, by layer and slot: [1, 1, columns, width] each, the newest
// column last. The block computes the state after the call; padding must not change it.
//     Value* old = states.read(b, layer, 0);                                    // [1, 1, R, width]
//     Value* next = states.last_columns(b, layer, 0, concat(old, fresh));       // of [1, 1, R + T, width]
//     states.write(b, layer, 0, next);
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "families/blocks/recurrent.h"
#include "lower/functions.h"
#include "lower/interface.h"
#include "mil/builder.h"

namespace anemone::lower {

class RecurrentStates {
 public:
  // States of the function; where the cache is packed (phones take two states at most) or the host's, inputs and
  // outputs. `slots`: all states of the layer.
  void declare(Function& f, size_t layer, std::span<const RecurrentShape> slots, const LayersSpec& spec,
               FunctionInterface& interface);
  Value* read(Builder& b, size_t layer, size_t slot);
  // The last columns that belong to real tokens. `columns`: those of the state, then those of the call's tokens.
  Value* last_columns(Builder& b, size_t layer, size_t slot, Value* columns);
  // What the state is from here on; once for each state.
  void write(Builder& b, size_t layer, size_t slot, Value* next);
  // Adds the outputs.
  void end(Builder& b, FunctionInterface& interface);

 private:
  struct Entry {
    RecurrentShape shape;
    Value* store = nullptr;
    Value* next = nullptr;  // where the host keeps it
  };

  LayersSpec spec_;
  std::map<std::pair<size_t, size_t>, Entry> entries_;  // by layer and slot
  // By the number of columns of a state: which of them stay. None where a call has one token.
  std::map<int64_t, Value*> advance_;
};

}  // namespace anemone::lower
