// KvCache: keys and values of the tokens so far, for the layers of one function that have attention. One interface for
// the three ways to keep them: a pair of states a layer, two packed states, inputs and outputs.
#pragma once

#include <string>
#include <vector>

#include "lower/functions.h"
#include "lower/interface.h"

namespace anemone::lower {

// What a layer attends over, and what it leaves behind.
struct CachePair {
  Value* keys = nullptr;  // [1, kv_heads, S, dim], the new rows included
  Value* values = nullptr;
};

class KvCache {
 public:
  // Declares the inputs or states of the layers; `f` must have its other inputs already.
  void declare(Function& f, const Model& model, const LayersSpec& spec, FunctionInterface& interface);
  bool empty() const { return layers_.empty(); }
  // Reads what is shared by all layers; call once at the start of the body.
  void begin(Builder& b, Value* write, Value* position);
  // Puts the new rows [1, kv_heads, T, head_dim] of a layer in place and gives the whole.
  CachePair update(Builder& b, size_t layer, Value* key, Value* value);
  // Writes what is written once for all layers, and adds outputs.
  void end(Builder& b, FunctionInterface& interface);

 private:
  struct Side {
    std::vector<Value*> inputs;  // per layer, or one when packed
    Value* packed = nullptr;     // the content of a packed state
    std::vector<Value*> updated;
    std::vector<Value*> rows;  // io: what the host takes
  };

  Value* update(Builder& b, Side& side, const char* letter, size_t layer, Value* rows);
  Value* blend(Builder& b, Value* old, Value* rows, const std::string& name);
  Value* insert(Builder& b, Value* old, Value* rows, size_t index, const std::string& name);
  static Value* bound(Builder& b, Value* row, int64_t entry, const std::string& name);

  size_t index_of(size_t layer) const;

  LayersSpec spec_;
  std::vector<size_t> layers_;   // those with attention
  std::vector<int64_t> widths_;  // of a row of the cache
  Side keys_, values_;
  Value* write_ = nullptr;  // one-hot [1, 1, S, T]
  Value* keep_ = nullptr;   // 1 - its sum over T, [1, 1, S, 1]
  // Where new rows go, int32 [4]: per entry of the first axis.
  std::vector<Value*> begins_, ends_;
};

}  // namespace anemone::lower
