#include "coreml/coreml_state.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "base/shape.h"
#include "coreml/copy_view.h"
#include "coreml/coreml_call.h"
#include "predict/predictor.h"

namespace anemone {
namespace {

// The elements of a state, as they lie inside of the handler and there alone.
template <class Use>
void with_elements(MLState* state, const std::string& name, const Use& use) {
  const Use* held = &use;
  std::exception_ptr failed;
  std::exception_ptr* fault = &failed;
  @autoreleasepool {
    [state getMultiArrayForStateNamed:ns_string(name)
                              handler:^(MLMultiArray* array) {
                                const std::vector<int64_t> shape = cpp_numbers(array.shape);
                                const DType dtype = dtype_of(array.dataType);
                                [array getMutableBytesWithHandler:^(void* bytes, NSInteger,
                                                                    NSArray<NSNumber*>* strides) {
                                  try {  // no exception goes through Core ML
                                    (*held)(TensorView{dtype, shape, cpp_numbers(strides), bytes});
                                  } catch (...) {
                                    *fault = std::current_exception();
                                  }
                                }];
                              }];
  }
  if (failed) std::rethrow_exception(failed);
}

// Some numbers at the beginning of every state, to see whether a function reads them.
void mark_states(const Signature& signature, MLState* state) {
  for (const TensorInfo& info : signature.states)
    with_elements(state, info.name, [](const TensorView& view) {
      Array marks(DType::fp32, view.shape);
      const std::span<float> values = marks.values<float>();
      for (size_t i = 0; i < std::min<size_t>(values.size(), 4096); ++i)
        values[i] = static_cast<float>(static_cast<int>(i % 7) - 3) * 0.25f;
      copy_view(TensorView::of(marks), view);
    });
}

// What a function gives for zeros on a marked state, and what is in the state then.
std::vector<float> probe(LoadedModel& model, MLState* state) {
  mark_states(model.signature(), state);
  CoreMlCall call(model.shared_from_this(), model.smallest_shapes());
  for (const TensorInfo& input : model.signature().inputs) call.input(input.name);
  call.predict(state);
  std::vector<float> out;
  const auto add = [&](const TensorView& view) {
    const std::vector<float> values = view.to_float();
    out.insert(out.end(), values.begin(), values.end());
  };
  for (const std::string& name : call.outputs())
    if (const TensorView view = call.output(name); view.dtype != DType::string) add(view);
  for (const TensorInfo& info : model.signature().states) with_elements(state, info.name, add);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool same_states(const Signature& a, const Signature& b) {
  return a.states.size() == b.states.size() && std::ranges::all_of(a.states, [&](const TensorInfo& info) {
           return std::ranges::any_of(b.states, [&](const TensorInfo& other) {
             return other.name == info.name && other.shape == info.shape && other.dtype == info.dtype;
           });
         });
}

}  // namespace

void copy_states(const Signature& signature, MLState* from, MLState* to) {
  for (const TensorInfo& info : signature.states)
    with_elements(from, info.name, [&](const TensorView& source) {
      with_elements(to, info.name, [&](const TensorView& target) { copy_view(source, target); });
    });
}

bool LoadedModel::shares_states_of(LoadedModel& other) {
  std::lock_guard lock(sharing_mutex_);
  const auto known = sharing_.find(other.number_);
  if (known != sharing_.end()) return known->second;
  if (!same_states(signature_, other.signature_))
    throw Error("the state was made for another function").found(other.place_).expected(place_);
  bool shares = false;
  @autoreleasepool {
    try {
      shares = same_bits(probe(*this, [other.model_ newState]), probe(*this, [model_ newState]));
    } catch (
        const Error&) {  // refused: the state of the model's own works, or the next prediction says why not
    }
  }
  if (!shares)
    tally_->remark("functions do not share their states here: they are copied from one to the other");
  sharing_.emplace(other.number_, shares);
  return shares;
}

CoreMlState::CoreMlState(std::shared_ptr<LoadedModel> model) : model_(std::move(model)) {
  @autoreleasepool {
    held_ = [model_->model() newState];
  }
  if (!held_) throw errorf("Core ML makes no state for the function '{}'", model_->signature().function);
}

const TensorInfo& CoreMlState::find(const std::string& name) const {
  std::string known;
  for (const TensorInfo& info : model_->signature().states) {
    if (info.name == name) return info;
    known += (known.empty() ? "" : ", ") + info.name;
  }
  throw errorf("there is no state '{}'", name).expected(known.empty() ? "a function without states" : known);
}

std::vector<std::string> CoreMlState::names() const {
  std::vector<std::string> out;
  for (const TensorInfo& info : model_->signature().states) out.push_back(info.name);
  std::ranges::sort(out);
  return out;
}

Array CoreMlState::get(const std::string& name) const {
  std::lock_guard lock(mutex_);
  find(name);
  Array out;
  with_elements(held_, name, [&](const TensorView& view) { out = view.copy(); });
  return out;
}

void CoreMlState::set(const std::string& name, const Array& value) {
  std::lock_guard lock(mutex_);
  check_shape("state", find(name), value.shape());
  with_elements(held_, name, [&](const TensorView& view) { copy_view(TensorView::of(value), view); });
}

std::unique_ptr<State> CoreMlState::clone() const {
  std::lock_guard lock(mutex_);
  auto out = std::make_unique<CoreMlState>(model_);
  copy_states(model_->signature(), held_, out->held_);
  return out;
}

uint64_t CoreMlState::bytes() const {
  uint64_t sum = 0;
  for (const TensorInfo& info : model_->signature().states)
    sum += packed_bytes(element_count(info.shape), dtype_bits(info.dtype));
  return sum;
}

void CoreMlState::use(LoadedModel& model, const std::function<void(MLState* held)>& predict) {
  std::lock_guard lock(mutex_);
  if (&model != model_.get() && !model.shares_states_of(*model_)) {
    @autoreleasepool {
      MLState* fresh = [model.model() newState];
      copy_states(model.signature(), held_, fresh);
      held_ = fresh;
    }
    model_ = model.shared_from_this();
    ++model.tally().copied_states;
  }
  predict(held_);
}

}  // namespace anemone
