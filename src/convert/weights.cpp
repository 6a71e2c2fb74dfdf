#include "convert/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "families/checkpoint_rows.h"
#include "plan/precision.h"

namespace anemone {
namespace {

// Called with the bytes of each part that was made.
using OnPart = std::function<void(uint64_t)>;

void part_done(const CheckpointRows& rows, int64_t begin, int64_t end, uint64_t bytes,
               const OnPart& on_part) {
  rows.release(begin, end);
  if (on_part) on_part(bytes);
}

class HalfSource : public WeightSource {
 public:
  HalfSource(CheckpointRows rows, const OnPart& on_part)
      : rows_(std::move(rows)),
        on_part_(on_part),
        type_(Type::tensor(DType::fp16, {rows_.rows(), rows_.columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    rows_.halves(begin, end, reinterpret_cast<uint16_t*>(out.data()));
    part_done(rows_, begin, end, out.size(), on_part_);
  }

 private:
  CheckpointRows rows_;
  const OnPart& on_part_;
  Type type_;
};

class Int8Source : public WeightSource {
 public:
  Int8Source(std::shared_ptr<Int8Rows> shared, const OnPart& on_part)
      : shared_(std::move(shared)),
        on_part_(on_part),
        type_(Type::tensor(DType::int8, {shared_->rows().rows(), shared_->rows().columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { shared_->prepare(pool); }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    shared_->quantize(begin, end, reinterpret_cast<int8_t*>(out.data()));
    part_done(shared_->rows(), begin, end, out.size(), on_part_);
  }

 private:
  std::shared_ptr<Int8Rows> shared_;
  const OnPart& on_part_;
  Type type_;
};

class ScaleSource : public WeightSource {
 public:
  explicit ScaleSource(std::shared_ptr<Int8Rows> shared)
      : shared_(std::move(shared)), type_(Type::tensor(DType::fp16, {shared_->scales(), 1, 1, 1})) {}

  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { shared_->prepare(pool); }
  bool late() const override { return true; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    for (int64_t r = begin; r < end; ++r) {
      const uint16_t h = half_from_float(shared_->scale(r));
      std::memcpy(out.data() + (r - begin) * 2, &h, 2);
    }
  }

 private:
  std::shared_ptr<Int8Rows> shared_;
  Type type_;
};

}  // namespace

StorageForm storage_form(Precision precision) {
  StorageForm form;
  if (precision == Precision::fp16)
    form.dense = true;
  else
    form.integers = IntegerForm{.per = precision == Precision::int8 ? IntegerForm::Per::channel
                                                                    : IntegerForm::Per::tensor};
  return form;
}

const CheckpointWeights::Stored& CheckpointWeights::stored(const WeightRef& ref, double factor) {
  const Key key{ref, factor};
  const auto [it, fresh] = stored_.try_emplace(key);
  if (!fresh) return it->second;
  CheckpointRows rows(checkpoint_.tensor(ref.tensor), ref, factor);
  if (!form_of(storage_form(precision_), ref).integers) {
    it->second.data = std::make_shared<HalfSource>(std::move(rows), on_part);
  } else {
    auto shared = std::make_shared<Int8Rows>(std::move(rows),
                                             Int8Rows::Scales{.per_row = precision_ == Precision::int8});
    it->second.data = std::make_shared<Int8Source>(shared, on_part);
    it->second.scale = std::make_shared<ScaleSource>(shared);
  }
  return it->second;
}

Value* CheckpointWeights::kept_projection(Builder& b, const WeightRef& ref, double factor,
                                          std::string_view name) {
  const auto [it, fresh] = kept_.try_emplace(Key{ref, factor});
  if (fresh) it->second = KeptBlocks::of(checkpoint_, ref, factor);
  if (!it->second) return nullptr;
  if (fresh) ++kept;
  const KeptBlocks& k = *it->second;
  if (!k.offset)
    return b.op("constexpr_blockwise_shift_scale",
                {{"data", Constant::from_source(k.data)}, {"scale", Constant::from_source(k.scale)}}, name);
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", Constant::from_source(k.data)},
               {"scale", Constant::from_source(k.scale)},
               {"offset", Constant::from_source(k.offset)}},
              name);
}

Value* CheckpointWeights::projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) {
  if (keep_blocks)
    if (Value* value = kept_projection(b, ref, factor, name)) return value;
  const Stored& s = stored(ref, factor);
  if (!s.scale) return b.constant(Constant::from_source(s.data), name);
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", Constant::from_source(s.data)}, {"scale", Constant::from_source(s.scale)}}, name);
}

Value* CheckpointWeights::vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                                 std::string_view name) {
  std::vector<float> values(static_cast<size_t>(ref.rows() * std::max<int64_t>(1, ref.columns)));
  read_rows(checkpoint_, ref, 0, ref.rows(), values);
  for (float& v : values) {
    v = static_cast<float>((v + offset) * factor);
    if (!(std::abs(v) <= kHalfMax))
      throw errorf("a value of '{}' leaves the range of fp16", ref.tensor).found(fmt::format("{}", v));
  }
  return b.constant(Constant::numbers(values, DType::fp16, std::move(shape)), name);
}

}  // namespace anemone
