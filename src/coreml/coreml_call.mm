#include "coreml/coreml_call.h"

#include <pthread/qos.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/shape.h"
#include "coreml/copy_view.h"
#include "coreml/coreml_state.h"
#include "coreml/inputs.h"
#include "coreml/waiting.h"
#include "predict/prediction_error.h"
#include "predict/predictor.h"
#include "predict/timeline.h"

namespace anemone {
namespace {

// What an input of a declared type is for Core ML.
DType array_dtype(DType declared) {
  if (declared == DType::fp16 || declared == DType::fp32 || declared == DType::fp64) return declared;
  return dtype_is_float(declared) ? DType::fp32 : DType::int32;
}

// Decoding at a low quality of service takes half as long again.
void raise_quality() {
  thread_local bool raised = false;
  if (!raised) pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0);
  raised = true;
}

}  // namespace

CoreMlCall::CoreMlCall(std::shared_ptr<LoadedModel> model, const InputShapes& shapes)
    : model_(std::move(model)) {
  const Signature& signature = model_->signature();
  for (const auto& [name, shape] : shapes) find_input(signature, name);
  for (const TensorInfo& info : signature.inputs) {
    Input in;
    in.dtype = array_dtype(info.dtype);
    if (const auto it = shapes.find(info.name); it != shapes.end()) {
      check_shape("input", info, it->second);
      in.shape = it->second;
    } else if (std::ranges::count(info.shape, -1) == 0) {
      in.shape = info.shape;
    } else if (!info.optional) {
      throw errorf("the call does not say the shape of the flexible input '{}'", info.name)
          .expected(describe_inputs(signature));
    }
    if (in.shape.empty()) in.shape = {1};
    inputs_.push_back(std::move(in));
  }
  @autoreleasepool {
    provider_ = [AnemoneInputs new];
    plain_ = [MLPredictionOptions new];
    proposing_ = [MLPredictionOptions new];
    provider_->values.resize(inputs_.size());
    for (const TensorInfo& info : signature.inputs) provider_->keys.push_back(ns_string(info.name));
    outputs_.resize(signature.outputs.size());
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].name = ns_string(signature.outputs[i].name);
  }
}

CoreMlCall::~CoreMlCall() {
  uint64_t held = 0;
  for (const Input& in : inputs_) held += in.own ? in.own->bytes() : 0;
  for (const Output& out : outputs_) held += out.backing ? out.backing->bytes() : 0;
  model_->tally().memory -= held;
}

size_t CoreMlCall::input_index(const std::string& name) const {
  return static_cast<size_t>(&find_input(model_->signature(), name) - model_->signature().inputs.data());
}

size_t CoreMlCall::output_index(const std::string& name) const {
  if (!ran_) throw errorf("there is no output '{}': the call has not been run", name);
  const auto& all = model_->signature().outputs;
  std::string known;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
    known += (known.empty() ? "" : ", ") + all[i].name;
  }
  throw errorf("there is no output '{}'", name).expected(known);
}

DeviceArray& CoreMlCall::own_array(size_t input) {
  Input& in = inputs_[input];
  if (!in.own) {
    in.own = std::make_unique<DeviceArray>(in.dtype, in.shape, model_->options().surfaces);
    model_->tally().memory += in.own->bytes();
  }
  return *in.own;
}

TensorView CoreMlCall::input(const std::string& name) {
  const size_t i = input_index(name);
  const TensorView& view = own_array(i).lock();
  if (inputs_[i].from != Input::From::own) clear_view(view);
  inputs_[i].from = Input::From::own;
  inputs_[i].passed = nullptr;
  return view;
}

void CoreMlCall::lend(const std::string& name, const TensorView& view) {
  const size_t i = input_index(name);
  Input& in = inputs_[i];
  check_shape("input", model_->signature().inputs[i], view.shape);
  if (view.shape != in.shape)
    throw errorf("the input '{}' has another shape than the call was made for", name)
        .found(shape_text(view.shape))
        .expected(shape_text(in.shape));
  if (view.strides.size() != view.shape.size() || (!view.data && view.size() > 0))
    throw errorf("what is lent as the input '{}' is no view of elements", name)
        .found(fmt::format("{} strides for {}", view.strides.size(), shape_text(view.shape)));
  in.from = Input::From::lent;
  in.lent = view;
  in.passed = nullptr;
}

