// MappedFile: the bytes of a file, mapped read-only and shared by all views of them.
//     auto file = MappedFile::open("weight.bin");
//     std::span<const std::byte> head = file->slice(0, 64, "header");
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace anemone {

class MappedFile {
 public:
  // Throws Error when the path is not a readable regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  // Bytes that live in memory, under a name for messages; for tests and fuzzers.
  static std::shared_ptr<const MappedFile> from_bytes(std::string name, std::string bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // The bytes [offset, offset + size); throws Error naming `what` when they are not all inside the file.
  std::span<const std::byte> slice(uint64_t offset, uint64_t size, std::string_view what) const;
  // Returns the pages that are completely inside the range to the system; reading them again maps them again.
  void release(uint64_t offset, uint64_t size) const noexcept;

 private:
  MappedFile() = default;

  std::string path_;
  std::string owned_;  // from_bytes only
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace anemone
