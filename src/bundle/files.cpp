#include "bundle/files.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "package/blob.h"

namespace anemone {

namespace fs = std::filesystem;

WritableFile::WritableFile(const fs::path& path)
    : path_(path.string()), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw errorf("cannot be written: {}", std::strerror(errno)).at(path_);
}

WritableFile::~WritableFile() { ::close(fd_); }

void WritableFile::write(uint64_t offset, const void* data, size_t bytes) const {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw errorf("writing failed: {}", std::strerror(errno)).at(path_).hint("is the disk full?");
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

fs::path find_inside(const fs::path& bundle, const std::string& name) {
  const fs::path path = path_inside(bundle, bundle, name);
  if (path.empty()) throw errorf("'{}' is missing", name).at(bundle.string()).hint("copy the bundle again");
  return path;
}

void write_text(const fs::path& path, const std::string& text) {
  const WritableFile file(path);
  file.write(0, text.data(), text.size());
}

std::string write_tokenizer(const Checkpoint& checkpoint, const fs::path& folder) {
  const TokenizerSource source = checkpoint.tokenizer();
  for (const TokenizerFile& file : source.files) {
    if (file.from.empty()) {
      write_text(folder / file.name, file.made);
      continue;
    }
    std::error_code why;
    if (!fs::is_regular_file(file.from, why))
      throw Error("is no file").at(file.from.string()).hint("the bundle needs the files of its tokenizer");
    if (!fs::copy_file(file.from, folder / file.name, why))
      throw errorf("cannot be copied: {}", why.message()).at(file.from.string());
  }
  return source.main;
}

uint64_t folder_bytes(const fs::path& folder) {
  uint64_t out = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out += entry.file_size();
  return out;
}

std::string file_hash(const fs::path& path) {
  const auto mapped = MappedFile::open(path);
  const uint64_t bytes = mapped->size();
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  constexpr uint64_t kChunk = 8 << 20;  // hashed pages go back at once
  for (uint64_t at = 0; at < bytes; at += kChunk) {
    const uint64_t n = std::min(kChunk, bytes - at);
    XXH3_64bits_update(state, mapped->bytes().data() + at, n);
    mapped->release(at, n);
  }
  const uint64_t digest = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}", digest);
}

std::vector<std::string> damaged_files(const fs::path& bundle, const BundleInfo& info, bool hashes,
                                       ThreadPool& pool) {
  std::vector<std::string> faults(info.files.size());
  pool.parallel_for(static_cast<int64_t>(faults.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const BundleFile& file = info.files[static_cast<size_t>(i)];
      std::string& fault = faults[static_cast<size_t>(i)];
      std::error_code why;
      const fs::path path = path_inside(bundle, bundle, file.path);
      const uint64_t size = path.empty() ? 0 : fs::file_size(path, why);
      if (path.empty() || why)
        fault = fmt::format("{} is missing", file.path);
      else if (size != file.bytes)
        fault = fmt::format("{} has {} bytes instead of {}", file.path, size, file.bytes);
      else if (hashes && !file.xxh3.empty())
        if (const std::string found = file_hash(path); found != file.xxh3)
          fault = fmt::format("{} is damaged: its XXH3 is {}, and bundle.json says {}", file.path, found,
                              file.xxh3);
    }
  });
  std::erase_if(faults, [](const std::string& fault) { return fault.empty(); });
  return faults;
}

std::vector<BundleFile> hash_files(const fs::path& folder, ThreadPool& pool) {
  std::vector<BundleFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files.push_back({fs::relative(entry.path(), folder).generic_string(), entry.file_size(), ""});
  std::sort(files.begin(), files.end(),
            [](const BundleFile& a, const BundleFile& b) { return a.path < b.path; });
  pool.parallel_for(static_cast<int64_t>(files.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      files[static_cast<size_t>(i)].xxh3 = file_hash(folder / files[static_cast<size_t>(i)].path);
  });
  return files;
}

}  // namespace anemone
