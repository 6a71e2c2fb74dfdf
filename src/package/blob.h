// Blob storage v2: the weight file of a package. Little-endian throughout.
//     BlobFiles files(model_folder, weights_folder, package_root);
//     Blob blob = files.open("@model_path/weights/weight.bin", 64, type);
//
// | bytes | header, at offset 0            | record, 64 bytes in front of each blob's data         |
// | 0-3   | u32 number of blobs            | u32 sentinel 0xDEADBEEF                               |
// | 4-7   | u32 version 2                  | u32 dtype code                                        |
// | 8-15  | zero                           | u64 size of the data in bytes                         |
// | 16-23 | zero                           | u64 offset of the data in the file                    |
// | 24-31 | zero                           | u64 unused high bits of the last byte (sub-byte types) |
// | 32-63 | zero                           | zero                                                  |
// Records start at multiples of 64. Files from before iOS 18 may hold anything in the last 40 bytes of a
// record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "mil/constant.h"

namespace anemone {

inline constexpr uint64_t kBlobAlignment = 64;
inline constexpr uint32_t kBlobSentinel = 0xDEADBEEF;
inline constexpr uint32_t kBlobVersion = 2;

struct BlobRecord {
  uint32_t sentinel = kBlobSentinel;
  uint32_t dtype_code = 0;
  uint64_t data_bytes = 0;
  uint64_t data_offset = 0;
  uint64_t padding_bits = 0;
  uint8_t reserved[32] = {};
};
static_assert(sizeof(BlobRecord) == kBlobAlignment);

// The code of an element type in a weight file; 0 for one that cannot lie there (bool, string, 64-bit types).
uint32_t blob_dtype_code(DType dtype);

// look: records are read with plain reads, so that opening a package touches no page of its weights. run: the weights
// will be read as well, and are kept in large pages from the first read on.
enum class BlobUse { look, run };

// One weight file: its mapping, and the records read from it one by one.
class BlobFile {
 public:
  BlobFile(const std::filesystem::path& path, BlobUse use);
  explicit BlobFile(std::shared_ptr<const MappedFile> file);  // bytes in memory
  ~BlobFile();
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;

  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  // The blob whose record stands at `offset`, checked against the type that names it.
  Blob blob(std::string file_name, uint64_t offset, const Type& type) const;

 private:
  void read(uint64_t offset, void* out, size_t size, const char* what) const;
  void check_header() const;

  std::shared_ptr<const MappedFile> file_;
  int fd_ = -1;
};

// The weight files of one package, opened when first named. A file that is not there gives blobs without
// bytes.
class BlobFiles {
 public:
  // model: the folder that "@model_path" stands for. weights: where the manifest says that weights are; may
  // be empty. root: what no file may lie outside of.
  BlobFiles(std::filesystem::path root, std::filesystem::path model, std::filesystem::path weights,
            BlobUse use = BlobUse::look);

  Blob open(const std::string& file_name, uint64_t offset, const Type& type);
  // Opens a file that blobs will name, if it is there.
  void open_file(const std::string& file_name) { find(file_name); }
  // The files that were opened so far.
  std::vector<std::shared_ptr<const MappedFile>> opened() const;
  // Names that blobs refer to and that are not there.
  const std::set<std::string>& missing() const { return missing_; }
  // Names of files that are in the folder of weights, and not where the name says.
  const std::set<std::string>& moved() const { return moved_; }

 private:
  std::shared_ptr<const BlobFile> find(const std::string& file_name);

  std::filesystem::path root_, model_, weights_;
  BlobUse use_;
  std::map<std::string, std::shared_ptr<const BlobFile>> files_;
  std::set<std::string> missing_, moved_;
};

// `relative` under `folder`, as a path that exists and, links followed, lies inside `root`; empty when
// nothing is there. Throws Error for an absolute path, one with "..", or one that leads outside.
std::filesystem::path path_inside(const std::filesystem::path& root, const std::filesystem::path& folder,
                                  const std::string& relative);

}  // namespace anemone
