// Planner: the size and the speed of a model, predicted before anything is converted.
//     PlanSource s = open_plan_source("model.gguf");              // or a config.json, or "qwen3-0.6b"
//     Planner p(s.model);
//     ModelPlan plan = p.plan({.precision = parse_precision("int8"), .target = find_target("m4-max")});
//     plan.cost.total_ms();                                        // predicted, see calibration.h
// Sizes are computed, and agree with what `convert` writes; speeds are predictions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "families/model.h"
#include "lower/functions.h"
#include "plan/calibration.h"
#include "plan/expert_cut.h"
#include "plan/precision.h"
#include "plan/shards.h"
#include "target/chips.h"

namespace anemone {

// Where the description of a model came from.
struct PlanSource {
  Model model;
  std::string origin;         // "GGUF", "safetensors", "config.json", "the table of known models"
  uint64_t stored_bytes = 0;  // of the checkpoint's tensors, where there are some
  uint64_t tokenizer_bytes = 0;
};

// A checkpoint, a config.json (or a folder that has only that), or the name of a known model. Reads no weights.
PlanSource open_plan_source(const std::string& text);

struct ModelPlanOptions {
  StorageForm precision = parse_precision("int8");
  Target target;
  int64_t context = 2048;  // compiled length
  lower::KvWrite kv_write = lower::KvWrite::mask;
  ShardLimits limits;
  bool embedding_int8 = false;
  std::optional<ExpertWay> experts;  // of a model with experts; empty: the fastest
  int64_t expert_group = 0;          // of the way `groups`; 0: the fastest
};

// A token of a model with experts, in one of the ways to compute them: expert_plan.h.
struct WayCost {
  ExpertWay way = ExpertWay::all;
  int64_t group = 1;                                           // experts of one call
  double layer_calls = 0, expert_calls = 0, head_calls = 0;    // on average
  uint64_t layer_bytes = 0, expert_bytes = 0, head_bytes = 0;  // read, on average
  TokenCost cost;

  double calls() const { return layer_calls + expert_calls + head_calls; }
  uint64_t read_bytes() const { return layer_bytes + expert_bytes + head_bytes; }
};

// Bytes of the programs (model.mlmodel), which hold no weights.
struct GraphBytes {
  uint64_t layers = 0, layer = 0;  // of a package of layers without one, of every layer in it
  uint64_t head = 0, piece = 0;    // of a head package without a convolution, of every convolution in it
};

// Does it fit? Of an app: what the App Store takes; of memory: the smallest size on sale that holds it.
struct PlanFit {
  bool app = false;      // the bundle is below the limit of an app
  int smallest_gb = 0;   // memory of the chip's devices; 0: none of them
  int phone_gb = 0;      // the same over all iPhones
  bool resident = true;  // all weights within what one process was seen to keep mapped
  bool context = true;   // attention over that many rows stays on the engine (rules S06, S07)
};

struct ModelPlan {
  ModelPlanOptions options;
  ShardPlan shards;
  uint64_t layer_weights = 0, head_weights = 0;  // stored
  uint64_t weight_bytes = 0;                     // all of them, as the chip reads them
  uint64_t read_bytes = 0;                       // per token; fewer, where only some experts are called
  uint64_t package_bytes = 0;                    // all packages, with their programs
  uint64_t embedding_bytes = 0;
  uint64_t bundle_bytes = 0;
  uint64_t kv_bytes = 0;
  uint64_t state_bytes = 0;   // recurrent states, for any context
  uint64_t memory_bytes = 0;  // weights as read, cache, states, and what the process itself takes
  // False for encoders, for which nobody has published runs, and for forms that fall back to the CPU (rule Q02).
  bool speed_known = true;
  TokenCost cost;
  double spread = 0.25;  // of the predicted time, either way
  PlanFit fit;
  std::vector<WayCost> ways;    // of a model with experts: all of them
  WayCost way;                  // the one that the figures here are of
  std::vector<ExpertCut> cuts;  // of the ways `host` and `groups`, instead of shards.layers

  // Per token, on average.
  double calls() const { return cuts.empty() ? static_cast<double>(shards.calls()) : way.calls(); }
  // How many, of layers, experts and head: "41+38+5".
  std::string calls_text() const;
  double tokens_per_second() const { return 1000 / cost.total_ms(); }
  double slowest() const { return tokens_per_second() / (1 + spread); }
  double fastest() const { return tokens_per_second() / (1 - spread); }
};

class Planner {
 public:
  // Error when the sizes are beyond reason.
  explicit Planner(Model model, uint64_t tokenizer_bytes = 0);

  const Model& model() const { return model_; }
  uint64_t parameters() const { return parameters_; }
  uint64_t tokenizer_bytes() const { return tokenizer_bytes_; }
  // Of keys and values, all layers, per position of the context.
  uint64_t kv_bytes_per_position() const;
  // Of all recurrent states.
  uint64_t state_bytes() const;
  ModelPlan plan(const ModelPlanOptions& options) const;
  // The bytes of one package: weight.bin, model.mlmodel and the manifest.
  uint64_t layers_package(const Shard& shard, const StorageForm& precision) const;
  uint64_t head_package(const Shard& shard, const StorageForm& precision, int64_t head_rows) const;
  const GraphBytes& graph(const StorageForm& precision) const;

 private:
  void count_reads(ModelPlan& plan) const;
  void choose_way(ModelPlan& plan, const TokenWork& work, const WeightBytes& bytes) const;

  Model model_;
  uint64_t parameters_ = 0, tokenizer_bytes_ = 0;
  GraphBytes half_, integers_, palettes_;  // programs over fp16 constants, over integers, over palettes
};

// What a package and a bundle hold beside weights and programs.
struct PackageOverhead {
  static constexpr uint64_t manifest = 617, weight_header = 64, bundle_json = 2000, bundle_json_layer = 800,
                            bundle_json_experts = 400;  // of a group of experts
};

// In a package's weight file.
uint64_t weight_file_bytes(const StorageForm& precision, const WeightRef& ref, bool is_matrix);

// Bytes of the recurrent states of a layer, in fp16.
uint64_t recurrent_bytes(const Layer& layer);

// Published limits and rules of thumb; docs/plan.md says where each comes from.
int64_t longest_context(const Chip& chip);                 // rows that attention may go over
inline constexpr uint64_t kAppBytes = 4'000'000'000;       // the App Store takes no larger app
inline constexpr uint64_t kResidentBytes = 3'000'000'000;  // rule Z04, grade C
inline constexpr uint64_t kProcessBytes = 64'000'000;      // buffers, tokenizer, code: an assumption
double usable_memory_share(DeviceClass device);            // of a device's memory for one app

}  // namespace anemone
