// Bundle: a converted model, opened: immutable, shared by its sessions. It owns the packages, their
// predictors and the threads.
//     auto bundle = Bundle::open("bundle", {});
//     Session session(bundle);
//     std::vector<float> logits = session.forward(ids);               // [tokens, vocab]
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "base/mapped_file.h"
#include "mil/constant.h"
#include "predict/backend.h"
#include "runtime/bundle_info.h"

namespace anemone {

// Looks on while sessions run: what goes into a stage's functions and what comes out.
struct BundleWatch {
  // Values inside a function that its calls give beside the outputs; empty: none.
  std::function<std::vector<std::string>(size_t stage, const std::string& function)> taps;
  std::function<void(size_t stage, const std::string& function, const std::map<std::string, Array>& inputs,
                     const Prediction& result)>
      seen;
};

class Bundle {
 public:
  // Error when a file of the bundle is missing or has another size than bundle.json says.
  static std::shared_ptr<const Bundle> open(const std::filesystem::path& path, const PredictOptions& options,
                                            BundleWatch watch = {});

  const BundleInfo& info() const { return info_; }
  const std::filesystem::path& path() const { return path_; }
  // The predictor of one function of one stage; made when first asked for.
  const Predictor& predictor(size_t stage, const std::string& function) const;
  // Row `id` of the embedding, scaled, as the first stage takes it.
  void embed(int64_t id, float* out) const;
  // Compiled lengths, ascending.
  const std::vector<int64_t>& tiers() const { return tiers_; }
  // The most tokens that one call takes.
  int64_t most_tokens() const;
  // Bytes of weights and of the embedding, mapped from files.
  uint64_t weight_bytes() const;
  // Working memory of the predictors made so far.
  uint64_t arena_bytes() const;
  Arithmetic arithmetic() const { return backend_->arithmetic(); }

 private:
  // Rows of the embedding inside a head's weights.
  struct Rows {
    Blob data, scales;
    int64_t first = 0, count = 0;
  };

  void open_embedding();
  void open_parts();
  void read_part(int64_t id, float* out) const;

  std::filesystem::path path_;
  BundleInfo info_;
  BundleWatch watch_;
  std::shared_ptr<const Backend> backend_;
  std::vector<int64_t> tiers_;
  std::shared_ptr<const MappedFile> embedding_, embedding_scales_;
  std::vector<Rows> parts_;                               // instead of both
  std::vector<std::shared_ptr<const Package>> packages_;  // by stage
  mutable std::mutex mutex_;
  mutable std::map<std::pair<size_t, std::string>, std::unique_ptr<Predictor>> predictors_;
};

}  // namespace anemone
