#include "convert/stages.h"

#include "base/error.h"
#include "convert/stored_forms.h"
#include "plan/shards.h"

namespace anemone {
namespace {

using lower::TokenCount;

lower::LayersSpec layers_spec(const StagePlan& plan, const ConvertRequest& request,
                              const StageFunction& function, lower::KvWrite write, double residual_scale) {
  lower::LayersSpec spec;
  spec.first = plan.first_layer;
  spec.last = plan.last_layer;
  spec.behind_experts = plan.behind_experts;
  spec.at_router = plan.kind == StageKind::route;
  spec.first_stage = plan.first_layer == request.first_layer && !spec.behind_experts;
  spec.last_stage = plan.last_layer == request.last_layer && !spec.at_router;
  spec.context = function.context;
  spec.tokens = {function.least_tokens, function.most_tokens};
  spec.kv = request.kv;
  spec.write = write;
  if (request.contexts.size() > 1) spec.state_suffix = fmt::format("_c{}", function.context);
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

std::string cut_text(const ExpertCut& cut) {
  if (cut.has_experts())
    return fmt::format("experts {}-{} of layer {}", cut.first_expert, cut.last_expert - 1, cut.first);
  const size_t whole = cut.first + (cut.behind_experts ? 1 : 0);
  std::string out = cut.behind_experts ? fmt::format("layer {} behind its experts", cut.first) : "";
  if (whole == cut.last) return out;
  out += out.empty() ? "" : ", ";
  out += whole + 1 == cut.last ? fmt::format("layer {}", whole)
                               : fmt::format("layers {}-{}", whole, cut.last - 1);
  return out + (cut.at_router ? " to its router" : "");
}

// Layers and experts, where experts have packages of their own.
std::vector<StagePlan> expert_stages(const Model& model, const ConvertRequest& request,
                                     const ConvertOptions& options, const StoredForms& forms) {
  const std::vector<ExpertCut> cuts = cut_at_experts(
      model, request.first_layer, request.last_layer, [&](const WeightRef& ref) { return forms.bytes(ref); },
      {.bytes = options.shard_bytes}, request.expert_group);
  std::vector<StagePlan> out;
  size_t layers = 0;
  for (const ExpertCut& cut : cuts) {
    StagePlan p{.holds = cut_text(cut), .first_layer = cut.first, .last_layer = cut.last, .bytes = cut.bytes};
    p.behind_experts = cut.behind_experts;
    p.first_expert = cut.first_expert;
    p.last_expert = cut.last_expert;
    p.kind = cut.has_experts()    ? StageKind::experts
             : cut.at_router      ? StageKind::route
             : cut.behind_experts ? StageKind::sum
                                  : StageKind::run;
    const bool several = cut.has_experts() &&
                         cut.last_expert - cut.first_expert < find_experts(model.layers[cut.first])->count();
    p.package =
        cut.has_experts() ? fmt::format("experts_{:02}", cut.first) : fmt::format("layers_{:02}", layers++);
    if (several) p.package += fmt::format("_{}", cut.first_expert);
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<StagePlan> cut_stages(const Model& model, const ConvertRequest& request,
                                  const ConvertOptions& options, const StoredForms& forms) {
  const ShardPlan shards = plan_shards(model, request.first_layer, request.last_layer,
                                       [&](const WeightRef& ref) { return forms.bytes(ref); },
                                       {.bytes = options.shard_bytes,
                                        .head_rows = options.head_rows.value_or(kHeadRows),
                                        .whole = options.whole});
  std::vector<StagePlan> out;
  const bool cut = request.experts != ExpertWay::all;
  if (cut) out = expert_stages(model, request, options, forms);
  for (const Shard& shard : shards.layers) {
    if (cut) break;
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
    if (!options.head_apart) return out;
    // The same weights once more, in functions of their own. Stages of the first variant come first.
    StagePlan whole = p, head = p;
    whole.of_variants = head.of_variants = p.of_variants = true;
    p.first_row = p.last_row = 0;
    head.first_layer = head.last_layer = 0;
    whole.bytes = head.bytes = 0;
    out.push_back(std::move(head));
    out.push_back(std::move(whole));
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

// One function of experts: "e8" for one, "e8_11" for four, with the tokens where there are several sizes.
struct ExpertFunction {
  int64_t first, last, tokens;
  std::string name;
};

std::vector<ExpertFunction> expert_functions(const StagePlan& plan, const Model& model,
                                             const ConvertRequest& request) {
  std::vector<int64_t> tokens;
  for (const TokenCount& t : request.tokens) tokens.push_back(t.most);
  const std::vector<int64_t> slots =
      expert_slots(*find_experts(model.layers[plan.first_layer]), request.expert_group, tokens);
  std::vector<ExpertFunction> out;
  for (int64_t e = plan.first_expert; e < plan.last_expert; e += request.expert_group)
    for (const int64_t slot : slots) {
      const int64_t last = std::min(plan.last_expert, e + request.expert_group);
      std::string name = last - e == 1 ? fmt::format("e{}", e) : fmt::format("e{}_{}", e, last - 1);
      if (slots.size() > 1) name += fmt::format("_t{}", slot);
      out.push_back({e, last, slot, std::move(name)});
    }
  if (out.size() == 1) out[0].name = "main";
  return out;
}

// A function of a stage, without its interface, and how it writes the cache.
struct PlannedFunction {
  StageFunction function;
  lower::KvWrite write = lower::KvWrite::mask;
};

// A head alone has no length and no cache. Those of the first variant come first.
std::vector<PlannedFunction> functions_of(const StagePlan& plan, const Model& model,
                                          const ConvertRequest& request) {
  std::vector<PlannedFunction> out;
  if (plan.kind == StageKind::experts) {
    for (ExpertFunction& f : expert_functions(plan, model, request))
      out.push_back({{.name = std::move(f.name), .least_tokens = f.tokens, .most_tokens = f.tokens}});
    return out;
  }
  const auto add = [&](std::string name, const TokenCount& t, int64_t context, const RunWay* way) {
    StageFunction f{
        .name = std::move(name), .least_tokens = t.least, .most_tokens = t.most, .context = context};
    for (const RunWay& other : request.ways)
      if (!other.variant.empty() && (way ? &other == way : plan.of_variants && !other.head_inside))
        f.variants.push_back(other.variant);
    out.push_back({std::move(f), way ? way->write : lower::KvWrite::mask});
  };
  if (!plan.has_layers()) {
    const std::string end = plan.of_variants ? "_head" : "";
    for (const TokenCount& t : request.tokens)
      add(request.tokens.size() == 1 && end.empty() ? "main" : fmt::format("t{}{}", t.most, end), t, 0,
          nullptr);
    return out;
  }
  for (const RunWay& way : request.ways) {
    if (plan.of_variants && way.head_inside != plan.has_rows()) continue;
    for (const int64_t context : request.contexts)
      for (const TokenCount& t : request.tokens)
        add(request.function_name(context, t, way), t, context, &way);
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

// Where a layer's matrices, an expert, or a row of the vocabulary went; what belongs to no layer is behind the last
// one.
std::string package_of(const std::vector<StagePlan>& stages, const PlaceInModel& at) {
  std::string last;
  for (const StagePlan& p : stages) {
    const bool inside = at.layer >= static_cast<int64_t>(p.first_layer + (p.behind_experts ? 1 : 0)) &&
                        at.layer < static_cast<int64_t>(p.last_layer);
    const bool experts = p.kind == StageKind::experts;
    const bool before_router =
        p.kind == StageKind::route && at.layer + 1 == static_cast<int64_t>(p.last_layer);
    const bool begins = p.behind_experts && at.layer == static_cast<int64_t>(p.first_layer);
    if (at.row >= 0        ? at.row >= p.first_row && at.row < p.last_row
        : experts          ? inside && at.expert >= p.first_expert && at.expert < p.last_expert
        : at.behind_router ? begins || (inside && !before_router)
                           : inside && (at.expert < 0 || !before_router))
      return p.package;
    if (p.has_layers()) last = p.package;
  }
  return last;
}

// How the router of a layer chooses, without its biases.
ExpertRule rule_of(const Model& model, size_t layer, double residual_scale) {
  const ResidualStep& step = model.layers[layer].steps[experts_step(model.layers[layer])];
  const auto& e = std::get<Experts>(step.block);
  return {.experts = e.count(),
          .used = e.used,
          .share = e.share,
          .skip = e.skip,
          .skip_scale = residual_scale * (step.norm_out ? 1 : step.scale),
          .choice_bias = {}};
}

}  // namespace

std::vector<StagePlan> plan_stages(const Model& model, const ConvertRequest& request,
                                   const ConvertOptions& options) {
  StoredForms forms(model, request, options);
  // Rules of a recipe may name packages, which there are only when the shards are cut: then they are cut again, until
  // the names hold. A recipe that never becomes stable gets the last cut.
  constexpr int kMostCuts = 8;
  std::vector<StagePlan> stages;
  forms.place([&](const PlaceInModel& at) -> std::string {
    return options.whole ? "whole" : at.row < 0 ? "layers_00" : "head_00";
  });
  for (int cut = 0; cut < kMostCuts; ++cut) {
    stages = cut_stages(model, request, options, forms);
    if (!forms.place([&](const PlaceInModel& at) { return package_of(stages, at); })) break;
  }
  return stages;
}

void build_stage(const StagePlan& plan, const Model& model, lower::Weights& weights,
                 const ConvertRequest& request, const ConvertOptions& options, double residual_scale,
                 Artifact& out) {
  out.name = plan.package;
  if (plan.kind == StageKind::experts) {
    for (const ExpertFunction& f : expert_functions(plan, model, request))
      out.interfaces[f.name] = lower::build_experts(out.program, f.name, model, weights,
                                                    {.layer = plan.first_layer,
                                                     .first = f.first,
                                                     .last = f.last,
                                                     .tokens = {f.tokens, f.tokens},
                                                     .residual_scale = residual_scale});
    return;
  }
  for (const auto& [f, write] : functions_of(plan, model, request)) {
    const TokenCount tokens{f.least_tokens, f.most_tokens};
    const lower::HeadSpec head = head_spec(plan, options, tokens);
    FunctionInterface& interface = out.interfaces[f.name];
    if (!plan.has_layers()) {
      interface = lower::build_head(out.program, f.name, model, weights, head);
    } else {
      const auto layers = layers_spec(plan, request, f, write, residual_scale);
      interface = plan.has_rows() ? lower::build_whole(out.program, f.name, model, weights, layers, head)
                                  : lower::build_layers(out.program, f.name, model, weights, layers);
    }
    if (!tokens.fixed()) set_ranges(*out.program.functions.back(), tokens, out);
  }
}

const WeightRef* choice_bias(const StagePlan& plan, const Model& model) {
  if (plan.kind != StageKind::route) return nullptr;
  const WeightRef& bias = find_experts(model.layers[plan.last_layer - 1])->router.choice_bias;
  return bias ? &bias : nullptr;
}

Stage stage_of(const StagePlan& plan, const Model& model, const ConvertRequest& request,
               const Artifact& artifact, const std::string& package, double residual_scale) {
  Stage out;
  out.kind = plan.kind;
  out.package = package;
  out.first_layer = static_cast<int64_t>(plan.first_layer);
  out.last_layer = static_cast<int64_t>(plan.last_layer);
  if (plan.kind == StageKind::route) out.rule = rule_of(model, plan.last_layer - 1, residual_scale);
  for (auto& [f, write] : functions_of(plan, model, request)) {
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
