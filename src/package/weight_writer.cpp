#include "package/weight_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/thread_pool.h"
#include "package/blob.h"

namespace anemone {
namespace {

constexpr uint64_t kPartBytes = uint64_t{4} << 20;     // one task
constexpr uint64_t kBatchBytes = uint64_t{128} << 20;  // tasks in flight: what may be mapped or dirty at once
constexpr uint64_t kLargePage = uint64_t{2} << 20;
constexpr int64_t kRowUnit = 8;  // rows of any bit width fill whole bytes

class File {
 public:
  File(const std::filesystem::path& path, int flags)
      : path_(path), fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("opened");
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }

  void resize(uint64_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail("written");
  }

  void write(uint64_t offset, std::span<const std::byte> data) const {
    while (!data.empty()) {
      const ssize_t done = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("written");
      data = data.subspan(static_cast<size_t>(done));
      offset += static_cast<uint64_t>(done);
    }
  }

  [[noreturn]] void fail(const char* what) const {
    throw errorf("cannot be {}: {}", what, std::strerror(errno)).at(path_.string());
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

// A range of a blob: bytes where the data exists, rows where a source makes it.
struct Part {
  const FileBlob* blob;
  uint64_t begin, end;
};

class Writer {
 public:
  Writer(const WeightLayout& layout, const std::filesystem::path& path)
      : layout_(layout), out_(path, O_WRONLY | O_CREAT | O_TRUNC) {}

  void run(ThreadPool& pool) {
    out_.resize(layout_.file_bytes);
    touch(std::min(kLargePage, layout_.file_bytes), pool);
    const uint32_t header[2] = {static_cast<uint32_t>(layout_.blobs.size()), kBlobVersion};
    out_.write(0, std::as_bytes(std::span(header)));
    for (const bool late : {false, true}) {
      for (const FileBlob& blob : layout_.blobs) {
        if ((blob.source && blob.source->late()) != late) continue;
        add_parts(blob);
        if (batch_bytes_ >= kBatchBytes) flush(pool);
      }
      flush(pool);
    }
  }

 private:
  void write_record(const FileBlob& blob) const {
    BlobRecord record;
    record.dtype_code = blob_dtype_code(blob.dtype);
    record.data_bytes = blob.bytes;
    record.data_offset = blob.data_offset();
    record.padding_bits =
        blob.bytes * 8 - static_cast<uint64_t>(blob.elements) * static_cast<uint64_t>(dtype_bits(blob.dtype));
    out_.write(blob.record_offset, std::as_bytes(std::span(&record, 1)));
  }

  // The first write to a place decides how large the pages are that the system keeps of it. Only large ones can be
  // mapped as such later, which is what the engine reads fastest (base/pages.h). So whole large pages are written
  // first, up to where the next writes end.
  void touch(uint64_t end, ThreadPool& pool) {
#ifdef __linux__
    const uint64_t from = touched_ / kLargePage, to = (end + kLargePage - 1) / kLargePage;
    if (layout_.file_bytes < kLargePage || to <= from) return;
    static const std::vector<std::byte> zeros(kLargePage);
    pool.parallel_for(static_cast<int64_t>(to - from), 1, [&](int64_t first, int64_t last) {
      for (uint64_t page = from + static_cast<uint64_t>(first); page < from + static_cast<uint64_t>(last);
           ++page) {
        const uint64_t at = page * kLargePage;
        out_.write(at, std::span(zeros).first(std::min(kLargePage, layout_.file_bytes - at)));
      }
    });
    touched_ = to * kLargePage;
#else
    static_cast<void>(end), static_cast<void>(pool);
#endif
  }

  void add_parts(const FileBlob& blob) {
    blobs_.push_back(&blob);
    uint64_t count = blob.bytes, step = kPartBytes;
    if (blob.source) {
      count = row_count(blob);
      const uint64_t row_bytes = std::max<uint64_t>(1, blob.bytes / std::max<uint64_t>(1, count));
      step = std::max<uint64_t>(1, kPartBytes / row_bytes / kRowUnit) * kRowUnit;
    }
    for (uint64_t at = 0; at < count; at += step) parts_.push_back({&blob, at, std::min(count, at + step)});
    batch_bytes_ += blob.bytes;
  }

  static uint64_t row_count(const FileBlob& blob) {
    const Type& type = blob.source->type();
    return type.rank() == 0 ? 1 : static_cast<uint64_t>(type.dim(0).size());
  }

  void flush(ThreadPool& pool) {
    uint64_t size = 0;
    for (const FileBlob* blob : blobs_) size = std::max(size, blob->data_offset() + blob->bytes);
    touch(size, pool);
    for (const FileBlob* blob : blobs_) write_record(*blob);
    pool.parallel_for(static_cast<int64_t>(parts_.size()), 1, [&](int64_t begin, int64_t end) {
      Constant::Bytes buffer;
      for (int64_t i = begin; i < end; ++i) write_part(parts_[static_cast<size_t>(i)], buffer);
    });
    blobs_.clear();
    parts_.clear();
    batch_bytes_ = 0;
  }

  void write_part(const Part& part, Constant::Bytes& buffer) const {
    const FileBlob& blob = *part.blob;
    if (!blob.source) {
      const auto data = blob.data.subspan(part.begin, part.end - part.begin);
      out_.write(blob.data_offset() + part.begin, data);
      if (blob.file)
        blob.file->release(static_cast<uint64_t>(data.data() - blob.file->bytes().data()), data.size());
      return;
    }
    const uint64_t rows = row_count(blob);
    const uint64_t row_bits =
        static_cast<uint64_t>(blob.elements) / rows * static_cast<uint64_t>(dtype_bits(blob.dtype));
    const uint64_t begin = part.begin * row_bits / 8;
    const uint64_t end = part.end == rows ? blob.bytes : part.end * row_bits / 8;
    buffer.assign(end - begin, std::byte{0});
    blob.source->rows(static_cast<int64_t>(part.begin), static_cast<int64_t>(part.end), buffer);
    out_.write(blob.data_offset() + begin, buffer);
  }

  const WeightLayout& layout_;
  File out_;
  std::vector<const FileBlob*> blobs_;
  std::vector<Part> parts_;
  uint64_t batch_bytes_ = 0;
  [[maybe_unused]] uint64_t touched_ = 0;  // bytes that lie in large pages
};

}  // namespace

void write_weights(const WeightLayout& layout, const std::filesystem::path& path, ThreadPool& pool) {
  if (layout.blobs.size() > UINT32_MAX)
    throw Error("a weight file cannot hold so many blobs").at(path.string());
  Writer(layout, path).run(pool);
}

}  // namespace anemone
