// Stepper: runs a bundle's packages one call at a time, with the cache laid open: what a call finds there, what
// it leaves, and the values inside the shards.
//     Stepper stepper(Bundle::open("bundle", backend), {.taps = true});
//     CallShape shape = stepper.shape_for(64);
//     Caches caches = stepper.empty_caches(shape);
//     StepResult r = stepper.step(shape, ids, 0, caches);       // r.logits, r.inner[{"layer_out", 3}], …
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
#include "runtime/bundle.h"
#include "verify/inner_name.h"

namespace anemone {

struct StepperOptions {
  int64_t positions = 0;  // in use in all, for longrope; 0: the bundle's longest context
  bool taps = false;      // fetch the values inside
};

// What stands in the columns behind the tokens of a call that takes more: all that docs/bundle.md allows.
enum class Padding {
  zeros,   // columns of zeros
  repeat,  // the last token once more
  noise,   // numbers of the usual size
};
std::string_view padding_name(Padding padding);

// One way to call the layers: so many tokens over a cache of that length, in all stages alike.
struct CallShape {
  std::string function;  // its name in the first stage
  int64_t least_tokens = 1, most_tokens = 1;
  int64_t context = 0;  // 0: there is no cache, a text is seen whole

  // Most positions of a text.
  int64_t positions() const { return context ? context : most_tokens; }
};

// What one layer remembers.
struct LayerCache {
  int64_t kv_heads = 0, width = 0;
  std::vector<float> k, v;  // [kv_heads, context, width] each
  // Of a recurrent layer: its states as they hold it, one behind the other in the order of their slots.
  std::vector<float> recurrent;
  std::map<size_t, size_t> slots;  // where the state of each slot begins there

  std::span<float> memory(const Role& role);
  std::span<const float> memory(const Role& role) const;
};
// A text's cache, open to be read and changed between calls. It belongs to one tier.
struct Caches {
  int64_t context = 0;
  std::vector<LayerCache> layers;
  std::vector<std::unique_ptr<State>> states;  // by stage; what the calls work on
  bool changed = true;  // `layers` was changed by hand, so the states must be set from it
  bool behind =
      false;  // the calls changed the states, and keys and values in `layers` are older: see refresh()

  // `side` is k or v of `layer`.
  std::span<float> row(const LayerCache& layer, std::vector<float>& side, int64_t head,
                       int64_t position) const;
  std::span<const float> row(const LayerCache& layer, const std::vector<float>& side, int64_t head,
                             int64_t position) const;
};

// The largest magnitude of each value inside.
using Magnitudes = std::map<InnerName, double>;

struct StepResult {
  std::vector<float> logits;  // [tokens, vocab]; of a bundle that picks, where its head's values have names
  std::vector<int64_t> best;  // [tokens], of a bundle that picks: its own choice
  // Of a bundle that sees a text whole: the stream at the end [tokens, hidden], and what its head gives of it.
  std::vector<float> hidden, pooled, classes;
  // [tokens, width], in the model's own scale: what a residual scale does is undone. Those that the shards name,
  // with StepperOptions::taps.
  std::map<InnerName, std::vector<float>> inner;
  Magnitudes magnitudes;          // of the same, as they stand in the shard
  std::vector<InnerName> unused;  // those that bundle.json names, and that nothing in the functions uses
  std::optional<NumericFault> fault;
};

class Stepper {
 public:
  explicit Stepper(std::shared_ptr<const Bundle> bundle, const StepperOptions& options = {});

  const BundleInfo& info() const { return bundle_->info(); }
  const std::filesystem::path& path() const { return bundle_->path(); }
  int64_t first_layer() const { return first_layer_; }
  int64_t layers() const { return layers_; }
  const std::vector<CallShape>& shapes() const { return shapes_; }  // by context, then by tokens
  // The one of fewest tokens in the shortest tier that holds so many positions. Error when none does.
  const CallShape& shape_for(int64_t positions) const;

