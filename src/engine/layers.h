// Layers: a stretch of a function that repeats itself, with other weights and other states. Only a few repetitions are
// planned; unroll.h makes the steps of the others from those of one of them, the pattern.
//     if (const auto layers = Layers::find(info, cells)) …layers->left_out(i)…
//     const auto map = LayerMap::make(layers, 7);   map->value(id)      // what layer 7 has where the pattern has `id`
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/plan.h"

namespace anemone {

class Layers {
 public:
  static constexpr int kPattern = 2;  // the layer that others are made from
  static constexpr int kBehind = 2;   // layers that are planned behind those that are left out
  static constexpr int kFewest = 2;   // layers to leave out: fewer are not worth it

  // Of a function whose operations all can be planned; empty where nothing repeats often enough. The layers have the
  // same operations, types and small constants. They differ in weights, and in inputs that no other layer looks at.
  // A layer reads only from itself, from the layer before it, and from what stands before the first layer.
  static std::shared_ptr<const Layers> find(const FunctionInfo& info, const Cells& cells);

  const FunctionInfo& info() const { return info_; }
  int count() const { return count_; }
  int period() const { return period_; }
  int skipped() const { return count_ - kPattern - 1 - kBehind; }  // layers that are left out
  // Operations that run have a place, in their order: layer l has those from begin(l) to begin(l + 1).
  int begin(int layer) const { return first_ + layer * period_; }
  const Operation& operation(int place) const;
  int place(size_t op) const { return place_of_op_[op]; }  // of an operation of the function; constants: -1
  int maker(int id) const { return maker_[static_cast<size_t>(id)]; }  // the place that makes a value, or -1
  int place(const Operation& op) const;
  // What the operation `places` behind that which makes `id` makes in its place.
  int shifted(int id, int places) const;

  bool left_out(size_t op) const;
  // The value that stands for `id` in a plan of what is not left out.
  int planned(int id) const;
  // Operations, counted from the begin of a layer, that read constants or inputs which other layers do not read.
  const std::vector<int>& differing() const { return differing_; }
  // Only operations of that layer look at this constant or input of the function.
  bool only_in(int layer, int id) const;
  bool same_content(int a, int b) const;     // of constants
  bool interchangeable(int a, int b) const;  // a plan may have the one for the other

 private:
  explicit Layers(const FunctionInfo& info) : info_(info) {}

  bool number_operations();
  bool find_period(const Cells& cells);
  bool repeats(int place, int period, const Cells& cells);
  size_t output_of(int id) const;
  bool same_use(const Operation& op, const Input& input, int a, int b, int place, const Cells& cells);
  bool same_constants(const Operation& op, const Input& input, int a, int b) const;
  int best_border(int first) const;
  void note_differences();
  bool ends_well() const;

  const FunctionInfo& info_;
  std::vector<int> ops_;  // by place
  std::vector<int> place_of_op_, maker_;
  std::unordered_map<const Operation*, int> silent_;  // places of operations that make no value
  int first_ = 0, period_ = 0, count_ = 0;
  std::vector<int> differing_;  // while the period is looked for: by place
  int shared_ = -1;             // the last place whose result all layers share
};

// What a layer has in place of what the pattern has; and the layer before it, in place of the one before the pattern.
// All else stays what it is.
class LayerMap {
 public:
  // Empty: the two do not correspond one to one.
  static std::shared_ptr<const LayerMap> make(std::shared_ptr<const Layers> layers, int layer);

  const FunctionInfo& info() const { return layers_->info(); }
  int value(int id) const;
  const Operation& operation(const Operation& op) const;
  // A constant or an input that the layer has another for.
  bool replaces(int id) const {
    const auto it = others_.find(id);
    return it != others_.end() && it->second != id;
  }

 private:
  LayerMap(std::shared_ptr<const Layers> layers, int layer) : layers_(std::move(layers)), layer_(layer) {}
  bool pair_operands(int place, int back);
  bool pair(int mine, int other, int back);
  bool lies_alike(int mine, int other) const;
  bool moves(int place) const {
    return place >= layers_->begin(0) && place < layers_->begin(Layers::kPattern + 1);
  }
  int distance() const { return (layer_ - Layers::kPattern) * layers_->period(); }

  std::shared_ptr<const Layers> layers_;
  int layer_;
  std::unordered_map<int, int> others_;  // constants and inputs of the pattern → of the layer
  std::unordered_map<int, int> mine_;    // and back
};

}  // namespace anemone