// The array itself goes on, where Core ML takes it for an output again afterwards, or made it itself.
void CoreMlCall::chain(const std::string& name, Call& from, const std::string& output) {
  const auto* other = dynamic_cast<CoreMlCall*>(&from);
  if (!other) return lend(name, from.output(output));
  const size_t i = input_index(name), o = other->output_index(output);
  Input& in = inputs_[i];
  const Output& out = other->outputs_[o];
  const bool fits = out.array && out.shape == in.shape && out.dtype == in.dtype;
  if (!fits || (out.in_backing && other->model_->backing(o) == Backing::apart))
    return lend(name, from.output(output));
  in.from = Input::From::passed;
  in.passed = out.in_backing ? out.backing.get() : nullptr;
  provider_->values[i] = out.in_backing ? out.backing->value() : out.value;
}

void CoreMlCall::share(const std::string& name, Call& owner, const std::string& input,
                       const TensorView& view) {
  auto* other = dynamic_cast<CoreMlCall*>(&owner);
  const size_t i = input_index(name);
  Input& in = inputs_[i];
  if (!other || other == this) return lend(name, view);
  const Input& theirs = other->inputs_[other->input_index(input)];
  if (theirs.from != Input::From::own || theirs.shape != in.shape || theirs.dtype != in.dtype)
    return lend(name, view);
  in.from = Input::From::passed;
  in.passed = theirs.own.get();
  provider_->values[i] = theirs.own->value();
}

// The value of an input for the prediction that comes.
void CoreMlCall::bind(size_t input) {
  Input& in = inputs_[input];
  const TensorInfo& info = model_->signature().inputs[input];
  switch (in.from) {
    case Input::From::nowhere:
      if (!info.optional) throw missing_input(model_->signature(), info.name);
      provider_->values[input] = nil;
      return;
    case Input::From::lent: {
      DeviceArray& own = own_array(input);
      const TensorView& to = own.lock();
      if (dtype_is_float(info.dtype) || in.lent.dtype == to.dtype) {
        copy_view(in.lent, to);
      } else {
        std::vector<int32_t> values(static_cast<size_t>(to.size()));
        take_elements("input", info, in.lent, values.data());
        copy_view(TensorView::row_major(DType::int32, to.shape, values.data()), to);
      }
      copied_bytes_ += static_cast<uint64_t>(to.size() * dtype_bits(to.dtype) / 8);
      [[fallthrough]];
    }
    case Input::From::own:
      in.own->unlock();
      in.own->was_input = true;
      provider_->values[input] = in.own->value();
      return;
    case Input::From::passed:
      if (!in.passed) return;
      in.passed->unlock();
      in.passed->was_input = true;
      return;
  }
}

// The set of names stays while the same inputs have a value.
void CoreMlCall::bind_names() {
  NSUInteger given = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) given += provider_->values[i] != nil;
  bool same = provider_->names && provider_->names.count == given;
  for (size_t i = 0; same && given < inputs_.size() && i < inputs_.size(); ++i)
    same = (provider_->values[i] != nil) == [provider_->names containsObject:provider_->keys[i]];
  if (same) return;
  NSMutableArray<NSString*>* names = [NSMutableArray arrayWithCapacity:given];
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (provider_->values[i]) [names addObject:provider_->keys[i]];
  provider_->names = [NSSet setWithArray:names];
}

void CoreMlCall::make_backing(size_t output, const std::vector<int64_t>& shape, DType dtype) {
  Output& out = outputs_[output];
  if (out.backing) model_->tally().memory -= out.backing->bytes();
  out.backing = std::make_unique<DeviceArray>(dtype, shape, model_->options().surfaces);
  model_->tally().memory += out.backing->bytes();
  out.shape = shape;
  out.dtype = dtype;
  proposal_changed_ = true;
}

