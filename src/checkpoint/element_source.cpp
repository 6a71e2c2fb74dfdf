#include "checkpoint/element_source.h"

#include <vector>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/dequant.h"

namespace anemone {

void ElementSource::read_halves(int64_t begin, int64_t count, uint16_t* out) const {
  std::vector<float> floats(static_cast<size_t>(count));
  read(begin, count, floats.data());
  floats_to_halves(floats.data(), count, out);
}

BlockSource::BlockSource(std::shared_ptr<const MappedFile> file, BlockType type, int64_t elements,
                         uint64_t offset)
    : file_(std::move(file)), info_(block_info(type)), offset_(offset) {
  ANEMONE_CHECK(info_);
  ANEMONE_CHECK(elements % info_->elements == 0);
  bytes_ = file_->slice(offset_, block_bytes(*info_, elements), "tensor");
}

void BlockSource::read(int64_t begin, int64_t count, float* out) const {
  decode_range(info_->type, bytes_.data(), begin, count, out);
}
void BlockSource::read_halves(int64_t begin, int64_t count, uint16_t* out) const {
  decode_range(info_->type, bytes_.data(), begin, count, out);
}

void BlockSource::release(int64_t begin, int64_t end) const noexcept {
  // A range need not end with a block; whole blocks are released, page by page, and can be read again.
  const uint64_t first = block_bytes(*info_, begin), last = block_bytes(*info_, end);
  file_->release(offset_ + first, last - first);
}

}  // namespace anemone
