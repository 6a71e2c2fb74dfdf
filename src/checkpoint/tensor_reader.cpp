#include "checkpoint/tensor_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"
#include "base/thread_pool.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

void decode(const ElementSource& source, int64_t begin, int64_t count, float* out) {
  source.read(begin, count, out);
}
void decode(const ElementSource& source, int64_t begin, int64_t count, uint16_t* out) {
  source.read_halves(begin, count, out);
}

}  // namespace

TensorReader::TensorReader(std::string name, std::vector<int64_t> shape,
                           std::shared_ptr<const ElementSource> source)
    : name_(std::move(name)), shape_(std::move(shape)), source_(std::move(source)) {
  const int64_t elements = element_count(shape_);
  if (!shape_.empty()) rows_ = shape_.front();
  row_elements_ = rows_ > 0 ? elements / rows_ : 0;
}

TensorReader::TensorReader(std::shared_ptr<const MappedFile> file, std::string name, BlockType type,
                           std::vector<int64_t> shape, uint64_t offset)
    : TensorReader(std::move(name), shape,
                   std::make_shared<BlockSource>(std::move(file), type, element_count(shape), offset)) {}

void TensorReader::expect_floats() const {
  if (!decodes())
    throw errorf("tensor '{}' cannot be read as floats", printable(name_))
        .at(file())
        .found(std::string(type_name()))
        .expected("a floating-point or quantized type");
}

template <class Out>
void TensorReader::read(int64_t begin, int64_t end, std::span<Out> out) const {
  expect_floats();
  if (begin < 0 || begin > end || end > rows_)
    throw errorf("tensor '{}' has no rows {} to {}", printable(name_), begin, end)
        .at(file())
        .found(shape_text(shape_));
  const int64_t count = (end - begin) * row_elements_;
  if (out.size() != static_cast<size_t>(count))
    throw errorf("rows {} to {} of tensor '{}' do not fit the buffer given", begin, end, printable(name_))
        .found(fmt::format("room for {} elements", out.size()))
        .expected(std::to_string(count));
  decode(*source_, begin * row_elements_, count, out.data());
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
        .at(file())
        .found(shape_text(shape_));
  if (out.size() != static_cast<size_t>(end - begin))
    throw errorf("elements {} to {} of tensor '{}' do not fit the buffer given", begin, end, printable(name_))
        .found(fmt::format("room for {} elements", out.size()))
        .expected(std::to_string(end - begin));
  source_->read(begin, end - begin, out.data());
}

template <class Out>
void TensorReader::read_parallel(ThreadPool& pool, std::span<Out> out) const {
  // By elements, not rows: a stack of matrices has few rows. A whole number of blocks of any type, about a
  // MiB of output.
  constexpr int64_t kTile = int64_t{1} << 18;
  const int64_t total = elements();
  if (total == 0 || !decodes() || out.size() != static_cast<size_t>(total))
    return read(0, rows_, out);  // nothing to do, or says what is wrong
  pool.parallel_for((total + kTile - 1) / kTile, 1, [&](int64_t first, int64_t last) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t begin = tile * kTile, count = std::min(kTile, total - begin);
      decode(*source_, begin, count, out.data() + begin);
      source_->release(begin, begin + count);
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
  source_->release(begin, end);
}

}  // namespace anemone
