// Host: runs a bundle by the rules of docs/bundle.md, so that what comes out of two bundles can be compared. It fills
// inputs by their roles and shares nothing with verify and the runtime's session but the opened bundle.
//     Host host(bundle, Arithmetic::fp32);
//     HostText text(host, {.context = 96});
//     Columns c = text.call({.width = 8, .padding = Padding::zeros}, ids, 0);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mutation/rng.h"
#include "runtime/bundle.h"

namespace anemone::mutation {

// What columns behind the last token hold: the contract allows all of it.
enum class Padding { zeros, repeated, rubbish };

class Host {
 public:
  // With `inner_logits`, calls of a bundle that picks give its logits, too.
  Host(const std::filesystem::path& bundle, Arithmetic arithmetic, bool inner_logits = false);

  const BundleInfo& info() const { return bundle_->info(); }
  const Bundle& bundle() const { return *bundle_; }

 private:
  std::shared_ptr<const Bundle> bundle_;
};

// What one call gives, for its real columns.
struct Columns {
  std::vector<std::vector<float>> logits;   // by column
  std::vector<int64_t> best;                // by column, of a bundle that picks
  std::vector<std::vector<float>> hidden;   // by column, of a bundle that sees a text whole
  std::vector<std::vector<float>> results;  // the text's vector, or classes by token or for the text
};

struct HostTextOptions {
  int64_t context = 0;    // the tier; 0: there is no cache
  int64_t positions = 0;  // that will be in use in all, for longrope
};

struct HostCall {
  int64_t width = 1;  // columns
  Padding padding = Padding::zeros;
  bool pair = false;  // the second half is a second text
};

class HostText {
 public:
  HostText(const Host& host, const HostTextOptions& options) : host_(host), options_(options) {}

  // Fills what is remembered with the same numbers for the same seed.
  void seed(uint64_t seed, int64_t width);
  Columns call(const HostCall& how, std::span<const int32_t> ids, int64_t position);
  // Goes on in another tier with rows 0 … rows-1.
  void move_to(int64_t context, int64_t rows, int64_t width);

 private:
  struct Pass;

  const BundleInfo& info() const { return host_.info(); }
  const StageFunction& function(size_t stage, int64_t width) const;
  State& state_of(size_t stage, const StageFunction& function);
  Array input_for(size_t stage, const Port& port, const TensorInfo& tensor, const Pass& pass,
                  const Array& stream, const Array& carried, const Array& mixed);
  Array stream_for(const Pass& pass) const;
  Array rotation_for(const RopeTable& rope, bool cosine, const Pass& pass) const;
  Array mask_for(const Reach& reach, const std::vector<int64_t>& shape, const Pass& pass) const;
  Array pool_for(const Pass& pass) const;
  void keep(size_t stage, const Port& port, const Array& rows, const Pass& pass);
  void take(size_t stage, const StageFunction& f, const Prediction& result, const Pass& pass, Columns& out,
            std::vector<float>& best) const;

  const Host& host_;
  HostTextOptions options_;
  std::map<size_t, std::unique_ptr<State>> states_;
  std::map<std::string, Array> kept_;  // by stage, role and layers: what the host keeps
};

}  // namespace anemone::mutation