// A new call of a function whose buffers were taken before proposes its own from the start.
void CoreMlCall::propose() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Backing known = model_->backing(i);
    Output& out = outputs_[i];
    const TensorInfo& info = model_->signature().outputs[i];
    if (known == Backing::declined && out.backing) {
      model_->tally().memory -= out.backing->bytes();
      out.backing.reset();
      proposal_changed_ = true;
    }
    if ((known == Backing::taken || known == Backing::apart) && !out.backing && !info.shape.empty() &&
        std::ranges::count(info.shape, -1) == 0)
      make_backing(i, info.shape, array_dtype(info.dtype));
    if (out.backing) out.backing->unlock();
  }
  if (!proposal_changed_) return;
  NSMutableDictionary<NSString*, id>* backings = [NSMutableDictionary new];
  for (const Output& out : outputs_)
    if (out.backing) [backings setObject:out.backing->array() forKey:out.name];
  proposing_.outputBackings = backings;
  proposal_changed_ = false;
}

id<MLFeatureProvider> CoreMlCall::ask(MLState* state, bool proposing, NSError* __strong& problem) {
  MLPredictionOptions* options = proposing ? proposing_ : plain_;
  ++model_->tally().predictions;
  const bool overlaps = !state && model_->options().in_flight > 1;
  std::optional<InFlight::Turn> turn;
  std::unique_lock one_at_a_time(model_->mutex(), std::defer_lock);
  if (overlaps)
    turn.emplace(model_->tally().places);
  else
    one_at_a_time.lock();
  const TimedSlice slice(model_->options().timeline.get(), Timeline::Level::step, "prediction",
                         model_->place());
  if (overlaps) {
    Waiting<id<MLFeatureProvider>> given;
    [model_->model() predictionFromFeatures:provider_ options:options completionHandler:given.handler()];
    return given.wait([](double) { return true; }, problem);
  }
  NSError* error = nil;
  id<MLFeatureProvider> out = nil;
  if (state)
    out = [model_->model() predictionFromFeatures:provider_ usingState:state options:options error:&error];
  else
    out = [model_->model() predictionFromFeatures:provider_ options:options error:&error];
  problem = error;
  return out;
}

void CoreMlCall::predict(MLState* state) {
  ran_ = false;
  raise_quality();
  const TimedSlice slice(model_->options().timeline.get(), Timeline::Level::call, "call",
                         model_->signature().function);
  std::optional<Error> failed;
  for (size_t i = 0; i < inputs_.size(); ++i) bind(i);
  @autoreleasepool {  // nothing is thrown in here: the pool would stay
    bind_names();
    propose();
    const bool proposing =
        std::ranges::any_of(outputs_, [](const Output& out) { return out.backing != nullptr; });
    NSError* problem = nil;
    id<MLFeatureProvider> result = ask(state, proposing, problem);
    bool proposed = proposing;
    if (!result && proposing) {  // the buffers may be why: once more without
      NSError* again = nil;
      result = ask(state, false, again);
      if (result) ++model_->tally().retried;
      proposed = false;
      if (result)
        for (size_t i = 0; i < outputs_.size(); ++i)
          if (outputs_[i].backing) settle(i, false);
    }
    if (!result)
      failed = core_ml_error("a prediction failed", problem);
    else if (const std::string fault = take(result, proposed); !fault.empty())
      failed = Error(fault);
  }
  if (failed) throw PredictionError(failed->at(model_->place()));
  ran_ = true;
}

// A buffer was proposed and Core ML wrote into it, or not.
void CoreMlCall::settle(size_t output, bool taken) {
  Output& out = outputs_[output];
  const Backing before = model_->backing(output);
  if (taken) {
    if (before == Backing::untried) model_->set_backing(output, Backing::taken);
    return;
  }
  if (out.backing->was_input && before != Backing::apart) {
    model_->set_backing(output, Backing::apart);
    model_->tally().remark("outputs that were passed on as inputs are not written to again: they are copied");
    make_backing(output, std::vector(out.shape), out.dtype);
    return;
  }
  model_->set_backing(output, Backing::declined);
}

