// Zip archives, as far as .npz needs them: stored and deflated members, zip64, no encryption.
//     ZipReader zip(bytes, "a.npz");
//     for (const ZipEntry& entry : zip.entries()) zip.extract(entry, 0, out);
// A reader trusts nothing. It checks that members are inside the archive and do not overlap, that a declared size is
// possible for the packed bytes, and that checksums match.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/staged.h"

namespace anemone {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header_offset = 0;
  uint64_t data_offset = 0;
};

class ZipReader {
 public:
  // The bytes must outlive the reader; `name` is for messages.
  ZipReader(std::span<const std::byte> bytes, std::string name);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // The first bytes of a member, `limit` at most.
  std::string head(const ZipEntry& entry, size_t limit) const;
  // The member without its first `skip` bytes; `out` has exactly the rest's size.
  void extract(const ZipEntry& entry, uint64_t skip, std::span<std::byte> out) const;

 private:
  void read_directory();
  void read_entry(uint64_t& at);
  void check_overlap() const;

  std::span<const std::byte> bytes_;
  std::string name_;
  std::vector<ZipEntry> entries_;
};

// Writes members one after another; zip64 where a size asks for it. Times are fixed: same members, same
// bytes. A file is written beside its place and put there by finish(): what stood there stays until then.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // A member made of the pieces in order.
  void add(const std::string& name, std::span<const std::span<const std::byte>> pieces, bool deflate);
  // Writes the directory and puts the file in place.
  void finish();

 private:
  void write(const void* data, size_t size);
  void write_header(const ZipEntry& entry, bool central);

  std::filesystem::path path_;
  std::unique_ptr<StagedOutput> staged_;  // none for pipes and devices
  std::FILE* file_ = nullptr;
  uint64_t offset_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace anemone
