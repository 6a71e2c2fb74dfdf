// The weights of a model, one by one, with what each is for and the shape that the model's sizes give it. The checks of
// a checkpoint, the cut into shards, the sizes of a plan and the report of a conversion all walk this one list.
//     each_weight(model, [&](const WeightUse& w) { bytes += w.ref.rows() * w.ref.columns * 2; });
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
  std::string_view role;  // "query weight"
  const WeightRef& ref;
  Extent rows, columns;    // columns: empty for a vector
  int64_t layer = -1;      // -1: outside the layers
  bool is_matrix = false;  // a projection, which may be stored in fewer bits; others are small and stay fp16

  int64_t elements() const { return ref.rows() * (columns.factors.empty() ? 1 : ref.columns); }
};

// What a block calls for each of its weights.
class WeightVisitor {
 public:
  using Visit = std::function<void(const WeightUse&)>;
  WeightVisitor(const Model& model, int64_t layer, const Visit& visit)
      : model_(model), layer_(layer), visit_(visit) {}

  Extent hidden() const;
  // Weights that the model does not have are passed over.
  void matrix(std::string_view role, const WeightRef& ref, Extent rows, Extent columns);
  // A small matrix that is no projection.
  void table(std::string_view role, const WeightRef& ref, Extent rows, Extent columns);
  void vector(std::string_view role, const WeightRef& ref, Extent size);
  void projection(std::string_view role, std::string_view bias_role, const Projection& p, const Extent& rows,
                  const Extent& columns);
  void norm(std::string_view role, std::string_view bias_role, const Norm& norm, const Extent& size);

 private:
  const Model& model_;
  int64_t layer_;
  const Visit& visit_;
};

// In the order of the computation: embedding, layers, final norm, head. A tied head is the embedding again and comes
// not twice.
void each_weight(const Model& model, const WeightVisitor::Visit& visit);
// Of one layer alone.
void each_weight(const Model& model, size_t layer, const WeightVisitor::Visit& visit);

}  // namespace anemone