  Caches empty_caches(const CallShape& shape) const;
  // Runs tokens (at most shape.most_tokens) from `position` on. Fewer than `width` are padded; 0: than
  // shape.least_tokens.
  StepResult step(const CallShape& shape, std::span<const int32_t> ids, int64_t position, Caches& caches,
                  Padding padding = Padding::zeros, int64_t width = 0) const;
  // Brings keys and values in caches.layers up to date: calls leave them in their states, which are large.
  void refresh(Caches& caches) const;

 private:
  using Arrays = std::map<std::string, Array>;
  struct Pass {
    const CallShape& shape;
    std::span<const int32_t> ids;
    int64_t position, tokens, width;  // width: what the function takes, padding included
    Padding padding = Padding::zeros;

    bool noisy(int64_t column) const { return column >= tokens && padding == Padding::noise; }
    // The token that stands in a column.
    int64_t token(int64_t column) const {
      return column < tokens || padding != Padding::repeat ? column : tokens - 1;
    }
  };

  // The values of a stage's list that a function can give, and the names of those that it cannot.
  // What a stage hands to the next.
  struct Handed {
    Array stream, carried;
    Array normed, mixed;                      // to experts, and from them
    std::vector<std::vector<double>> shares;  // by token and choice: 0 for what was not chosen
  };
  struct TapList {
    std::vector<std::pair<Tap, InnerName>> used;
    std::vector<InnerName> unused;
  };

  const Predictor& predictor(size_t stage, const std::string& function) const;
  const TapList& taps_of(size_t stage, const std::string& function) const;
  Array input_for(const Role& role, const TensorInfo& info, const Pass& pass, const Handed& handed,
                  const Caches& caches) const;
  Array embedded(const Pass& pass) const;
  Array mask_for(const Reach& reach, const Pass& pass) const;
  Array pool_for(const Pass& pass) const;
  Array rotation(const RopeTable& rope, bool cosine, const Pass& pass) const;
  LayerCache& layer_of(const Role& role, size_t index, Caches& caches) const;
  const LayerCache& layer_of(const Role& role, size_t index, const Caches& caches) const;
  Prediction run_stage(size_t stage, const Pass& pass, Handed& handed, Caches& caches, StepResult& out) const;
  // stepper_experts.cpp
  void take_routes(size_t stage, const StageFunction& function, const Prediction& result, const Pass& pass,
                   Handed& handed, StepResult& out) const;
  void run_experts(size_t stage, const Pass& pass, Handed& handed, StepResult& out) const;
  void call_experts(size_t stage, const StageFunction& function, const Pass& pass,
                    std::span<const int64_t> tokens, Handed& handed, StepResult& out) const;
  Prediction predict(size_t stage, const std::string& function, const Pass& pass, const Arrays& inputs,
                     State* state) const;
  void keep_outputs(const StageFunction& function, const Prediction& result, const Pass& pass,
                    Caches& caches) const;
  void take_logits(const StageFunction& function, size_t stage, const Prediction& result, const Pass& pass,
                   StepResult& out) const;
  void take_best(const StageFunction& function, const Prediction& result, const Pass& pass,
                 std::vector<float>& best_value, StepResult& out) const;
  void take_text(const StageFunction& function, const Prediction& result, const Pass& pass,
                 StepResult& out) const;
  void take_inner(size_t stage, const std::string& function, const Prediction& result, const Pass& pass,
                  StepResult& out) const;
  void take_memory(const StageFunction& function, const Pass& pass, const Caches& caches,
                   StepResult& out) const;
  void set_states(size_t stage, const StageFunction& function, Caches& caches) const;
  void get_states(size_t stage, const StageFunction& function, Caches& caches, bool recurrent) const;

  std::shared_ptr<const Bundle> bundle_;
  StepperOptions options_;
  std::vector<CallShape> shapes_;
  int64_t first_layer_ = 0, layers_ = 0;
  using FunctionKey = std::pair<size_t, std::string>;  // stage, function
  mutable std::map<FunctionKey, std::unique_ptr<Predictor>> predictors_;
  mutable std::map<FunctionKey, TapList> taps_;
};

}  // namespace anemone
