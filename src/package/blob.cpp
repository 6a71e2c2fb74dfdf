#include "package/blob.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/pages.h"
#include "base/shape.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

struct DTypeCode {
  DType dtype;
  uint32_t code;
};
constexpr DTypeCode kCodes[] = {
    {DType::fp16, 1},      {DType::fp32, 2},   {DType::uint8, 3},   {DType::int8, 4},
    {DType::bf16, 5},      {DType::int16, 6},  {DType::uint16, 7},  {DType::int4, 8},
    {DType::uint1, 9},     {DType::uint2, 10}, {DType::uint4, 11},  {DType::uint3, 12},
    {DType::uint6, 13},    {DType::int32, 14}, {DType::uint32, 15}, {DType::fp8_e4m3fn, 16},
    {DType::fp8_e5m2, 17},
};

std::string code_name(uint32_t code) {
  for (const DTypeCode& entry : kCodes)
    if (entry.code == code) return std::string(dtype_name(entry.dtype));
  return fmt::format("the unknown code {}", code);
}

}  // namespace

uint32_t blob_dtype_code(DType dtype) {
  for (const DTypeCode& entry : kCodes)
    if (entry.dtype == dtype) return entry.code;
  return 0;
}

BlobFile::BlobFile(const fs::path& path, BlobUse use) : file_(MappedFile::open(path)) {
  if (use == BlobUse::run) {
    prefer_large_pages(file_->bytes());
    check_header();
    return;
  }
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) throw errorf("cannot be opened: {}", std::strerror(errno)).at(path.string());
#ifdef POSIX_FADV_RANDOM
  ::posix_fadvise(fd_, 0, 0,
                  POSIX_FADV_RANDOM);  // records lie far apart: reading ahead would read the weights
#endif
  try {
    check_header();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

BlobFile::BlobFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) { check_header(); }

BlobFile::~BlobFile() {
  if (fd_ >= 0) ::close(fd_);
}

void BlobFile::check_header() const {
  uint32_t header[2];
  read(0, header, sizeof header, "the header of the weight file");
  if (header[1] != kBlobVersion)
    throw Error("is not a supported weight file")
        .at(file_->path())
        .found(fmt::format("version {}", header[1]))
        .expected("version 2");
}

void BlobFile::read(uint64_t offset, void* out, size_t size, const char* what) const {
  if (fd_ < 0) {
    std::memcpy(out, file_->slice(offset, size, what).data(), size);
    return;
  }
  if (offset > file_->size() || size > file_->size() - offset) file_->slice(offset, size, what);  // throws
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(fd_, static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw errorf("{} cannot be read: {}", what, got < 0 ? std::strerror(errno) : "the file shrank")
          .at(file_->path());
    done += static_cast<size_t>(got);
  }
}

Blob BlobFile::blob(std::string file_name, uint64_t offset, const Type& type) const {
  const auto fail = [&](std::string message) {
    return Error(std::move(message)).at(fmt::format("{}: blob at {}", file_->path(), offset));
  };
  if (offset % kBlobAlignment != 0 || offset == 0)
    throw fail("the offset of a blob is not that of a record").expected("a multiple of 64 past the header");
  BlobRecord record;
  read(offset, &record, sizeof record, "the record of a blob");
  if (record.sentinel != kBlobSentinel)
    throw fail("there is no blob record here").hint("does the weight file belong to this program?");
  if (record.dtype_code != blob_dtype_code(type.dtype))
    throw fail("the blob has another element type than the program says")
        .found(code_name(record.dtype_code))
        .expected(std::string(dtype_name(type.dtype)));
  const uint64_t need = packed_bytes(type.size(), dtype_bits(type.dtype));
  if (record.data_bytes != need)
    throw fail(fmt::format("the blob has the wrong size for {}", type.text()))
        .found(fmt::format("{} bytes", record.data_bytes))
        .expected(fmt::format("{} bytes", need));
  if (record.data_offset > file_->size() || need > file_->size() - record.data_offset)
    throw fail("the blob ends past the end of the file")
        .found(fmt::format("{} bytes at offset {}", need, record.data_offset))
        .expected(fmt::format("at most {} bytes in all", file_->size()))
        .hint("was the download cut short?");
  if (record.data_offset % static_cast<uint64_t>(std::max(1, dtype_bits(type.dtype) / 8)) != 0)
    throw fail("the data of the blob is not aligned to its elements")
        .found(fmt::format("offset {}", record.data_offset));
  if (record.data_offset < kBlobAlignment ||
      (record.data_offset < offset + sizeof record && offset < record.data_offset + need))
    throw fail("the data of the blob overlaps a header")
        .found(fmt::format("offset {}", record.data_offset))
        .expected(fmt::format("{}", offset + sizeof record));
  return Blob{std::move(file_name), offset, record.data_offset, record.data_bytes, file_};
}

BlobFiles::BlobFiles(fs::path root, fs::path model, fs::path weights, BlobUse use)
    : root_(std::move(root)), model_(std::move(model)), weights_(std::move(weights)), use_(use) {}

std::shared_ptr<const BlobFile> BlobFiles::find(const std::string& file_name) {
  if (const auto it = files_.find(file_name); it != files_.end()) return it->second;
  constexpr std::string_view prefix = "@model_path/";
  if (!file_name.starts_with(prefix))
    throw errorf("a weight is in '{}'", file_name).expected("a file under @model_path/");
  fs::path path = path_inside(root_, model_, file_name.substr(prefix.size()));
  if (path.empty() && !weights_.empty()) {
    path = path_inside(root_, weights_, fs::path(file_name).filename().string());
    if (!path.empty()) moved_.insert(file_name);
  }
  std::shared_ptr<const BlobFile> file;
  if (path.empty())
    missing_.insert(file_name);
  else if (!fs::is_regular_file(path))
    throw Error("a weight file is not a regular file").at(path.string());
  else
    file = std::make_shared<const BlobFile>(path, use_);
  files_[file_name] = file;
  return file;
}

Blob BlobFiles::open(const std::string& file_name, uint64_t offset, const Type& type) {
  if (blob_dtype_code(type.dtype) == 0)
    throw errorf("values of {} cannot be stored in a weight file", dtype_name(type.dtype));
  if (const auto file = find(file_name)) return file->blob(file_name, offset, type);
  return Blob{file_name, offset, offset + kBlobAlignment, packed_bytes(type.size(), dtype_bits(type.dtype)),
              nullptr};
}

std::vector<std::shared_ptr<const MappedFile>> BlobFiles::opened() const {
  std::vector<std::shared_ptr<const MappedFile>> out;
  for (const auto& [name, file] : files_)
    if (file) out.push_back(file->file());
  return out;
}

fs::path path_inside(const fs::path& root, const fs::path& folder, const std::string& relative) {
  const fs::path wanted(relative);
  if (relative.empty() || relative.find('\0') != std::string::npos || wanted.is_absolute() ||
      std::ranges::find(wanted, "..") != wanted.end())
    throw errorf("the path '{}' leaves the package", relative).at(root.string());
  std::error_code why;
  const fs::path real = fs::canonical(folder / wanted, why);
  if (why == std::errc::no_such_file_or_directory || why == std::errc::not_a_directory) return {};
  if (why) throw errorf("the path '{}' cannot be followed: {}", relative, why.message()).at(root.string());
  const fs::path real_root = fs::canonical(root);
  if (std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end()).first != real_root.end())
    throw errorf("the path '{}' leads outside the package, to '{}'", relative, real.string())
        .at(root.string())
        .hint("copy the package with links followed (cp -rL)");
  return real;
}

}  // namespace anemone
