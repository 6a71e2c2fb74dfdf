// Weights of which only some elements are stored, with a mask that says where they belong; the others are 0.
#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "mil/stored_params.h"

namespace anemone::ops {
namespace {

class StoredSparse : public StoredTensor {
 public:
  StoredSparse(Type type, MaskBits mask, std::shared_ptr<const StoredTensor> values)
      : StoredTensor(std::move(type)), mask_(std::move(mask)), values_(std::move(values)) {}

  // The values are read into the end of the room and moved forward: a value's place is never past where it
  // waits.
  void read(int64_t begin, int64_t end, void* out) const override {
    auto* words = static_cast<uint32_t*>(out);
    const int64_t first = mask_.rank(begin), ones = mask_.rank(end) - first;
    const uint32_t* waiting = words + (end - begin - ones);
    const uint32_t* none = words + (end - begin);
    values_->read(first, first + ones, words + (end - begin - ones));
    // Without a branch on the bits: the processor could not predict it.
    int64_t i = begin;
    for (; waiting != none; ++i) {
      const uint32_t bit = mask_.bit(i);
      *words++ = *waiting & (0 - bit);
      waiting += bit;
    }
    std::fill_n(words, end - i, 0u);
  }

 private:
  MaskBits mask_;
  std::shared_ptr<const StoredTensor> values_;
};

// The iOS 16 form packs the mask into bytes and gives the shape apart.
Types infer(const OpCall& c) {
  if (fixed_dims(c, "nonzero_data").size() != 1)
    throw errorf("'nonzero_data' must be a vector").found(c.type("nonzero_data").text());
  if (c.since() != Opset::ios16) return {Type::tensor(c.type("nonzero_data").dtype, fixed_dims(c, "mask"))};
  const std::vector<int64_t> dims = stored_integers(c, "shape");
  const uint64_t need = packed_bytes(element_count(dims), 1);
  if (fixed_dims(c, "mask") != std::vector<int64_t>{static_cast<int64_t>(need)})
    throw errorf("'mask' has the wrong size for the shape {}", shape_text(dims))
        .found(c.type("mask").text())
        .expected(fmt::format("{} bytes", need));
  return {Type::tensor(c.type("nonzero_data").dtype, dims)};
}

std::shared_ptr<const StoredTensor> store(const OpCall& c, int) {
  const Type type = infer(c)[0];
  MaskBits mask(stored_param(c, "mask"), type.size());
  check_ones(mask, c.type("nonzero_data").size(), "mask", "nonzero_data");
  return std::make_shared<StoredSparse>(type, std::move(mask), stored_param(c, "nonzero_data"));
}

constexpr DTypes kPacked = kFloat | kInt8 | only(DType::int4) | only(DType::uint4);

const Op kOps[] = {{
    .name = "constexpr_sparse_to_dense",
    .versions = {{Opset::ios16,
                  {{"nonzero_data", kFloat | kInt8, 0, kConst},
                   {"mask", only(DType::uint8), 0, kConst},
                   {"shape", only(DType::uint32) | kInt32, 0, kConst}}},
                 {Opset::ios18,
                  {{"nonzero_data", kPacked, 0, kConst}, {"mask", only(DType::uint1), 0, kConst}}}},
    .doc = "the stored values where the mask has a one, 0 elsewhere",
    .infer = infer,
    .store = store,
}};

}  // namespace

std::span<const Op> ops_constexpr_sparse() { return kOps; }

}  // namespace anemone::ops
