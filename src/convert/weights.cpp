#include "convert/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

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
  Rows(const TensorReader& tensor, WeightRef ref, double factor, const std::function<void(uint64_t)>& on_part)
      : tensor_(tensor), ref_(std::move(ref)), factor_(static_cast<float>(factor)), on_part_(on_part) {}

  int64_t rows() const { return ref_.rows(); }
  int64_t columns() const { return ref_.columns; }
  const std::string& tensor() const { return ref_.tensor; }

  void read(int64_t begin, int64_t end, std::vector<float>& out) const {
    out.resize(static_cast<size_t>((end - begin) * columns()));
    read_rows(tensor_, ref_, begin, end, out);
    if (factor_ != 1)
      for (float& v : out) v *= factor_;
  }

  // These rows are done, as `bytes` of the package. Their pages go back: a hint, since paired rows lie
  // elsewhere in the same heads, and pages that are read again come again.
  void done(int64_t begin, int64_t end, uint64_t bytes) const {
    release_rows(tensor_, ref_, begin, end);
    if (bytes && on_part_) on_part_(bytes);
  }

 private:
  const TensorReader& tensor_;
  WeightRef ref_;
  float factor_;
  const std::function<void(uint64_t)>& on_part_;
};

constexpr int64_t kTileRows = 64;

class HalfSource : public WeightSource {
 public:
  explicit HalfSource(Rows rows)
      : rows_(std::move(rows)), type_(Type::tensor(DType::fp16, {rows_.rows(), rows_.columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    std::vector<float> tile;
    auto* to = reinterpret_cast<uint16_t*>(out.data());
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      rows_.read(r, stop, tile);
      const float largest = largest_magnitude(tile.data(), static_cast<int64_t>(tile.size()));
      if (!(largest <= kHalfMax))
        throw errorf("a weight of '{}' leaves the range of fp16", rows_.tensor())
            .found(fmt::format("{}", largest))
            .expected(fmt::format("at most {}", kHalfMax));
      floats_to_halves(tile.data(), static_cast<int64_t>(tile.size()), to);
      to += tile.size();
    }
    rows_.done(begin, end, out.size());
  }

 private:
  Rows rows_;
  Type type_;
};

// Integers and scales of one weight. A scale per channel is found when its row is quantised, so the
// checkpoint is read once; one for the whole tensor needs a pass of its own.
class Int8Rows {
 public:
  Int8Rows(Rows rows, bool per_channel)
      : rows_(std::move(rows)), scales_(per_channel ? static_cast<size_t>(rows_.rows()) : 1) {}

  const Rows& rows() const { return rows_; }
  int64_t scales() const { return static_cast<int64_t>(scales_.size()); }
  bool per_channel() const { return scales_.size() > 1 || rows_.rows() == 1; }

  void prepare(ThreadPool& pool) {
    if (per_channel() || scales_[0] != 0) return;
    std::vector<float> largest(static_cast<size_t>(rows_.rows()));
    pool.parallel_for(rows_.rows(), kTileRows, [&](int64_t begin, int64_t end) {
      std::vector<float> tile;
      for_tiles(begin, end, tile, [&](int64_t row, const float* values) {
        largest[static_cast<size_t>(row)] = largest_magnitude(values, rows_.columns());
      });
      rows_.done(begin, end, 0);
    });
    scales_[0] = scale_for(*std::max_element(largest.begin(), largest.end()));
  }

  void quantize(int64_t begin, int64_t end, int8_t* to) {
    std::vector<float> tile;
    const int64_t columns = rows_.columns();
    for_tiles(begin, end, tile, [&](int64_t row, const float* values) {
      std::atomic<float>& known = scales_[per_channel() ? static_cast<size_t>(row) : 0];
      const float scale = per_channel() ? scale_for(largest_magnitude(values, columns)) : known.load();
      if (per_channel()) known = scale;
      quantize_int8(values, columns, 1.0f / scale, to);
      to += columns;
    });
    rows_.done(begin, end, static_cast<uint64_t>((end - begin) * columns));
  }

  // Found before where the row was quantised already.
  float scale(int64_t row) {
    std::atomic<float>& found = scales_[static_cast<size_t>(row)];
    if (found == 0) {
      std::vector<float> values;
      rows_.read(row, row + 1, values);
      found = scale_for(largest_magnitude(values.data(), rows_.columns()));
    }
    return found;
  }

 private:
  template <class Body>
  void for_tiles(int64_t begin, int64_t end, std::vector<float>& tile, const Body& body) const {
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      rows_.read(r, stop, tile);
      for (int64_t i = r; i < stop; ++i) body(i, tile.data() + (i - r) * rows_.columns());
    }
  }

  // The integers are made with the scale as it is stored, so that rounding it costs nothing. A channel of
  // zeros gets a scale of one: nothing is divided by zero.
  float scale_for(float largest) const {
    if (!std::isfinite(largest)) throw errorf("a weight of '{}' is not finite", rows_.tensor());
    if (largest > kHalfMax)  // the device multiplies in fp16
      throw errorf("a weight of '{}' leaves the range of fp16", rows_.tensor())
          .found(fmt::format("{}", largest))
          .expected(fmt::format("at most {}", kHalfMax));
    return int8_scale(largest, true);
  }

  Rows rows_;
  // 0: not known yet. Two readers may find the same one at once.
  std::vector<std::atomic<float>> scales_;
};

class Int8Source : public WeightSource {
 public:
  explicit Int8Source(std::shared_ptr<Int8Rows> shared)
      : shared_(std::move(shared)),
        type_(Type::tensor(DType::int8, {shared_->rows().rows(), shared_->rows().columns(), 1, 1})) {}

  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { shared_->prepare(pool); }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    shared_->quantize(begin, end, reinterpret_cast<int8_t*>(out.data()));
  }

 private:
  std::shared_ptr<Int8Rows> shared_;
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

const CheckpointWeights::Stored& CheckpointWeights::stored(const WeightRef& ref, double factor) {
  const Key key{ref, factor};
  const auto [it, fresh] = stored_.try_emplace(key);
  if (!fresh) return it->second;
  Rows rows(checkpoint_.tensor(ref.tensor), ref, factor, on_part);
  if (precision_ == Precision::fp16 || ref.sensitive) {
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
  read_rows(checkpoint_, ref, 0, ref.rows(), values);
  for (float& v : values) {
    v = static_cast<float>((v + offset) * factor);
    if (!(std::abs(v) <= kHalfMax))
      throw errorf("a value of '{}' leaves the range of fp16", ref.tensor).found(fmt::format("{}", v));
  }
  return b.constant(Constant::numbers(values, DType::fp16, std::move(shape)), name);
}

uint64_t CheckpointWeights::bytes(const WeightRef& ref, Precision precision) {
  const auto count = static_cast<uint64_t>(ref.rows()) * static_cast<uint64_t>(ref.columns);
  if (precision == Precision::fp16 || ref.sensitive) return count * 2;
  return count + (precision == Precision::int8 ? static_cast<uint64_t>(ref.rows()) * 2 : 2);
}

}  // namespace anemone
