#include "convert/kept_blocks.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "checkpoint/onnx_bundle.h"

namespace anemone {
namespace {

// What the three sources share. The checkpoint outlives them.
struct Shared {
  const OnnxCodes* codes;
  WeightRef ref;
  double factor;

  int64_t blocks() const { return codes->blocks; }
  DType dtype() const {
    if (codes->bits == 4) return codes->zeros ? DType::uint4 : DType::int4;
    return codes->zeros ? DType::uint8 : DType::int8;
  }
};

class CodesSource : public WeightSource {
 public:
  explicit CodesSource(Shared shared)
      : s_(std::move(shared)), type_(Type::tensor(s_.dtype(), {s_.ref.rows(), s_.ref.columns, 1, 1})) {}

  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    const OnnxCodes& c = *s_.codes;
    const auto bytes = static_cast<size_t>(c.count * c.bits / 8);
    // The middle of the codes stands for 0: turning the highest bit of each makes them signed.
    const std::byte turn = c.zeros ? std::byte{0} : c.bits == 4 ? std::byte{0x88} : std::byte{0x80};
    std::byte* to = out.data();
    for (int64_t r = begin; r < end; ++r, to += bytes) {
      std::memcpy(to, c.codes.bytes().data() + static_cast<size_t>(s_.ref.tensor_row(r)) * bytes, bytes);
      for (size_t i = 0; i < bytes && turn != std::byte{0}; ++i) to[i] ^= turn;
    }
  }

 private:
  Shared s_;
  Type type_;
};

class ScalesSource : public WeightSource {
 public:
  explicit ScalesSource(Shared shared)
      : s_(std::move(shared)), type_(Type::tensor(DType::fp16, {s_.ref.rows(), s_.blocks(), 1, 1})) {}

  const Type& type() const override { return type_; }
  int64_t row_step() const override { return 1; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    std::vector<float> scales(static_cast<size_t>(s_.blocks()));
    std::byte* to = out.data();
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = s_.ref.tensor_row(r) * s_.blocks();
      s_.codes->scales.read(at, at + s_.blocks(), std::span<float>(scales));
      for (const float scale : scales) {
        const auto value = static_cast<float>(scale * s_.factor);
        if (!(std::abs(value) <= kHalfMax))
          throw errorf("a scale of '{}' leaves the range of fp16", s_.ref.tensor)
              .found(fmt::format("{}", value));
        const uint16_t h = half_from_float(value);
        std::memcpy(to, &h, 2);
        to += 2;
      }
    }
  }

 private:
  Shared s_;
  Type type_;
};

class OffsetsSource : public WeightSource {
 public:
  explicit OffsetsSource(Shared shared)
      : s_(std::move(shared)), type_(Type::tensor(s_.dtype(), {s_.ref.rows(), s_.blocks(), 1, 1})) {}

  const Type& type() const override { return type_; }
  // Rows of an odd number of 4-bit codes share bytes: ranges begin at multiples of 8.
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    const OnnxCodes& c = *s_.codes;
    std::fill(out.begin(), out.end(), std::byte{0});
    for (int64_t r = begin; r < end; ++r)
      for (int64_t b = 0; b < s_.blocks(); ++b) {
        const int64_t from = b * c.bits, to = ((r - begin) * s_.blocks() + b) * c.bits;
        const auto row = static_cast<size_t>(s_.ref.tensor_row(r) * c.zero_row_bytes + from / 8);
        const unsigned code =
            (std::to_integer<unsigned>(c.zeros->bytes()[row]) >> (from % 8)) & ((1U << c.bits) - 1);
        out[static_cast<size_t>(to / 8)] |= static_cast<std::byte>(code << (to % 8));
      }
  }

 private:
  Shared s_;
  Type type_;
};

}  // namespace

std::optional<KeptBlocks> KeptBlocks::of(const Checkpoint& checkpoint, const WeightRef& ref, double factor) {
  const OnnxBundle* graph = checkpoint.graph();
  const OnnxCodes* c = graph ? graph->weights.codes(ref.tensor) : nullptr;
  if (!c || (c->bits != 4 && c->bits != 8) || c->floating || c->is_signed || c->inner != 1 || c->one_scale ||
      c->scale_by_column || !c->groups.empty() || c->count % c->block != 0 || c->stored_count != c->count ||
      c->count * c->bits % 8 != 0)
    return std::nullopt;
  if (c->zeros ? !c->packed_zeros : c->default_zero != static_cast<float>(1 << (c->bits - 1)))
    return std::nullopt;
  if (ref.transposed || ref.slice >= 0 || ref.column_begin != 0 || ref.columns != c->count)
    return std::nullopt;
  const Shared shared{c, ref, factor};
  KeptBlocks out{std::make_shared<CodesSource>(shared), std::make_shared<ScalesSource>(shared), nullptr};
  if (c->zeros) out.offset = std::make_shared<OffsetsSource>(shared);
  return out;
}

}  // namespace anemone
