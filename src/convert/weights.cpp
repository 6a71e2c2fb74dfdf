#include "convert/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "kernels/convert.h"
#include "kernels/quantize.h"

namespace anemone {
namespace {

// Rows of a weight in the model's order.
class Rows {
 public:
  Rows(const TensorReader& tensor, WeightRef ref, double factor)
      : tensor_(tensor), ref_(std::move(ref)), factor_(static_cast<float>(factor)) {}

  int64_t rows() const { return ref_.rows(); }
  int64_t columns() const { return ref_.columns; }

  void read(int64_t begin, int64_t end, std::vector<float>& out) const {
    out.resize(static_cast<size_t>((end - begin) * columns()));
    read_weight_rows(tensor_, ref_, begin, end, out);
    if (factor_ != 1)
      for (float& v : out) v *= factor_;
  }

  void release(int64_t begin, int64_t end) const {
    if (ref_.interleaved_head == 0) tensor_.release_rows(ref_.row_begin + begin, ref_.row_begin + end);
  }

 private:
  const TensorReader& tensor_;
  WeightRef ref_;
  float factor_;
};

constexpr int64_t kTileRows = 64;

class HalfSource : public WeightSource {
 public:
  explicit HalfSource(Rows rows)
      : rows_(std::move(rows)), type_(Type::tensor(DType::fp16, {rows_.rows(), rows_.columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    std::vector<float> tile;
    auto* to = reinterpret_cast<uint16_t*>(out.data());
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      rows_.read(r, stop, tile);
      floats_to_halves(tile.data(), static_cast<int64_t>(tile.size()), to);
      to += tile.size();
    }
    rows_.release(begin, end);
  }

 private:
  Rows rows_;
  Type type_;
};

// Integers and scales of one weight; the scales are found in a first pass.
class Int8Rows {
 public:
  Int8Rows(Rows rows, bool per_channel) : rows_(std::move(rows)), per_channel_(per_channel) {}

  const Rows& rows() const { return rows_; }

  void prepare(ThreadPool& pool) {
    std::call_once(once_, [&] {
      std::vector<float> largest(static_cast<size_t>(rows_.rows()));
      pool.parallel_for(rows_.rows(), 8, [&](int64_t begin, int64_t end) {
        std::vector<float> tile;
        for (int64_t r = begin; r < end; r += kTileRows) {
          const int64_t stop = std::min(end, r + kTileRows);
          rows_.read(r, stop, tile);
          for (int64_t i = r; i < stop; ++i)
            largest[static_cast<size_t>(i)] =
                largest_magnitude(tile.data() + (i - r) * rows_.columns(), rows_.columns());
        }
      });
      if (!per_channel_) largest = {*std::max_element(largest.begin(), largest.end())};
      // The integers are made with the scale as it is stored, so that rounding it costs nothing. A channel of
      // zeros gets a scale of one: nothing is divided by zero.
      for (const float m : largest) {
        if (!std::isfinite(m)) throw errorf("a weight is not finite");
        const float s = round_to_half(m / 127.0f);
        scales_.push_back(s > 0 ? s : m > 0 ? 0x1p-24f : 1.0f);
      }
    });
  }

  float scale(int64_t row) const { return scales_[per_channel_ ? static_cast<size_t>(row) : 0]; }
  const std::vector<float>& scales() const { return scales_; }
  bool per_channel() const { return per_channel_; }

