#include "convert/stored_forms.h"

#include <set>

#include "base/error.h"
#include "compress/find.h"
#include "compress/form_bytes.h"
#include "lower/weights.h"
#include "plan/precision.h"
#include "plan/shards.h"

namespace anemone {

StoredForms::StoredForms(const Model& model, const ConvertRequest& request, const ConvertOptions& options)
    : options_(options),
      recipe_(options.shards_for ? &*options.shards_for
              : options.recipe   ? &*options.recipe
                                 : nullptr) {
  if (recipe_) add_names(model, request);
}

void StoredForms::add_names(const Model& model, const ConvertRequest& request) {
  Program program;
  lower::HollowWeights hollow;
  std::map<std::string, FunctionInterface> built;
  lower::LayersSpec layers;
  layers.first = request.first_layer;
  layers.last = request.last_layer;
  layers.first_stage = layers.last_stage = true;
  layers.tokens = {request.tokens.back().most, request.tokens.back().most};
  built["layers"] = lower::build_layers(program, "layers", model, hollow, layers);
  if (model.generates()) {
    lower::HeadSpec head;
    head.last_row = model.vocab;
    head.piece_rows = options_.head_rows.value_or(kHeadRows);
    built["head"] = lower::build_head(program, "head", model, hollow, head);
  }
  const FoundWeights found(program);
  const int64_t first_row = model.generates() ? model.vocabulary_head().weight.row_begin : 0;
  std::map<WeightRef, int64_t> experts;
  std::set<WeightRef> shared;
  for (const Layer& layer : model.layers)
    if (const Experts* e = find_experts(layer)) {
      for (size_t i = 0; i < e->experts.size(); ++i)
        for (const Projection* p : {&e->experts[i].gate, &e->experts[i].up, &e->experts[i].down})
          experts[p->weight] = static_cast<int64_t>(i);
      if (e->shared) {
        const GatedMlp& mlp = e->shared->mlp;
        shared.insert({mlp.gate.weight, mlp.up.weight, mlp.down.weight, e->shared->share.weight});
      }
    }
  for (const auto& [function, interface] : built)
    for (const NamedWeight& w : interface.weights)
      if (const FoundWeight* weight = found.find(function, w.value)) {
        const auto expert = experts.find(w.ref);
        const int64_t row = function == "head" ? w.ref.row_begin - first_row : -1;
        Named named{weight->weight,
                    {w.layer, expert == experts.end() ? -1 : expert->second, row, shared.contains(w.ref)},
                    {}};
        named.weight.stored = nullptr;  // its values are never read
        named_.emplace(w.ref, std::move(named));
      }
}

bool StoredForms::place(const PackageOf& package_of) {
  bool changed = false;
  for (auto& [ref, named] : named_) {
    const StorageForm& form = recipe_->form_of(package_of(named.place), named.weight);
    changed = changed || form != named.form;
    named.form = form;
  }
  return changed;
}

uint64_t StoredForms::bytes(const WeightRef& ref) const {
  const auto named = named_.find(ref);
  const bool kept = named == named_.end() || named->second.form.keep;
  const StorageForm form = kept ? form_of(storage_form(options_.precision), ref) : named->second.form;
  return stored_bytes(form, ref.rows(), ref.columns);
}

}  // namespace anemone
