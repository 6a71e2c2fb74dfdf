#include "checkpoint/mxfp4_tensors.h"

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";
constexpr int64_t kBlock = 32;       // elements that share a scale
constexpr int64_t kBlockBytes = 16;  // two codes each, the first in the low bits
constexpr float kLevels[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

class Mxfp4Source : public ElementSource {
 public:
  Mxfp4Source(TensorReader codes, TensorReader scales)
      : codes_(std::move(codes)),
        scales_(std::move(scales)),
        code_bytes_(codes_.blocks()->bytes),
        scale_bytes_(scales_.blocks()->bytes) {}

  const std::string& file() const override { return codes_.file(); }
  std::string_view type_name() const override { return "MXFP4"; }
  bool decodes() const override { return true; }
  uint64_t stored_bytes() const override { return code_bytes_.size() + scale_bytes_.size(); }

  void read(int64_t begin, int64_t count, float* out) const override {
    for (int64_t i = begin; i < begin + count; ++i) {
      const auto code = std::to_integer<unsigned>(code_bytes_[static_cast<size_t>(i / 2)]);
      const auto power = std::to_integer<int>(scale_bytes_[static_cast<size_t>(i / kBlock)]);
      *out++ = std::ldexp(kLevels[i % 2 ? code >> 4 : code & 15], power - 127);
    }
  }

  void release(int64_t begin, int64_t end) const noexcept override {
    codes_.release_elements(begin / 2, end / 2);
    scales_.release_elements(begin / kBlock, end / kBlock);
  }

 private:
  TensorReader codes_, scales_;
  std::span<const std::byte> code_bytes_, scale_bytes_;
};

Error broken(const TensorReader& tensor, const std::string& problem) {
  return Error(problem)
      .at(tensor.file())
      .found(fmt::format("'{}' {} of type {}", printable(tensor.name()), shape_text(tensor.shape()),
                         tensor.type_name()));
}

TensorReader join(const TensorReader& codes, const TensorReader& scales, std::string name) {
  std::vector<int64_t> shape = codes.shape();
  if (codes.type_name() != "U8" || shape.size() < 2 || shape.back() != kBlockBytes)
    throw broken(codes, "MXFP4 blocks have another form").expected("U8, with 16 bytes in the last dimension");
  shape.pop_back();
  if (scales.type_name() != "U8" || scales.shape() != shape)
    throw broken(scales, "MXFP4 scales do not fit their blocks").expected("U8 " + shape_text(shape));
  shape.back() *= kBlock;
  return {std::move(name), std::move(shape), std::make_shared<Mxfp4Source>(codes, scales)};
}

}  // namespace

std::vector<TensorReader> join_mxfp4(std::vector<TensorReader> tensors) {
  std::map<std::string, const TensorReader*, std::less<>> by_name;
  for (const TensorReader& t : tensors) by_name.emplace(t.name(), &t);
  const auto other_half = [&](const TensorReader& t, std::string_view own, std::string_view other) {
    const std::string name = t.name().substr(0, t.name().size() - own.size()) + std::string(other);
    const auto at = by_name.find(name);
    if (at == by_name.end())
      throw errorf("tensor '{}' has no '{}' beside it", printable(t.name()), printable(name)).at(t.file());
    return at->second;
  };
  std::vector<TensorReader> out;
  for (const TensorReader& t : tensors) {
    if (t.name().ends_with(kScales)) {
      other_half(t, kScales, kBlocks);
    } else if (t.name().ends_with(kBlocks)) {
      out.push_back(
          join(t, *other_half(t, kBlocks, kScales), t.name().substr(0, t.name().size() - kBlocks.size())));
    } else {
      out.push_back(t);
    }
  }
  return out;
}

}  // namespace anemone
