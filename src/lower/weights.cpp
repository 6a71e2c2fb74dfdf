#include "lower/weights.h"

namespace anemone::lower {
namespace {

// Has a type; its values are never read.
class Hollow : public WeightSource {
 public:
  explicit Hollow(Type type) : type_(std::move(type)) {}
  const Type& type() const override { return type_; }
  void rows(int64_t, int64_t, std::span<std::byte>) const override {}

 private:
  Type type_;
};

Constant hollow(DType dtype, Shape shape) {
  return Constant::from_source(std::make_shared<Hollow>(Type::tensor(dtype, std::move(shape))));
}

}  // namespace

Value* HollowWeights::projection(Builder& b, const WeightRef& ref, double, std::string_view name) {
  const Shape shape = {ref.rows(), ref.columns, 1, 1};
  if (!packed_) return b.constant(hollow(DType::fp16, shape), name);
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", hollow(DType::int8, shape)}, {"scale", hollow(DType::fp16, {ref.rows(), 1, 1, 1})}},
              name);
}

Value* HollowWeights::vector(Builder& b, const WeightRef&, Shape shape, double, double,
                             std::string_view name) {
  return b.constant(hollow(DType::fp16, std::move(shape)), name);
}

Value* ListedWeights::projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) {
  Value* value = from_.projection(b, ref, factor, name);
  list_.push_back({value->name, ref, layer_, 0, factor});
  return value;
}

Value* ListedWeights::vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                             std::string_view name) {
  Value* value = from_.vector(b, ref, std::move(shape), offset, factor, name);
  list_.push_back({value->name, ref, layer_, offset, factor});
  return value;
}

}  // namespace anemone::lower
