// Stages: which packages a bundle will have, and the program of each.
//     std::vector<StagePlan> plans = plan_stages(model, request, options);
//     Artifact a;
//     build_stage(plans[0], model, weights, request, options, residual_scale, a);
//     info.stages.push_back(stage_of(plans[0], request, a, writer.file_name(a.name)));    // bundle/writer.h
//     writer.add(std::move(a));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bundle/artifact.h"
#include "bundle/bundle_info.h"
#include "convert/request.h"
#include "lower/weights.h"

namespace anemone {

struct StagePlan {
  std::string package;  // "layers_00"
  std::string holds;    // "layers 0-5", "rows 0-49151"
  StageKind kind = StageKind::run;
  size_t first_layer = 0, last_layer = 0;     // [first, last); none: a head alone
  bool behind_experts = false;                // the first of them begins behind its experts
  int64_t first_expert = 0, last_expert = 0;  // of the layer, in a stage of experts
  int64_t first_row = 0, last_row = 0;        // of the vocabulary; none: no head of logits
  uint64_t bytes = 0;  // of weights; those that a stage before it has are not counted again
  // Its package also has the stage in another form, for other variants: the head apart from the layers, or inside.
  bool of_variants = false;

  bool has_layers() const { return kind != StageKind::experts && last_layer > first_layer; }
  bool has_rows() const { return last_row > first_row; }
};

// Stages that share a package follow each other.
std::vector<StagePlan> plan_stages(const Model& model, const ConvertRequest& request,
                                   const ConvertOptions& options);

// Adds the functions of a stage to its package.
void build_stage(const StagePlan& plan, const Model& model, lower::Weights& weights,
                 const ConvertRequest& request, const ConvertOptions& options, double residual_scale,
                 Artifact& out);
// Its entry in bundle.json. A rule of a route lacks its biases, which are weights: see choice_bias().
Stage stage_of(const StagePlan& plan, const Model& model, const ConvertRequest& request,
               const Artifact& artifact, const std::string& package, double residual_scale);
// The biases of the router that a route ends with; null where it has none.
const WeightRef* choice_bias(const StagePlan& plan, const Model& model);

}  // namespace anemone
