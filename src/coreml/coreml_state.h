// CoreMlState: a State of Core ML, made by one function of a package and used with all of them.
//     CoreMlState state(model);
//     state.use(*decode, [&](MLState* held) { call.predict(held); });
// One prediction at a time: use(), get() and set() wait for each other.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "coreml/loaded_model.h"

namespace anemone {

class CoreMlState : public State {
 public:
  explicit CoreMlState(std::shared_ptr<LoadedModel> model);

  std::vector<std::string> names() const override;
  Array get(const std::string& name) const override;
  void set(const std::string& name, const Array& value) override;
  std::unique_ptr<State> clone() const override;
  uint64_t bytes() const override;

  // Gives the state to a prediction of this model. Where its functions do not share states, what is in it is copied
  // into one of the model's own first, and stays there.
  void use(LoadedModel& model, const std::function<void(MLState* held)>& predict);

 private:
  const TensorInfo& find(const std::string& name) const;

  mutable std::mutex mutex_;
  std::shared_ptr<LoadedModel> model_;  // that made what is held
  MLState* held_ = nil;
};

// Copies every state from one to the other; both of functions with the same states.
void copy_states(const Signature& signature, MLState* from, MLState* to);

}  // namespace anemone
