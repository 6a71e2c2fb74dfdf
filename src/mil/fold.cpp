#include "mil/fold.h"

#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"

namespace anemone {
namespace {

template <class Stored>
Constant::Bytes narrowed(const void* elements, int64_t count) {
  Constant::Bytes out(static_cast<size_t>(count) * sizeof(Stored));
  const auto* in = static_cast<const int32_t*>(elements);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<Stored>(in[i]);
    std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(Stored), &value, sizeof(Stored));
  }
  return out;
}

Constant::Bytes stored_bytes(DType dtype, const void* elements, int64_t count) {
  switch (dtype) {
    case DType::fp32:
    case DType::int32:
    case DType::uint32: {
      Constant::Bytes out(static_cast<size_t>(count) * 4);
      if (count) std::memcpy(out.data(), elements, out.size());
      return out;
    }
    case DType::fp16: {
      Constant::Bytes out(static_cast<size_t>(count) * 2);
      for (int64_t i = 0; i < count; ++i) {
        const uint16_t half = half_from_float(static_cast<const float*>(elements)[i]);
        std::memcpy(out.data() + i * 2, &half, 2);
      }
      return out;
    }
    case DType::boolean:
    case DType::uint8:
    case DType::int8: return narrowed<uint8_t>(elements, count);
    case DType::uint16:
    case DType::int16: return narrowed<uint16_t>(elements, count);
    default: throw errorf("a constant of type {} cannot be made from elements", dtype_name(dtype));
  }
}

}  // namespace

std::optional<std::vector<FoldedValue>> fold_call(const OpBinding& binding, std::span<const void* const> data,
                                                  const Types& types, int64_t most) {
  if (!binding.op->run || binding.op->random) return std::nullopt;
  for (const Type& type : types)
    if (!type.is_tensor() || type.dtype == DType::string || !type.fixed() || type.size() > most)
      return std::nullopt;
  static ThreadPool alone(1);
  std::vector<FoldedValue> results;
  std::vector<void*> out;
  for (const Type& type : types)
    results.push_back({type, std::vector<uint32_t>(static_cast<size_t>(type.size()) + 1)});
  for (FoldedValue& result : results) out.push_back(result.data.data());
  binding.op->run(OpCall(binding, data, types, out, alone));
  return results;
}

Constant constant_of_elements(const Type& type, const void* elements) {
  return Constant::from_bytes(type, stored_bytes(type.dtype, elements, type.size()));
}

}  // namespace anemone
