#include "predict/predictor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"

namespace anemone {
namespace {

// The range of the integers that a declared type holds.
std::pair<int64_t, int64_t> int_range(DType dtype) {
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

std::vector<uint32_t> take_tensor(const char* what, const TensorInfo& info, const Array& array, Type& type) {
  const bool scalar =
      info.shape.empty() && info.enumerated.empty() && array.shape() == std::vector<int64_t>{1};
  if (!scalar && !allowed(info, array.shape()))
    throw errorf("the {} '{}' has the wrong shape", what, info.name)
        .found(shape_text(array.shape()))
        .expected(describe(info));
  type = Type::tensor(info.dtype, scalar ? std::vector<int64_t>{} : array.shape());
  std::vector<uint32_t> out(static_cast<size_t>(array.size()));
  if (type.is_float()) {
    const std::vector<float> values = array.to_float();
    if (!out.empty()) std::memcpy(out.data(), values.data(), out.size() * 4);
    return out;
  }
  std::vector<int64_t> values;
  try {
    values = array.to_int();
  } catch (Error& e) {
    e.expected(describe(info)).within(fmt::format("{} '{}'", what, info.name));
    throw;
  }
  const auto [low, high] = int_range(info.dtype);
  for (size_t i = 0; i < out.size(); ++i) {
    if (values[i] < low || values[i] > high)
      throw errorf("a value of the {} '{}' is outside its type", what, info.name)
          .found(fmt::format("{}", values[i]))
          .expected(fmt::format("{}: {} to {}", dtype_name(info.dtype), low, high));
    out[i] = static_cast<uint32_t>(values[i]);
  }
  return out;
}

Array give_output(const Type& type, const void* data) {
  Array out(type.is_float() ? DType::fp32 : DType::int32,
            type.rank() ? type.dims() : std::vector<int64_t>{1});
  if (!out.bytes().empty()) std::memcpy(out.bytes().data(), data, out.bytes().size());
  return out;
}

const Array& Prediction::at(const std::string& name) const {
  const auto it = outputs.find(name);
  if (it == outputs.end()) throw errorf("there is no output '{}'", name);
  return it->second;
}

}  // namespace anemone
