// StoredForms: how many bytes each matrix of a model will take, known before anything is written. Shards are cut by it.
//     StoredForms forms(model, request, options);
//     ShardPlan shards = plan_shards(model, 0, n, [&](const WeightRef& ref) { return forms.bytes(ref); }, limits);
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "compress/weight.h"
#include "convert/request.h"

namespace anemone {

// Where a matrix is in the model.
struct PlaceInModel {
  int64_t layer = -1;   // -1: outside the layers
  int64_t expert = -1;  // of that layer
  int64_t row = -1;     // of the vocabulary, for a piece of the head
  // Of a shared expert: where the layer is cut at its router, the function behind it has it.
  bool behind_router = false;
};

class StoredForms {
 public:
  // With a recipe, the model is lowered once without its weights: rules go by the names and operations of the program.
  StoredForms(const Model& model, const ConvertRequest& request, const ConvertOptions& options);

  // Of a matrix of a layer, or of a piece of the head as options.head_rows cuts it.
  uint64_t bytes(const WeightRef& ref) const;

  // Which package each matrix is in: rules may name packages. True where that changed the form of some matrix.
  using PackageOf = std::function<std::string(const PlaceInModel&)>;
  bool place(const PackageOf& package_of);

 private:
  struct Named {
    Weight weight;  // as a recipe looks at it
    PlaceInModel place;
    StorageForm form;
  };

  void add_names(const Model& model, const ConvertRequest& request);

  const ConvertOptions& options_;
  const Recipe* recipe_ = nullptr;
  std::map<WeightRef, Named> named_;  // with a recipe
};

}  // namespace anemone