 private:
  Rows rows_;
  bool per_channel_;
  std::once_flag once_;
  std::vector<float> scales_;
};

class Int8Source : public WeightSource {
 public:
  explicit Int8Source(std::shared_ptr<Int8Rows> shared)
      : shared_(std::move(shared)),
        type_(Type::tensor(DType::int8, {shared_->rows().rows(), shared_->rows().columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { shared_->prepare(pool); }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    std::vector<float> tile;
    const int64_t columns = shared_->rows().columns();
    auto* to = reinterpret_cast<int8_t*>(out.data());
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      shared_->rows().read(r, stop, tile);
      for (int64_t i = r; i < stop; ++i, to += columns)
        quantize_int8(tile.data() + (i - r) * columns, columns, 1.0f / shared_->scale(i), to);
    }
    shared_->rows().release(begin, end);
  }

 private:
  std::shared_ptr<Int8Rows> shared_;
  Type type_;
};

class ScaleSource : public WeightSource {
 public:
  explicit ScaleSource(std::shared_ptr<Int8Rows> shared)
      : shared_(std::move(shared)),
        type_(Type::tensor(DType::fp16, {shared_->per_channel() ? shared_->rows().rows() : 1, 1, 1, 1})) {}

  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { shared_->prepare(pool); }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    for (int64_t r = begin; r < end; ++r) {
      const uint16_t h = half_from_float(shared_->scales()[static_cast<size_t>(r)]);
      std::memcpy(out.data() + (r - begin) * 2, &h, 2);
    }
  }

 private:
  std::shared_ptr<Int8Rows> shared_;
  Type type_;
};

}  // namespace

void read_weight_rows(const TensorReader& tensor, const WeightRef& ref, int64_t begin, int64_t end,
                      std::span<float> out) {
  if (ref.interleaved_head == 0) return tensor.read_rows(ref.row_begin + begin, ref.row_begin + end, out);
  const auto columns = static_cast<size_t>(ref.columns);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = ref.tensor_row(r);
    tensor.read_rows(at, at + 1, out.subspan(static_cast<size_t>(r - begin) * columns, columns));
  }
}

const CheckpointWeights::Stored& CheckpointWeights::stored(const WeightRef& ref, double factor) {
  const Key key{ref.tensor, ref.row_begin, ref.row_end, ref.interleaved_head, factor};
  const auto [it, fresh] = stored_.try_emplace(key);
  if (!fresh) return it->second;
  Rows rows(checkpoint_.tensor(ref.tensor), ref, factor);
  if (precision_ == Precision::fp16) {
    it->second.data = std::make_shared<HalfSource>(std::move(rows));
  } else {
    auto shared = std::make_shared<Int8Rows>(std::move(rows), precision_ == Precision::int8);
    it->second.data = std::make_shared<Int8Source>(shared);
    it->second.scale = std::make_shared<ScaleSource>(shared);
  }
  return it->second;
}

Value* CheckpointWeights::projection(Builder& b, const WeightRef& ref, double factor, std::string_view name) {
  const Stored& s = stored(ref, factor);
  if (!s.scale) return b.constant(Constant::from_source(s.data), name);
  return b.op("constexpr_blockwise_shift_scale",
              {{"data", Constant::from_source(s.data)}, {"scale", Constant::from_source(s.scale)}}, name);
}

Value* CheckpointWeights::vector(Builder& b, const WeightRef& ref, Shape shape, double offset, double factor,
                                 std::string_view name) {
  std::vector<float> values(static_cast<size_t>(ref.rows() * std::max<int64_t>(1, ref.columns)));
  read_weight_rows(checkpoint_.tensor(ref.tensor), ref, 0, ref.rows(), values);
  for (float& v : values) {
    v = static_cast<float>((v + offset) * factor);
    if (std::abs(v) > kHalfMax)
      throw errorf("a value of '{}' leaves the range of fp16", ref.tensor).found(fmt::format("{}", v));
  }
  return b.constant(Constant::numbers(values, DType::fp16, std::move(shape)), name);
}

uint64_t CheckpointWeights::bytes(const WeightRef& ref, Precision precision) {
  const auto count = static_cast<uint64_t>(ref.rows()) * static_cast<uint64_t>(ref.columns);
  if (precision == Precision::fp16) return count * 2;
  return count + (precision == Precision::int8 ? static_cast<uint64_t>(ref.rows()) * 2 : 2);
}

}  // namespace anemone
