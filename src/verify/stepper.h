// Stepper: runs a bundle's packages one call at a time, with the cache laid open: what a call finds there, what
// it leaves, and the values inside the shards.
//     Stepper stepper("bundle", {.taps = true});
//     Form form = stepper.form_for(64);
//     Caches caches = stepper.empty_caches(form);
//     StepResult r = stepper.step(form, ids, 0, caches);       // r.logits, r.inner["layer_out_3"], …
// It builds the inputs from bundle.json by itself, as docs/bundle.md says, and shares nothing with the
// runtime's Session: the two are held against each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "predict/backend.h"
#include "runtime/bundle.h"

namespace anemone {

struct StepperOptions {
  Arithmetic arithmetic = Arithmetic::fp32;
  int threads = 0;
  int64_t positions = 0;  // in use in all, for longrope; 0: the bundle's longest context
  bool taps = false;      // fetch the values inside
};

// One way to call the layers: a function name, shared by all shards of layers.
struct Form {
  std::string function;
  int64_t least_tokens = 1, most_tokens = 1;
  int64_t context = 0;
};

// Keys and values of one layer, [kv_heads, context, width] each.
struct LayerCache {
  std::vector<float> k, v;
};
// A text's cache, open to be read and changed between calls. It belongs to one tier.
struct Caches {
  int64_t kv_heads = 0, context = 0, width = 0;
  std::vector<LayerCache> layers;
  std::vector<std::unique_ptr<State>> states;  // by stage; what the calls work on
  bool changed = true;  // `layers` was changed by hand, so the states must be set from it

  std::span<float> row(std::vector<float>& side, int64_t head, int64_t position) const;
  std::span<const float> row(const std::vector<float>& side, int64_t head, int64_t position) const;
};

struct StepResult {
  std::vector<float> logits;  // [tokens, vocab]; of a bundle that picks, where its head's values have names
  std::vector<int64_t> best;  // [tokens], of a bundle that picks: its own choice
  // By the names of verify/golden.h, [tokens, width], in the model's own scale: what a residual scale does is
  // undone. Those that the shards name, with StepperOptions::taps.
  std::map<std::string, std::vector<float>> inner;
  std::map<std::string, double> magnitude;  // the same, as they stand in the shard: the largest of each
  std::optional<NumericFault> fault;
};

class Stepper {
 public:
  Stepper(const std::filesystem::path& bundle, const StepperOptions& options);

  const BundleInfo& info() const { return bundle_->info(); }
  const std::filesystem::path& path() const { return bundle_->path(); }
  int64_t first_layer() const { return first_layer_; }
  int64_t layers() const { return layers_; }
  const std::vector<Form>& forms() const { return forms_; }  // by context, then by tokens
  // The form of fewest tokens in the shortest tier that holds so many positions. Error when none does.
  const Form& form_for(int64_t positions) const;

  Caches empty_caches(const Form& form) const;
  // Runs tokens (at most form.most_tokens) from `position` on. Fewer than form.least_tokens are padded.
  StepResult step(const Form& form, std::span<const int32_t> ids, int64_t position, Caches& caches) const;

 private:
  using Arrays = std::map<std::string, Array>;
  struct Call {
    const Form& form;
    std::span<const int32_t> ids;
    int64_t position, tokens, width;  // width: what the function takes, padding included
  };

  // A value inside a shard: its name there, and in a golden.
  struct Tap {
    std::string value, golden;
    double scale = 1;  // how much larger it stands in the shard
  };

  const Predictor& predictor(size_t stage, const std::string& function) const;
  std::vector<Tap> taps_of(size_t stage, const std::string& function) const;
  Arrays common_inputs(const Call& call) const;
  Array embedded(const Call& call) const;
  void run_layers(size_t stage, const Call& call, const Arrays& common, Array& x, Caches& caches,
                  Prediction& last, StepResult& out) const;
  void run_head(const Call& call, const Array& y, const Prediction& last, StepResult& out) const;
  void take_piece(const Call& call, const HeadPiece& piece, const Prediction& result, int64_t number,
                  StepResult& out) const;
  void take_inner(const Call& call, size_t stage, const Prediction& result, StepResult& out) const;
  void set_states(size_t stage, const std::string& function, Caches& caches) const;
  void get_states(size_t stage, Caches& caches) const;

  std::shared_ptr<const Bundle> bundle_;
  StepperOptions options_;
  std::shared_ptr<const Backend> backend_;
  std::vector<std::shared_ptr<const Package>> packages_;  // by stage
  std::vector<Form> forms_;
  int64_t first_layer_ = 0, layers_ = 0;
  mutable std::map<std::pair<size_t, std::string>, std::unique_ptr<Predictor>> predictors_;
};

}  // namespace anemone
