#include "mil/stored_params.h"

#include "base/error.h"

namespace anemone {

std::vector<int64_t> fixed_dims(const OpCall& c, std::string_view param) {
  const Type& type = c.type(param);
  if (!type.fixed()) throw errorf("'{}' must have a fixed shape", param).found(type.text());
  type.size();  // also checks that the product fits
  return type.dims();
}

std::shared_ptr<const StoredTensor> stored_param(const OpCall& c, std::string_view param) {
  if (const auto& stored = c.stored(param)) return stored;
  if (const Constant* constant = c.constant(param)) return stored_constant(*constant);
  if (c.known(param)) return stored_dense(c.type(param), c.data(param));
  throw errorf("'{}' must be a constant", param);
}

std::vector<int64_t> stored_integers(const OpCall& c, std::string_view param) {
  if (c.known(param)) return c.integers(param);
  const auto stored = stored_param(c, param);
  constexpr int64_t kMost = 64;  // a shape or an axis, not a weight
  if (stored->type().is_float() || stored->type().size() > kMost)
    throw errorf("'{}' must be a few integers", param).found(stored->type().text());
  const std::vector<int32_t> values = decode_ints(*stored);
  return {values.begin(), values.end()};
}

int64_t stored_integer(const OpCall& c, std::string_view param) {
  const std::vector<int64_t> values = stored_integers(c, param);
  if (values.size() != 1) throw errorf("'{}' must be one number", param).found(c.type(param).text());
  return values[0];
}

void check_ones(const MaskBits& mask, int64_t values, std::string_view mask_param,
                std::string_view values_param) {
  if (mask.ones() != values)
    throw errorf("'{}' has {} ones but '{}' has {} elements", mask_param, mask.ones(), values_param, values);
}

}  // namespace anemone
