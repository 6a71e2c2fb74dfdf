#include "verify/expected.h"

#include <algorithm>
#include <set>

#include "lower/functions.h"
#include "lower/weights.h"
#include "verify/package_weights.h"

namespace anemone {

ExpectedStage expected_stage(const Stage& stage, const StageFunction& function, const Model& model,
                             const BundleInfo& info) {
  const int64_t first = info.stages.front().first_layer;
  int64_t last = 0;
  for (const Stage& other : info.stages) last = std::max(last, other.last_layer);
  lower::HollowWeights hollow;
  Program scratch;
  ExpectedStage out;
  const auto add = [&](const FunctionInterface& interface) {
    out.weights.insert(out.weights.end(), interface.weights.begin(), interface.weights.end());
    out.taps.insert(out.taps.end(), interface.taps.begin(), interface.taps.end());
  };
  if (stage.has_layers()) {
    lower::LayersSpec spec;
    spec.first = static_cast<size_t>(stage.first_layer);
    spec.last = static_cast<size_t>(stage.last_layer);
    spec.context = function.context;
    spec.residual_scale = info.residual_scale;
    spec.behind_experts = stage.behind_experts();
    spec.at_router = stage.kind == StageKind::route;
    spec.first_stage = stage.first_layer == first && !spec.behind_experts;
    spec.last_stage = stage.last_layer == last && !spec.at_router;
    add(lower::build_layers(scratch, "layers", model, hollow, spec));
  }
  if (stage.kind == StageKind::experts) {
    const Role& shares = function.find_input(Role::Kind::shares)->role;
    add(lower::build_experts(scratch, "experts", model, hollow,
                             {.layer = static_cast<size_t>(stage.first_layer),
                              .first = shares.first,
                              .last = shares.last,
                              .residual_scale = info.residual_scale}));
  }
  if (stage.has_head() && model.generates()) {
    lower::HeadSpec spec;
    spec.argmax = info.argmax;
    spec.first_row = model.vocab;
    for (const Port& port : function.interface.outputs) {
      if (port.role.last <= port.role.first) continue;
      if (port.role.first < spec.first_row) spec.piece_rows = port.role.last - port.role.first;
      spec.first_row = std::min(spec.first_row, port.role.first);
      spec.last_row = std::max(spec.last_row, port.role.last);
    }
    add(lower::build_head(scratch, "head", model, hollow, spec));
  }
  std::set<std::string> sources;
  for (const NamedWeight& w : out.weights) sources.insert(w.value);
  for (const auto& f : scratch.functions)
    for (const auto& op : f->body.ops)
      for (const auto& value : op->outputs) {
        if (sources.contains(value->name)) continue;
        if (std::vector<float> values = float_constant(value->constant()); !values.empty())
          out.numbers.push_back({value->name, std::move(values)});
      }
  return out;
}

}  // namespace anemone
