// Bundle: a converted model, opened: immutable, shared by its sessions. It owns the packages, their
// predictors and the threads.
//     auto bundle = Bundle::open("bundle", cpu_backend({}));
//     Session session(bundle);
//     std::vector<float> logits = session.forward(ids);               // [tokens, vocab]
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "bundle/bundle_info.h"
#include "bundle/embedding.h"
#include "package/package_file.h"
#include "predict/backend.h"

namespace anemone {

// Looks on while sessions run.
struct BundleWatch {
  // Values inside a function that its calls give beside the outputs; empty: none.
  std::function<std::vector<std::string>(size_t stage, const std::string& function)> taps;
  // Behind every run of a call; `tokens` of its columns are real.
  std::function<void(size_t stage, const std::string& function, const Call& call, int64_t tokens)> seen;
};

class Bundle {
 public:
  // Error when a file of the bundle is missing or has another size than bundle.json says. `variant`: which of the
  // bundle's to run; empty: the one that the backend remembers as the best on this machine, else the first.
  static std::shared_ptr<const Bundle> open(const std::filesystem::path& path,
                                            std::shared_ptr<const Backend> backend, BundleWatch watch = {},
                                            const std::string& variant = "");

  // Of the variant that runs.
  const BundleInfo& info() const { return info_; }
  // With every variant that there is.
  const BundleInfo& all() const { return all_; }
  const std::filesystem::path& path() const { return path_; }
  const Backend& backend() const { return *backend_; }
  const EmbeddingReader& embedding() const { return *embedding_; }
  // All functions of a stage, decoded when first asked for. Predictors need no more than their own.
  const Package& package(size_t stage) const { return *packages_[stage]->whole(); }
  // The predictor of one function of one stage; made when first asked for. That can take minutes, in which only those
  // wait who ask for the same one.
  const Predictor& predictor(size_t stage, const std::string& function) const;
  // Makes those of every function now.
  void load_all() const;
  // Tells the watch of a run.
  void saw(size_t stage, const std::string& function, const Call& call, int64_t tokens) const;
  // Compiled lengths, ascending.
  const std::vector<int64_t>& tiers() const { return tiers_; }
  // The functions of the first stage: what one call can take.
  const std::vector<StageFunction>& functions() const { return info_.stages.front().functions; }
  // The function of a stage for so many columns over that context (0: whatever it is); Error when there is none.
  const StageFunction& function(size_t stage, int64_t width, int64_t context) const;
  // What a call of one of functions() with so many columns costs: milliseconds where the backend remembers them of
  // every function, else calls of a few tokens, by reading the weights and arithmetic that grows with the width.
  double cost(const StageFunction& function, int64_t width) const;
  // The most tokens that one call takes.
  int64_t most_tokens() const;
  // Bytes of weights and of the embedding, mapped from files.
  uint64_t weight_bytes() const;
  // Maps the weights, all but those of experts, before a call needs them, up to half of the machine's memory. Beside
  // other work, on a thread of its own. Threads that call it together share the work; a later call does nothing.
  void fetch_weights() const;
  uint64_t fetched_bytes() const { return fetched_; }
  // Working memory of the predictors made so far.
  uint64_t working_bytes() const;

 private:
  struct Slot {
    std::mutex opening;
    std::unique_ptr<Predictor> predictor;         // of who holds `opening`
    std::atomic<const Predictor*> made{nullptr};  // the same, for all
  };

  void take_remembered(const Remembered& known);

  std::filesystem::path path_;
  BundleInfo all_, info_;
  std::shared_ptr<const Backend> backend_;
  BundleWatch watch_;
  std::vector<int64_t> tiers_;
  std::map<std::string, double> cost_;  // of a call through the layers, by the function of the first stage
  std::unique_ptr<const EmbeddingReader> embedding_;
  std::vector<std::shared_ptr<const PackageFile>> packages_;  // by stage
  mutable std::atomic<uint64_t> fetched_{0};                  // bytes
  mutable std::atomic<uint64_t> fetching_{0};                 // pieces that a thread has taken
  mutable std::mutex mutex_;                                  // of slots_, which stay where they are
  mutable std::map<std::pair<size_t, std::string>, Slot> slots_;
};

}  // namespace anemone
