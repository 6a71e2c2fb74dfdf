// Files of a bundle beside its packages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bundle/bundle_info.h"
#include "checkpoint/checkpoint.h"

namespace anemone {

class ThreadPool;

// A file that is filled from several threads, each at its own place.
class WritableFile {
 public:
  explicit WritableFile(const std::filesystem::path& path);
  ~WritableFile();
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  void write(uint64_t offset, const void* data, size_t bytes) const;

 private:
  std::string path_;
  int fd_;
};

// Where a file or a package lies that bundle.json names; Error when it is not there, or outside the bundle.
std::filesystem::path find_inside(const std::filesystem::path& bundle, const std::string& name);

void write_text(const std::filesystem::path& path, const std::string& text);

// The files that the checkpoint's tokenizer is made of. The name of the main one; empty when it has none.
std::string write_tokenizer(const Checkpoint& checkpoint, const std::filesystem::path& folder);

// Of all files below the folder.
uint64_t folder_bytes(const std::filesystem::path& folder);

// What is wrong with the files that bundle.json lists, a sentence each: missing, of another size, and with `hashes` of
// another content.
std::vector<std::string> damaged_files(const std::filesystem::path& bundle, const BundleInfo& info,
                                       bool hashes, ThreadPool& pool);

// XXH3 of a file, 16 hex digits, as bundle.json has it.
std::string file_hash(const std::filesystem::path& path);

// Every file below the folder with its size and XXH3, sorted by path.
std::vector<BundleFile> hash_files(const std::filesystem::path& folder, ThreadPool& pool);

}  // namespace anemone
