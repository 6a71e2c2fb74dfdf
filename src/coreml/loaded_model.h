// LoadedModel: one function of a package, compiled, loaded and checked against what the package says. Calls, states and
// predictors share it.
//     auto model = LoadedModel::open(package, "main", options, tally);
//     std::unique_lock lock(model->mutex());                 // synchronous predictions, one at a time
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "anemone/predictor.h"
#include "base/staged.h"
#include "coreml/apple.h"
#include "coreml/coreml_backend.h"
#include "coreml/in_flight.h"

namespace anemone {

// What became of the buffers that were proposed for an output.
enum class Backing : uint8_t {
  untried,
  taken,     // Core ML writes into them, also after they were inputs of the next stage
  apart,     // it does, unless they were inputs: what is passed on is copied
  declined,  // it makes arrays of its own, which are copied when they are read
};

// What all models of a backend have together: what they count, for --stats, and the predictions under way.
struct CoreMlTally {
  explicit CoreMlTally(int in_flight = 1) : places(std::max(in_flight, 1)) {}

  InFlight places;  // for asynchronous predictions: the device is one
  std::atomic<int64_t> compiled{0}, loaded{0}, predictions{0}, retried{0}, copied_states{0};
  std::atomic<int64_t> compile_ms{0}, load_ms{0}, warm_ms{0};
  std::atomic<int64_t> outputs{0}, declined{0}, apart{0};  // of functions, by what became of their buffers
  std::atomic<uint64_t> memory{0};                         // of arrays that calls hold
  std::mutex
      compiling;     // one package after the other: several functions of one would compile it several times
  std::mutex mutex;  // of the remarks
  std::vector<std::string> remarks;

  void remark(const std::string& text);  // once each
};

class LoadedModel : public std::enable_shared_from_this<LoadedModel> {
 public:
  static std::shared_ptr<LoadedModel> open(const std::shared_ptr<const Package>& package,
                                           const std::string& function, const CoreMlOptions& options,
                                           std::shared_ptr<CoreMlTally> tally);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const Signature& signature() const { return signature_; }
  const CoreMlOptions& options() const { return options_; }
  MLModel* const& model() const { return model_; }                     // by reference: see DeviceArray
  const std::filesystem::path& compiled() const { return compiled_; }  // where it lies
  CoreMlTally& tally() const { return *tally_; }
  std::mutex& mutex() { return mutex_; }
  // "layers_00.mlpackage: function 'main'".
  const std::string& place() const { return place_; }
  // The classes of a classifier's probabilities, in their order.
  const std::vector<std::string>& classes() const { return classes_; }

  Backing backing(size_t output) const { return backings_[output]; }
  void set_backing(size_t output, Backing what);

  // Whether a state of the other model can be used with this one as it is. Found out when first asked: the two run on
  // the same state and must agree.
  bool shares_states_of(LoadedModel& other);
  // A shape for every input; the smallest one where they are flexible.
  InputShapes smallest_shapes() const;

 private:
  LoadedModel();
  std::filesystem::path compile(const Package& package);
  const std::filesystem::path& temporary_folder();
  std::filesystem::path run_compiler(const std::filesystem::path& source);
  void load(const Package& package);
  void check_description() const;
  void prewarm();
  void report(LoadStep::Phase phase, double seconds) const;

  const int64_t number_;  // no two have the same
  Signature signature_;
  CoreMlOptions options_;
  std::shared_ptr<CoreMlTally> tally_;
  std::string package_, place_;
  std::vector<std::string> classes_;
  std::filesystem::path compiled_;
  std::unique_ptr<StagedOutput> temporary_;  // a folder that ends with this, and with the process; null: none
  MLModel* model_ = nil;
  std::mutex mutex_;
  std::vector<std::atomic<Backing>> backings_;  // by output
  std::mutex sharing_mutex_;
  std::map<int64_t, bool> sharing_;  // by the number of the other model
};

}  // namespace anemone
