// RecurrentStates: what layers of a function remember beside keys and values: [1, 1, columns, width] each, the newest
// column last. A call moves them on by its real tokens; padding never goes in.
//     Value* old = states.read(b, layer);                       // [1, 1, R, width]
//     states.advance(b, layer, concat(old, fresh));             // [1, 1, R + T, width]
#pragma once

#include <map>
#include <string>

#include "families/blocks/short_conv.h"
#include "lower/functions.h"
#include "lower/interface.h"
#include "mil/builder.h"

namespace anemone::lower {

class RecurrentStates {
 public:
  // A state of the function; where the cache is packed (phones take two states at most) or the host's, an input and an
  // output.
  void declare(Function& f, size_t layer, const RecurrentShape& shape, const LayersSpec& spec,
               FunctionInterface& interface);
  Value* read(Builder& b, size_t layer);
  // `columns`: the old ones, then those of the call's tokens.
  void advance(Builder& b, size_t layer, Value* columns);
  // Adds the outputs.
  void end(Builder& b, FunctionInterface& interface);

 private:
  struct Entry {
    RecurrentShape shape;
    Value* store = nullptr;
    Value* next = nullptr;  // where the host keeps it
  };

  LayersSpec spec_;
  std::map<size_t, Entry> entries_;  // by layer
  Value* advance_ = nullptr;         // which columns stay; none where a call has one token
};

}  // namespace anemone::lower
