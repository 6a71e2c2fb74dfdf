// CoreMlCall: a Call of Core ML. Its inputs and outputs are DeviceArrays; outputs of one call are inputs of the next
// as they are. Decoding makes no new object: what Core ML needs is made when the call is, or in its first two runs.
//     CoreMlCall call(model, {});
//     call.input("x");                                     // zeros, for the caller to fill
//     call.run(state.get());
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coreml/device_array.h"
#include "coreml/loaded_model.h"

@class AnemoneInputs;

namespace anemone {

class CoreMlCall : public Call {
 public:
  CoreMlCall(std::shared_ptr<LoadedModel> model, const InputShapes& shapes);
  ~CoreMlCall() override;
  CoreMlCall(const CoreMlCall&) = delete;
  CoreMlCall& operator=(const CoreMlCall&) = delete;

  TensorView input(const std::string& name) override;
  void lend(const std::string& name, const TensorView& view) override;
  void chain(const std::string& name, Call& from, const std::string& output) override;
  void share(const std::string& name, Call& owner, const std::string& input, const TensorView& view) override;
  void run(State* state) override;
  std::vector<std::string> outputs() const override;
  TensorView output(const std::string& name) const override;
  std::vector<std::string> labels(const std::string& name) const override;
  const std::optional<NumericFault>& fault() const override { return fault_; }
  void rest() override;
  uint64_t copied_bytes() const override { return copied_bytes_; }

  // One prediction on a state of Core ML's; nil: the function has none.
  void predict(MLState* state);
  LoadedModel& model() const { return *model_; }

 private:
  struct Input {
    enum class From : uint8_t { nowhere, own, lent, passed };
    From from = From::nowhere;
    std::vector<int64_t> shape;
    DType dtype = DType::none;
    std::unique_ptr<DeviceArray> own;
    DeviceArray* passed = nullptr;  // another call's, while it is passed on
    TensorView lent;
  };
  struct Output {
    NSString* name = nil;
    std::unique_ptr<DeviceArray> backing;  // proposed to Core ML; null: nothing is
    MLFeatureValue* value = nil;           // what the last run gave
    MLMultiArray* array = nil;             // in it; nil: a classifier's
    DType dtype = DType::none;             // of the array
    bool in_backing = false;               // it lies there
    mutable std::vector<std::byte> copy;   // of what does not, once it was read
    mutable bool copied = false;
    mutable std::vector<int64_t> shape;
  };

  size_t input_index(const std::string& name) const;
  size_t output_index(const std::string& name) const;
  DeviceArray& own_array(size_t input);
  void bind(size_t input);
  void bind_names();
  void propose();
  // What Core ML gives for the inputs as they are; nil and an error where it fails.
  id<MLFeatureProvider> ask(MLState* state, bool proposing, NSError* __strong& problem);
  // Empty, or what is wrong with it.
  std::string take(id<MLFeatureProvider> result, bool proposed);
  void settle(size_t output, bool taken);
  void read_output(const Output& out) const;
  void make_backing(size_t output, const std::vector<int64_t>& shape, DType dtype);

  std::shared_ptr<LoadedModel> model_;
  std::vector<Input> inputs_;    // by the signature's
  std::vector<Output> outputs_;  // likewise
  AnemoneInputs* provider_ = nil;
  MLPredictionOptions* proposing_ = nil;  // with the backings
  MLPredictionOptions* plain_ = nil;
  bool proposal_changed_ = true;
  bool ran_ = false;
  std::optional<NumericFault> fault_;
  mutable uint64_t copied_bytes_ = 0;
};

}  // namespace anemone
