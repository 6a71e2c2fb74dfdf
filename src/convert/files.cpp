#include "convert/files.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "convert/weights.h"
#include "kernels/convert.h"
#include "kernels/quantize.h"

namespace anemone {
namespace {

namespace fs = std::filesystem;

// A file that is filled from several threads, each at its own place.
class WritableFile {
 public:
  explicit WritableFile(const fs::path& path)
      : path_(path.string()), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) throw errorf("cannot be written: {}", std::strerror(errno)).at(path_);
  }
  ~WritableFile() { ::close(fd_); }
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;

  void write(uint64_t offset, const void* data, size_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = ::pwrite(fd_, at, bytes, static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        throw errorf("writing failed: {}", std::strerror(errno)).at(path_).hint("is the disk full?");
      at += n;
      offset += static_cast<uint64_t>(n);
      bytes -= static_cast<size_t>(n);
    }
  }

 private:
  std::string path_;
  int fd_;
};

constexpr int64_t kTileRows = 64;

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

void write_vocabulary(const GgufFile& gguf, const fs::path& path) {
  std::string values;
  uint64_t count = 0;
  for (const GgufValue& v : gguf.values()) {
    if (!v.key.starts_with("tokenizer.") && v.key != "general.architecture" && v.key != "general.name")
      continue;
    append_string(values, v.key);
    if (v.is_array) {
      append(values, static_cast<uint32_t>(GgufType::array));
      append(values, static_cast<uint32_t>(v.type));
      append(values, v.count);
    } else {
      append(values, static_cast<uint32_t>(v.type));
    }
    values.append(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size());
    ++count;
  }
  std::string out = "GGUF";
  append(out, uint32_t{3});
  append(out, uint64_t{0});
  append(out, count);
  out += values;
  out.resize((out.size() + 31) / 32 * 32, '\0');
  write_text(path, out);
}

}  // namespace

void write_text(const fs::path& path, const std::string& text) {
  const WritableFile file(path);
  file.write(0, text.data(), text.size());
}

void write_embedding_table(const TensorReader& tensor, const WeightRef& ref, const fs::path& folder,
                           const BundleInfo& info, ThreadPool& pool) {
  const WritableFile table(folder / info.embedding_file);
  const bool int8 = info.embedding_dtype == "int8";
  std::vector<float> scales(int8 ? static_cast<size_t>(ref.rows()) : 0);
  const int64_t columns = ref.columns, element = int8 ? 1 : 2;
  pool.parallel_for(ref.rows(), kTileRows, [&](int64_t begin, int64_t end) {
    std::vector<float> tile;
    std::vector<std::byte> packed;
    for (int64_t r = begin; r < end; r += kTileRows) {
      const int64_t stop = std::min(end, r + kTileRows);
      tile.resize(static_cast<size_t>((stop - r) * columns));
      packed.resize(tile.size() * static_cast<size_t>(element));
      read_weight_rows(tensor, ref, r, stop, tile);
      const float most = largest_magnitude(tile.data(), static_cast<int64_t>(tile.size()));
      if (!(most <= kHalfMax))
        throw errorf("a value of '{}' leaves the range of fp16", ref.tensor).found(fmt::format("{}", most));
      if (!int8) {
        floats_to_halves(tile.data(), static_cast<int64_t>(tile.size()),
                         reinterpret_cast<uint16_t*>(packed.data()));
      } else {
        for (int64_t i = r; i < stop; ++i) {
          const float* row = tile.data() + (i - r) * columns;
          const float largest = largest_magnitude(row, columns);
          const float scale = largest > 0 ? largest / 127.0f : 1.0f;
          scales[static_cast<size_t>(i)] = scale;
          quantize_int8(row, columns, 1 / scale,
                        reinterpret_cast<int8_t*>(packed.data()) + (i - r) * columns);
        }
      }
      table.write(static_cast<uint64_t>(r * columns * element), packed.data(), packed.size());
    }
    tensor.release_rows(ref.row_begin + begin, ref.row_begin + end);
  });
  if (int8)
    WritableFile(folder / info.embedding_scales).write(0, scales.data(), scales.size() * sizeof(float));
}

std::string write_tokenizer(const Checkpoint& checkpoint, const fs::path& folder) {
  if (checkpoint.format() == CheckpointFormat::gguf) {
    if (!checkpoint.gguf().find("tokenizer.ggml.model")) return "";
    write_vocabulary(checkpoint.gguf(), folder / "tokenizer.gguf");
    return "tokenizer.gguf";
  }
  std::string main;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                           "special_tokens_map.json", "chat_template.jinja", "generation_config.json"}) {
    const fs::path from = checkpoint.folder() / name;
    std::error_code why;
    if (!fs::exists(from, why)) continue;
    if (!fs::is_regular_file(from, why))
      throw Error("is no file").at(from.string()).hint("the bundle needs what a tokenizer is made of");
    if (!fs::copy_file(from, folder / name, why))
      throw errorf("cannot be copied: {}", why.message()).at(from.string());
    if (main.empty() && std::string_view(name).starts_with("tokenizer.")) main = name;
  }
  return main;
}

fs::path tokenizer_source(const Checkpoint& checkpoint) {
  return checkpoint.format() == CheckpointFormat::gguf ? checkpoint.path() : checkpoint.folder();
}

std::vector<BundleFile> hash_files(const fs::path& folder, ThreadPool& pool) {
  std::vector<BundleFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files.push_back({fs::relative(entry.path(), folder).generic_string(), entry.file_size(), ""});
  std::sort(files.begin(), files.end(),
            [](const BundleFile& a, const BundleFile& b) { return a.path < b.path; });
  pool.parallel_for(static_cast<int64_t>(files.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      BundleFile& f = files[static_cast<size_t>(i)];
      const auto mapped = MappedFile::open(folder / f.path);
      XXH3_state_t* state = XXH3_createState();
      XXH3_64bits_reset(state);
      constexpr uint64_t kChunk = 8 << 20;  // hashed pages go back at once
      for (uint64_t at = 0; at < f.bytes; at += kChunk) {
        const uint64_t n = std::min(kChunk, f.bytes - at);
        XXH3_64bits_update(state, mapped->bytes().data() + at, n);
        mapped->release(at, n);
      }
      f.xxh3 = fmt::format("{:016x}", XXH3_64bits_digest(state));
      XXH3_freeState(state);
    }
  });
  return files;
}

}  // namespace anemone
