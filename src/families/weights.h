// The weights of a model, one by one, with what each is for, the shape that the model's sizes give it, and the kind of
// file that it goes to. The checks of a checkpoint, the cut into shards, the sizes of a plan and the tables that a
// conversion writes all walk this one list.
//     each_weight(model, [&](const WeightUse& w) { parameters += w.repeated ? 0 : w.elements(); });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "families/model.h"
#include "families/size_names.h"

namespace anemone {

// One dimension of a weight as a product of the model's sizes: "4 heads x head size 32".
struct Extent {
  struct Factor {
    int64_t value = 0;
    std::string_view
        text;  // size_names::kHeads, or a block's own: "{} taps". Model::origins says where it comes from
  };
  std::vector<Factor> factors;

  int64_t value() const;
};

struct WeightUse {
  // Where a bundle keeps it: in a table that the host reads; in packages of layers, before all layers, in one of
  // them, or behind all of them; in packages of a vocabulary's head.
  enum class Place { table, front, layer, back, head };

  std::string_view role;  // "query weight"
  const WeightRef& ref;
  Extent rows, columns;  // columns: empty for a vector
  Place place = Place::layer;
  int64_t layer = -1;      // -1: outside the layers
  bool is_matrix = false;  // a projection, which may be stored in fewer bits; others are small and stay fp16
  bool repeated = false;   // a tied head: the embedding's tensor once more

  int64_t elements() const { return ref.rows() * (columns.factors.empty() ? 1 : ref.columns); }
};

// What a block calls for each of its weights.
class WeightVisitor {
 public:
  using Visit = std::function<void(const WeightUse&)>;
  WeightVisitor(const Model& model, WeightUse::Place place, int64_t layer, const Visit& visit)
      : model_(model), place_(place), layer_(layer), visit_(visit) {}

  Extent hidden() const;
  // Weights that the model does not have are passed over.
  void matrix(std::string_view role, const WeightRef& ref, Extent rows, Extent columns,
              bool repeated = false);
  // A small matrix that is no projection.
  void table(std::string_view role, const WeightRef& ref, Extent rows, Extent columns);
  void vector(std::string_view role, const WeightRef& ref, Extent size);
  void projection(std::string_view role, std::string_view bias_role, const Projection& p, const Extent& rows,
                  const Extent& columns);
  void norm(std::string_view role, std::string_view bias_role, const Norm& norm, const Extent& size);

 private:
  const Model& model_;
  WeightUse::Place place_;
  int64_t layer_;
  const Visit& visit_;
};

// In the order of the computation: embedding, layers, final norm, head.
void each_weight(const Model& model, const WeightVisitor::Visit& visit);
// Of one layer alone.
void each_weight(const Model& model, size_t layer, const WeightVisitor::Visit& visit);

}  // namespace anemone
