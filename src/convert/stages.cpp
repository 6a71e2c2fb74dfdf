#include "convert/stages.h"

#include "base/error.h"
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

}  // namespace

std::vector<StagePlan> plan_stages(const Model& model, const ConvertRequest& request,
                                   const ConvertOptions& options) {
  const auto bytes = [&](const WeightRef& ref) { return CheckpointWeights::bytes(ref, options.precision); };
  const ShardPlan shards = plan_shards(model, request.first_layer, request.last_layer, bytes,
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

Artifact build_stage(const StagePlan& plan, const Model& model, lower::Weights& weights,
                     const ConvertRequest& request, const ConvertOptions& options, double residual_scale) {
  Artifact out;
  out.name = plan.package;
  out.stage.first_layer = static_cast<int64_t>(plan.first_layer);
  out.stage.last_layer = static_cast<int64_t>(plan.last_layer);
  // A head alone has no length.
  const std::vector<int64_t> none = {0};
  for (const int64_t context : plan.has_layers() ? request.contexts : none)
    for (const TokenCount& tokens : request.tokens) {
      StageFunction f{.least_tokens = tokens.least, .most_tokens = tokens.most, .context = context};
      f.name = plan.has_layers()            ? request.function_name(context, tokens)
               : request.tokens.size() == 1 ? "main"
                                            : fmt::format("t{}", tokens.most);
      const lower::HeadSpec head = head_spec(plan, options, tokens);
      if (!plan.has_layers()) {
        f.interface = lower::build_head(out.program, f.name, model, weights, head);
      } else {
        const auto layers = layers_spec(plan, request, options, context, tokens, residual_scale);
        f.interface = plan.has_rows() ? lower::build_whole(out.program, f.name, model, weights, layers, head)
                                      : lower::build_layers(out.program, f.name, model, weights, layers);
      }
      if (out.stage.taps.empty()) out.stage.taps = f.interface.taps;
      f.interface.taps.clear();
      out.stage.functions.push_back(std::move(f));
    }
  return out;
}

}  // namespace anemone
