// The engine under the stand-in for Core ML that the Swift package is tested with: swift/Tests/StandIn/Engine/engine.h.
#include "../../swift/Tests/StandIn/Engine/engine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "anemone/predictor.h"

using namespace anemone;

struct stand_in_model {
  std::unique_ptr<Predictor> predictor;

  const std::vector<TensorInfo>& list(int kind) const {
    const Signature& s = predictor->signature();
    return kind == STAND_IN_INPUTS ? s.inputs : kind == STAND_IN_OUTPUTS ? s.outputs : s.states;
  }
  const TensorInfo& tensor(int kind, int index) const { return list(kind).at(static_cast<size_t>(index)); }
};

struct stand_in_state {
  std::unique_ptr<State> state;
};

struct stand_in_result {
  std::map<std::string, Array> outputs;  // fp32

  const Array* find(const char* name) const {
    const auto it = outputs.find(name);
    return it == outputs.end() ? nullptr : &it->second;
  }
};

namespace {

thread_local std::string error_text;

template <class Result, class Body>
Result guarded(Result failed, const Body& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    error_text = e.what();
    return failed;
  }
}

// Of a flexible size the least, as Core ML names it.
int64_t size_of(const TensorInfo& info, size_t axis) {
  if (!info.enumerated.empty()) return info.enumerated.front().at(axis);
  if (info.shape.at(axis) >= 0) return info.shape[axis];
  return axis < info.range.size() ? info.range[axis].first : 1;
}

Array floats(const std::vector<int64_t>& shape, const float* values) {
  Array out(DType::fp32, shape);
  std::copy_n(values, out.size(), out.values<float>().data());
  return out;
}

Array integers(const std::vector<int64_t>& shape, const float* values) {
  Array out(DType::int32, shape);
  std::transform(values, values + out.size(), out.values<int32_t>().data(),
                 [](float v) { return static_cast<int32_t>(v); });
  return out;
}

}  // namespace

const char* stand_in_error(void) { return error_text.c_str(); }

stand_in_model* stand_in_open(const char* package, const char* function) {
  return guarded<stand_in_model*>(nullptr, [&] {
    const auto opened = open_package(package);
    const size_t functions = signatures(*opened).size();
    if (function && functions == 1) throw Error("functionName is not supported for this model type");
    if (!function && functions > 1) throw Error("functionName must be set for a multifunction model");
    auto predictor =
        make_predictor(opened, function ? function : "", {.arithmetic = Arithmetic::fp16, .threads = 1});
    return new stand_in_model{std::move(predictor)};
  });
}
void stand_in_close(stand_in_model* model) { delete model; }

int stand_in_count(const stand_in_model* model, int kind) {
  return static_cast<int>(model->list(kind).size());
}
const char* stand_in_name(const stand_in_model* model, int kind, int index) {
  return model->tensor(kind, index).name.c_str();
}
int stand_in_is_int32(const stand_in_model* model, int kind, int index) {
  return dtype_is_float(model->tensor(kind, index).dtype) ? 0 : 1;
}
int stand_in_rank(const stand_in_model* model, int kind, int index) {
  return static_cast<int>(model->tensor(kind, index).shape.size());
}
int64_t stand_in_size(const stand_in_model* model, int kind, int index, int axis) {
  return size_of(model->tensor(kind, index), static_cast<size_t>(axis));
}

stand_in_state* stand_in_state_new(const stand_in_model* model) {
  return guarded<stand_in_state*>(nullptr,
                                  [&] { return new stand_in_state{model->predictor->make_state()}; });
}
void stand_in_state_free(stand_in_state* state) { delete state; }

int stand_in_state_get(const stand_in_state* state, const char* name, float* values, int64_t count) {
  return guarded(-1, [&] {
    const std::vector<float> all = state->state->get(name).to_float();
    if (static_cast<int64_t>(all.size()) != count) throw Error("a state of another size");
    std::copy(all.begin(), all.end(), values);
    return 0;
  });
}
int stand_in_state_set(stand_in_state* state, const char* name, const float* values, int64_t count) {
  return guarded(-1, [&] {
    const std::vector<int64_t> shape = state->state->get(name).shape();
    Array value = floats(shape, values);
    if (value.size() != count) throw Error("a state of another size");
    state->state->set(name, value);
    return 0;
  });
}

stand_in_result* stand_in_predict(const stand_in_model* model, stand_in_state* state, int inputs,
                                  const char* const* names, const int* ranks, const int64_t* shapes,
                                  const float* const* values) {
  return guarded<stand_in_result*>(nullptr, [&] {
    std::map<std::string, Array> given;
    for (int i = 0; i < inputs; ++i) {
      const std::vector<int64_t> shape(shapes, shapes + ranks[i]);
      shapes += ranks[i];
      const auto& known = model->list(STAND_IN_INPUTS);
      const auto info =
          std::find_if(known.begin(), known.end(), [&](const TensorInfo& t) { return t.name == names[i]; });
      const bool whole = info != known.end() && !dtype_is_float(info->dtype);
      given[names[i]] = whole ? integers(shape, values[i]) : floats(shape, values[i]);
    }
    const bool stateful = !model->list(STAND_IN_STATES).empty();
    Prediction p = model->predictor->predict(given, stateful && state ? state->state.get() : nullptr);
    auto out = std::make_unique<stand_in_result>();
    for (auto& [name, array] : p.outputs) out->outputs[name] = floats(array.shape(), array.to_float().data());
    return out.release();
  });
}
void stand_in_result_free(stand_in_result* result) { delete result; }
int stand_in_result_rank(const stand_in_result* result, const char* name) {
  const Array* a = result->find(name);
  return a ? static_cast<int>(a->shape().size()) : -1;
}
int64_t stand_in_result_size(const stand_in_result* result, const char* name, int axis) {
  return result->find(name)->shape().at(static_cast<size_t>(axis));
}
const float* stand_in_result_values(const stand_in_result* result, const char* name) {
  return result->find(name)->values<float>().data();
}
