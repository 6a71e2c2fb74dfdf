#include "predict/predictor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/shape.h"
#include "kernels/convert.h"
#include "mil/stored.h"

namespace anemone {
namespace {

struct IntRange {
  int64_t low, high;
};

// The range of the integers that a declared type holds.
IntRange int_range(DType dtype) {
  const int bits = std::min(dtype_bits(dtype), 32);
  if (dtype == DType::boolean) return {0, 1};
  if (dtype_is_signed(dtype)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, std::min<int64_t>((int64_t{1} << bits) - 1, INT32_MAX)};
}

bool allowed(const TensorInfo& info, const std::vector<int64_t>& shape) {
  if (!info.enumerated.empty())
    return std::find(info.enumerated.begin(), info.enumerated.end(), shape) != info.enumerated.end();
  if (shape.size() != info.shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (info.shape[i] >= 0 && info.shape[i] != shape[i]) return false;
    if (i < info.range.size() &&
        (shape[i] < info.range[i].first || (info.range[i].second >= 0 && shape[i] > info.range[i].second)))
      return false;
  }
  return true;
}

void check_value(const char* what, const TensorInfo& info, const IntRange& range, int64_t value) {
  if (value >= range.low && value <= range.high) return;
  throw errorf("a value of the {} '{}' is outside its type", what, info.name)
      .found(fmt::format("{}", value))
      .expected(fmt::format("{}: {} to {}", dtype_name(info.dtype), range.low, range.high));
}

// Any view as dense floats. What Core ML gives, rows of fp16 or fp32 with gaps between them, goes row by row.
void take_floats(const TensorView& view, float* out) {
  if (view.size() == 0) return;
  const bool dense = view.dense(), half = view.dtype == DType::fp16;
  if ((!dense && view.strides.back() != 1) || (!half && view.dtype != DType::fp32)) {
    std::ranges::copy(view.to_float(), out);
    return;
  }
  const size_t outer = dense ? 0 : view.shape.size() - 1;
  const int64_t length = dense ? view.size() : view.shape.back();
  for_each_offset(std::span(view.shape).first(outer), std::span(view.strides).first(outer), [&](int64_t row) {
    const std::byte* from = static_cast<const std::byte*>(view.data) + row * (half ? 2 : 4);
    if (half)
      halves_to_floats(from, length, out);
    else
      std::memcpy(out, from, static_cast<size_t>(length) * 4);
    out += length;
  });
}

}  // namespace

std::string describe(const TensorInfo& info) {
  std::string out = fmt::format("{}: {} ", info.name, dtype_name(info.dtype));
  const std::string_view end = info.optional ? " (optional)" : "";
  if (!info.enumerated.empty()) {
    for (size_t i = 0; i < info.enumerated.size(); ++i)
      out += (i ? " or " : "") + shape_text(info.enumerated[i]);
    return out.append(end);
  }
  out += "[";
  for (size_t i = 0; i < info.shape.size(); ++i) {
    out += i ? ", " : "";
    if (info.shape[i] >= 0)
      out += fmt::format("{}", info.shape[i]);
    else if (i < info.range.size())
      out += info.range[i].second < 0 ? fmt::format("{}..", info.range[i].first)
                                      : fmt::format("{}..{}", info.range[i].first, info.range[i].second);
    else
      out += "?";
  }
  return out.append("]").append(end);
}

std::string describe_inputs(const Signature& signature) {
  std::string out;
  for (const TensorInfo& input : signature.inputs) out += (out.empty() ? "" : "; ") + describe(input);
  return out.empty() ? "no inputs" : out;
}

const TensorInfo& find_input(const Signature& signature, const std::string& name) {
  for (const TensorInfo& input : signature.inputs)
    if (input.name == name) return input;
  throw errorf("the function '{}' has no input '{}'", signature.function, name)
      .expected(describe_inputs(signature));
}

Error missing_input(const Signature& signature, const std::string& name) {
  return errorf("the input '{}' is missing", name).expected(describe_inputs(signature));
}

bool is_scalar(const TensorInfo& info) { return info.shape.empty() && info.enumerated.empty(); }

void check_shape(const char* what, const TensorInfo& info, const std::vector<int64_t>& shape) {
  if ((is_scalar(info) && shape == std::vector<int64_t>{1}) || allowed(info, shape)) return;
  throw errorf("the {} '{}' has the wrong shape", what, info.name)
      .found(shape_text(shape))
      .expected(describe(info));
}

void take_elements(const char* what, const TensorInfo& info, const TensorView& view, void* out) {
  if (dtype_is_float(info.dtype)) return take_floats(view, static_cast<float*>(out));
  std::vector<int64_t> values;
  try {
    values = view.to_int();
  } catch (Error& e) {
    e.expected(describe(info)).within(fmt::format("{} '{}'", what, info.name));
    throw;
  }
  const IntRange range = int_range(info.dtype);
  auto* to = static_cast<int32_t*>(out);
  for (const int64_t value : values) {
    check_value(what, info, range, value);
    *to++ = static_cast<int32_t>(value);
  }
}

void check_elements(const char* what, const TensorInfo& info, std::span<const int32_t> values) {
  const IntRange range = int_range(info.dtype);
  if (range.low == INT32_MIN && range.high == INT32_MAX) return;
  for (const int32_t value : values) check_value(what, info, range, value);
}

TensorView view_elements(const Type& type, void* data) {
  return TensorView::row_major(type.is_float() ? DType::fp32 : DType::int32,
                               type.rank() ? type.dims() : std::vector<int64_t>{1}, data);
}

std::vector<std::string> class_names(const Operation& classify) {
  std::vector<std::string> names;
  const Constant* classes = classify.input("classes")->bindings[0].constant();
  for (const Constant& item : std::get<Constant::Items>(classes->data)) {
    if (item.is_strings())
      names.push_back(std::get<Constant::Strings>(item.data).at(0));
    else
      names.push_back(fmt::format("{}", decode_ints(*stored_constant(item)).at(0)));
  }
  return names;
}

Prediction Predictor::predict(const std::map<std::string, Array>& inputs, State* state) const {
  InputShapes shapes;
  for (const auto& [name, array] : inputs) {
    find_input(signature(), name);
    shapes.emplace(name, array.shape());
  }
  for (const TensorInfo& input : signature().inputs)
    if (!input.optional && !inputs.contains(input.name)) throw missing_input(signature(), input.name);
  const std::unique_ptr<Call> call = make_call(shapes);
  for (const auto& [name, array] : inputs) call->lend(name, TensorView::of(array));
  call->run(state);
  Prediction result;
  result.fault = call->fault();
  for (const std::string& name : call->outputs()) {
    if (std::vector<std::string> labels = call->labels(name); !labels.empty())
      result.labels[name] = std::move(labels);
    if (const TensorView view = call->output(name); view.dtype != DType::string)
      result.outputs.insert_or_assign(name, view.copy());
  }
  return result;
}

const Array& Prediction::at(const std::string& name) const {
  const auto it = outputs.find(name);
  if (it == outputs.end()) throw errorf("there is no output '{}'", name);
  return it->second;
}

}  // namespace anemone
