#include "checkpoint/tensor_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "base/thread_pool.h"
#include "checkpoint/byte_reader.h"
#include "kernels/dequant.h"

namespace anemone {

TensorReader::TensorReader(std::shared_ptr<const MappedFile> file, std::string name, BlockType type,
                           std::vector<int64_t> shape, uint64_t offset)
    : file_(std::move(file)),
      name_(std::move(name)),
      info_(block_info(type)),
      shape_(std::move(shape)),
      offset_(offset) {
  ANEMONE_CHECK(info_);
  const int64_t elements = element_count(shape_);
  if (!shape_.empty()) rows_ = shape_.front();
  row_elements_ = rows_ > 0 ? elements / rows_ : 0;
  ANEMONE_CHECK(elements % info_->elements == 0);
  file_->slice(offset_, block_bytes(*info_, elements),
               "tensor");  // the readers of the formats checked this already
}

std::span<const std::byte> TensorReader::stored() const {
  return file_->bytes().subspan(offset_, block_bytes(*info_, elements()));
}

void TensorReader::expect_floats() const {
  if (!info_->decodes)
    throw errorf("tensor '{}' cannot be read as floats", printable(name_))
        .at(file_->path())
        .found(std::string(info_->name))
        .expected("a floating-point or quantised type");
}

template <class Out>
void TensorReader::read(int64_t begin, int64_t end, std::span<Out> out) const {
  expect_floats();
  if (begin < 0 || begin > end || end > rows_)
    throw errorf("tensor '{}' has no rows {} to {}", printable(name_), begin, end)
        .at(file_->path())
        .found(shape_text(shape_));
  const int64_t count = (end - begin) * row_elements_;
  if (out.size() != static_cast<size_t>(count))
    throw errorf("rows {} to {} of tensor '{}' do not fit the buffer given", begin, end, printable(name_))
        .found(fmt::format("room for {} elements", out.size()))
        .expected(std::to_string(count));
  decode_range(info_->type, stored().data(), begin * row_elements_, count, out.data());
}

void TensorReader::read_rows(int64_t begin, int64_t end, std::span<float> out) const {
  read(begin, end, out);
}
void TensorReader::read_rows(int64_t begin, int64_t end, std::span<uint16_t> out) const {
  read(begin, end, out);
}

void TensorReader::read_elements(int64_t begin, int64_t end, std::span<float> out) const {
  expect_floats();
  if (begin < 0 || begin > end || end > elements())
    throw errorf("tensor '{}' has no elements {} to {}", printable(name_), begin, end)
        .at(file_->path())
        .found(shape_text(shape_));
  if (out.size() != static_cast<size_t>(end - begin))
    throw errorf("elements {} to {} of tensor '{}' do not fit the buffer given", begin, end, printable(name_))
        .found(fmt::format("room for {} elements", out.size()))
        .expected(std::to_string(end - begin));
  decode_range(info_->type, stored().data(), begin, end - begin, out.data());
}

template <class Out>
void TensorReader::read_parallel(ThreadPool& pool, std::span<Out> out) const {
  // By elements, not rows: a stack of matrices has few rows. A whole number of blocks of any type, about a
  // MiB of output.
  constexpr int64_t kTile = int64_t{1} << 18;
  const int64_t total = elements();
  if (total == 0 || !info_->decodes || out.size() != static_cast<size_t>(total))
    return read(0, rows_, out);  // nothing to do, or says what is wrong
  pool.parallel_for((total + kTile - 1) / kTile, 1, [&](int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t begin = tile * kTile, count = std::min(kTile, total - begin);
      decode_range(info_->type, stored().data(), begin, count, out.data() + begin);
      file_->release(offset_ + block_bytes(*info_, begin), block_bytes(*info_, count));
    }
  });
}

void TensorReader::read_all(ThreadPool& pool, std::span<float> out) const { read_parallel(pool, out); }
void TensorReader::read_all(ThreadPool& pool, std::span<uint16_t> out) const { read_parallel(pool, out); }

std::vector<float> TensorReader::read_floats(ThreadPool& pool) const {
  std::vector<float> out(static_cast<size_t>(elements()));
  read_all(pool, out);
  return out;
}

void TensorReader::release_rows(int64_t begin, int64_t end) const noexcept {
  if (begin < 0 || begin >= end || end > rows_) return;
  release_elements(begin * row_elements_, end * row_elements_);
}

void TensorReader::release_elements(int64_t begin, int64_t end) const noexcept {
  if (begin < 0 || begin >= end || end > elements()) return;
  // A range need not end with a block; whole blocks are released, page by page, and can be read again.
  const uint64_t first = block_bytes(*info_, begin), last = block_bytes(*info_, end);
  file_->release(offset_ + first, last - first);
}

}  // namespace anemone
