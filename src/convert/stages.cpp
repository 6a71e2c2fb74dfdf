#include "convert/stages.h"

#include "base/error.h"
#include "convert/stored_forms.h"
#include "plan/shards.h"

namespace anemone {
namespace {

using lower::TokenCount;

lower::LayersSpec layers_spec(const StagePlan& plan, const ConvertRequest& request,
                              const ConvertOptions& options, int64_t context, const TokenCount& tokens,
                              double residual_scale) {
  lower::LayersSpec spec;
  spec.first = plan.first_layer;
  spec.last = plan.last_layer;
  spec.first_stage = plan.first_layer == request.first_layer;
  spec.last_stage = plan.last_layer == request.last_layer;
  spec.context = context;
  spec.tokens = tokens;
  spec.kv = request.kv;
  spec.write = options.kv_write.value_or(lower::KvWrite::mask);
  if (request.contexts.size() > 1) spec.state_suffix = fmt::format("_c{}", context);
  spec.residual_scale = residual_scale;
  return spec;
}

lower::HeadSpec head_spec(const StagePlan& plan, const ConvertOptions& options, const TokenCount& tokens) {
  lower::HeadSpec spec;
  spec.first_row = plan.first_row;
  spec.last_row = plan.last_row;
  spec.piece_rows = options.head_rows.value_or(kHeadRows);
  spec.tokens = tokens;
  spec.argmax = options.argmax;
  return spec;
}

std::string layers_text(const StagePlan& p) {
  return fmt::format("layers {}-{}", p.first_layer, p.last_layer - 1);
}

std::vector<StagePlan> cut_stages(const Model& model, const ConvertRequest& request,
                                  const ConvertOptions& options, const StoredForms& forms) {
  const ShardPlan shards = plan_shards(model, request.first_layer, request.last_layer,
                                       [&](const WeightRef& ref) { return forms.bytes(ref); },
                                       {.bytes = options.shard_bytes,
                                        .head_rows = options.head_rows.value_or(kHeadRows),
                                        .whole = options.whole});
  std::vector<StagePlan> out;
  for (const Shard& shard : shards.layers) {
    StagePlan p{.package = fmt::format("layers_{:02}", out.size()),
                .first_layer = shard.first,
                .last_layer = shard.last,
                .bytes = shard.bytes};
    p.holds = layers_text(p);
    out.push_back(std::move(p));
  }
  if (options.whole) {
    StagePlan& p = out.front();
    p.package = "whole";
    for (const Shard& head : shards.heads) {
      p.last_row = static_cast<int64_t>(head.last);
      p.bytes += head.bytes;
    }
    p.holds += ", head";
    return out;
  }
  for (size_t i = 0; i < shards.heads.size(); ++i) {
    const Shard& shard = shards.heads[i];
    out.push_back({.package = fmt::format("head_{:02}", i),
                   .holds = fmt::format("rows {}-{}", shard.first, shard.last - 1),
                   .first_row = static_cast<int64_t>(shard.first),
                   .last_row = static_cast<int64_t>(shard.last),
                   .bytes = shard.bytes});
  }
  return out;
}

// The functions of a stage, without their interfaces. A head alone has no length.
std::vector<StageFunction> functions_of(const StagePlan& plan, const ConvertRequest& request) {
  std::vector<StageFunction> out;
  for (const int64_t context : plan.has_layers() ? request.contexts : std::vector<int64_t>{0})
    for (const TokenCount& tokens : request.tokens) {
      StageFunction f{.least_tokens = tokens.least, .most_tokens = tokens.most, .context = context};
      f.name = plan.has_layers()            ? request.function_name(context, tokens)
               : request.tokens.size() == 1 ? "main"
                                            : fmt::format("t{}", tokens.most);
      out.push_back(std::move(f));
    }
  return out;
}

// The only size that is not fixed is the number of tokens.
void set_ranges(const Function& f, const TokenCount& tokens, Artifact& out) {
  for (const auto& input : f.inputs) {
    if (input->type.fixed()) continue;
    std::vector<SizeRange>& ranges = out.ranges[input->name];
    for (const Dim d : input->type.shape) {
      const TokenCount size = d.known() ? TokenCount{d.size(), d.size()} : tokens;
      ranges.push_back({static_cast<uint64_t>(size.least), size.most});
    }
  }
}

// Where a layer's matrices, or a row of the vocabulary, went; what belongs to no layer is behind the last one.
std::string package_of(const std::vector<StagePlan>& stages, int64_t layer, int64_t row) {
  std::string last;
  for (const StagePlan& p : stages) {
    if (row >= 0 ? row >= p.first_row && row < p.last_row
                 : layer >= static_cast<int64_t>(p.first_layer) && layer < static_cast<int64_t>(p.last_layer))
      return p.package;
    if (p.has_layers()) last = p.package;
  }
  return last;
}

}  // namespace

std::vector<StagePlan> plan_stages(const Model& model, const ConvertRequest& request,
                                   const ConvertOptions& options) {
  StoredForms forms(model, request, options);
  // Rules of a recipe may name packages, which there are only when the shards are cut: then they are cut again, until
  // the names hold. A recipe that never becomes stable gets the last cut.
  constexpr int kMostCuts = 8;
  std::vector<StagePlan> stages;
  forms.place([&](int64_t, int64_t row) -> std::string {
    return options.whole ? "whole" : row < 0 ? "layers_00" : "head_00";
  });
  for (int cut = 0; cut < kMostCuts; ++cut) {
    stages = cut_stages(model, request, options, forms);
    if (!forms.place([&](int64_t layer, int64_t row) { return package_of(stages, layer, row); })) break;
  }
  return stages;
}

Artifact build_stage(const StagePlan& plan, const Model& model, lower::Weights& weights,
                     const ConvertRequest& request, const ConvertOptions& options, double residual_scale) {
  Artifact out;
  out.name = plan.package;
  for (const StageFunction& f : functions_of(plan, request)) {
    const TokenCount tokens{f.least_tokens, f.most_tokens};
    const lower::HeadSpec head = head_spec(plan, options, tokens);
    FunctionInterface& interface = out.interfaces[f.name];
    if (!plan.has_layers()) {
      interface = lower::build_head(out.program, f.name, model, weights, head);
    } else {
      const auto layers = layers_spec(plan, request, options, f.context, tokens, residual_scale);
      interface = plan.has_rows() ? lower::build_whole(out.program, f.name, model, weights, layers, head)
                                  : lower::build_layers(out.program, f.name, model, weights, layers);
    }
    if (!tokens.fixed()) set_ranges(*out.program.functions.back(), tokens, out);
  }
  return out;
}

Stage stage_of(const StagePlan& plan, const ConvertRequest& request, const Artifact& artifact,
               const std::string& package) {
  Stage out;
  out.package = package;
  out.first_layer = static_cast<int64_t>(plan.first_layer);
  out.last_layer = static_cast<int64_t>(plan.last_layer);
  for (StageFunction& f : functions_of(plan, request)) {
    const FunctionInterface& built = artifact.interfaces.at(f.name);
    if (out.functions.empty()) out.taps = built.taps;
    f.interface.inputs = built.inputs;
    f.interface.outputs = built.outputs;
    f.interface.states = built.states;
    out.functions.push_back(std::move(f));
  }
  return out;
}

}  // namespace anemone