std::string CoreMlCall::take(id<MLFeatureProvider> result, bool proposed) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Output& out = outputs_[i];
    out.value = [result featureValueForName:out.name];
    if (!out.value) return fmt::format("Core ML gave no output '{}'", model_->signature().outputs[i].name);
    out.copied = false;
    out.array = out.value.multiArrayValue;
    out.in_backing = out.backing && out.array && out.backing->is(out.array);
    if (!out.array) continue;
    if (out.in_backing) {
      settle(i, true);
      continue;
    }
    out.shape = cpp_numbers(out.array.shape);
    out.dtype = dtype_of(out.array.dataType);
    if (out.dtype == DType::none)
      return fmt::format("the output '{}' is of a type that is not known here",
                         model_->signature().outputs[i].name);
    if (proposed && out.backing)
      settle(i, false);
    else if (model_->backing(i) == Backing::untried && !out.backing)
      make_backing(i, out.shape, out.dtype);  // for the next run
  }
  return "";
}

void CoreMlCall::run(State* state) {
  if (!state) {
    if (!model_->signature().states.empty())
      throw errorf("the function '{}' needs a state", model_->signature().function);
    return predict(nil);
  }
  auto* own = dynamic_cast<CoreMlState*>(state);
  if (!own) throw Error("the state was made by another backend").expected("one of Core ML");
  if (model_->signature().states.empty()) return predict(nil);
  own->use(*model_, [&](MLState* held) { predict(held); });
}

std::vector<std::string> CoreMlCall::outputs() const {
  std::vector<std::string> out;
  if (ran_)
    for (const TensorInfo& info : model_->signature().outputs) out.push_back(info.name);
  return out;
}

TensorView CoreMlCall::output(const std::string& name) const {
  const Output& out = outputs_[output_index(name)];
  if (out.in_backing) return out.backing->lock();
  if (!out.array && out.value.type == MLFeatureTypeString)
    return TensorView::row_major(DType::string, {1}, nullptr);
  if (!out.copied) read_output(out);
  return TensorView::row_major(out.array ? out.dtype : DType::fp32, out.shape, out.copy.data());
}

// What Core ML made itself has strides of its own, and an address that holds inside of the block alone. The
// probabilities of a classifier are a dictionary.
void CoreMlCall::read_output(const Output& out) const {
  if (!out.array) out.shape = {static_cast<int64_t>(model_->classes().size())};
  const DType dtype = out.array ? out.dtype : DType::fp32;
  out.copy.resize(static_cast<size_t>(element_count(out.shape) * dtype_bits(dtype) / 8));
  const TensorView to = TensorView::row_major(dtype, out.shape, out.copy.data());
  @autoreleasepool {
    if (out.array) {
      const std::vector<int64_t> strides = cpp_numbers(out.array.strides);
      [out.array getBytesWithHandler:^(const void* bytes, NSInteger) {
        copy_view({dtype, to.shape, strides, const_cast<void*>(bytes)}, to);
      }];
    } else {
      NSDictionary<id, NSNumber*>* found = out.value.dictionaryValue;
      for (size_t i = 0; i < model_->classes().size(); ++i)
        to.values<float>()[i] =
            static_cast<float>([found objectForKey:ns_string(model_->classes()[i])].doubleValue);
    }
  }
  copied_bytes_ += out.copy.size();
  out.copied = true;
}

std::vector<std::string> CoreMlCall::labels(const std::string& name) const {
  const Output& out = outputs_[output_index(name)];
  if (out.array) return {};
  if (out.value.type != MLFeatureTypeString) return model_->classes();
  @autoreleasepool {
    return {cpp_string(out.value.stringValue)};
  }
}

void CoreMlCall::rest() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].own) inputs_[i].own->unlock();
    if (inputs_[i].from != Input::From::passed) continue;
    inputs_[i].from = Input::From::nowhere;
    provider_->values[i] = nil;
  }
  for (Output& out : outputs_) {
    if (out.backing) out.backing->unlock();
    if (out.in_backing) continue;
    out.value = nil;  // Core ML's own arrays go back
    out.array = nil;
  }
  ran_ = false;
}

}  // namespace anemone
