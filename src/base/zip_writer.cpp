#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/zip.h"

namespace anemone {
namespace {

constexpr uint64_t kBig = 0xffffffff;
constexpr size_t kPart = size_t{1} << 30;

class Record {
 public:
  template <class T>
  Record& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Record& text(const std::string& value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

uint32_t capped(uint64_t value) { return static_cast<uint32_t>(std::min(value, kBig)); }

std::string deflate_all(std::span<const std::span<const std::byte>> pieces) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error("zlib cannot be started");
  std::string out, buffer(size_t{1} << 18, '\0');
  const auto run = [&](int flush) {
    int status = Z_OK;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream.avail_out = static_cast<uInt>(buffer.size());
      status = deflate(&stream, flush);
      out.append(buffer.data(), buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0 && status != Z_STREAM_END);
  };
  for (auto piece : pieces)
    while (!piece.empty()) {
      const auto part = piece.first(std::min(piece.size(), kPart));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
      stream.avail_in = static_cast<uInt>(part.size());
      run(Z_NO_FLUSH);
      piece = piece.subspan(part.size());
    }
  run(Z_FINISH);
  deflateEnd(&stream);
  return out;
}

}  // namespace

ZipWriter::ZipWriter(const std::filesystem::path& path) : path_(path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status there = fs::status(path, ignored);
  if (fs::is_directory(there)) throw Error("cannot be written: it is a folder").at(path.string());
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    // A link stays a link: what it points to is replaced.
    const bool link = fs::is_symlink(fs::symlink_status(path, ignored));
    staged_ = std::make_unique<StagedOutput>(link ? fs::weakly_canonical(path, ignored) : path, true);
  }
  file_ = std::fopen((staged_ ? staged_->path() : path).c_str(), "wbe");
  if (!file_) throw errorf("cannot be written: {}", std::strerror(errno)).at(path_.string());
}

ZipWriter::~ZipWriter() {
  if (file_) std::fclose(file_);
}

void ZipWriter::write(const void* data, size_t size) {
  if (size != 0 && std::fwrite(data, 1, size, file_) != size)
    throw errorf("cannot be written: {}", std::strerror(errno)).at(path_.string());
  offset_ += size;
}

void ZipWriter::write_header(const ZipEntry& entry, bool central) {
  const bool big = entry.bytes >= kBig || entry.packed_bytes >= kBig;
  const bool far = central && entry.header_offset >= kBig;
  constexpr uint16_t kTime = 0, kDate = 0x21;  // 1980-01-01: archives of equal members are equal
  Record extra;
  if (big) extra.put<uint64_t>(entry.bytes).put<uint64_t>(entry.packed_bytes);
  if (far) extra.put<uint64_t>(entry.header_offset);
  Record field;
  if (big || far) field.put<uint16_t>(1).put(static_cast<uint16_t>(extra.bytes().size())).text(extra.bytes());
  const uint16_t version = big || far ? 45 : 20;
  Record out;
  out.put<uint32_t>(central ? 0x02014b50 : 0x04034b50);
  if (central) out.put(version);
  out.put(version).put<uint16_t>(0).put<uint16_t>(entry.deflated ? 8 : 0).put(kTime).put(kDate);
  out.put(entry.crc);
  out.put(big ? uint32_t{0xffffffff} : capped(entry.packed_bytes))
      .put(big ? uint32_t{0xffffffff} : capped(entry.bytes));
  out.put(static_cast<uint16_t>(entry.name.size())).put(static_cast<uint16_t>(field.bytes().size()));
  if (central)
    out.put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0).put(capped(entry.header_offset));
  out.text(entry.name).text(field.bytes());
  write(out.bytes().data(), out.bytes().size());
}

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> pieces,
                    bool deflate) {
  if (name.size() > 0xffff) throw errorf("a member name of {} bytes is too long", name.size());
  ZipEntry entry;
  entry.name = name;
  entry.deflated = deflate;
  entry.header_offset = offset_;
  for (const auto piece : pieces) {
    if (piece.empty()) continue;  // zlib's checksum starts anew for a null pointer
    entry.bytes += piece.size();
    entry.crc =
        static_cast<uint32_t>(crc32_z(entry.crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
  }
  const std::string packed = deflate ? deflate_all(pieces) : std::string();
  entry.packed_bytes = deflate ? packed.size() : entry.bytes;
  write_header(entry, false);
  if (deflate)
    write(packed.data(), packed.size());
  else
    for (const auto piece : pieces) write(piece.data(), piece.size());
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t directory = offset_;
  for (const ZipEntry& entry : entries_) write_header(entry, true);
  const uint64_t size = offset_ - directory;
  const uint64_t count = entries_.size();
  Record out;
  if (directory >= kBig || size >= kBig || count >= 0xffff) {
    const uint64_t end64 = offset_;
    out.put<uint32_t>(0x06064b50)
        .put<uint64_t>(44)
        .put<uint16_t>(45)
        .put<uint16_t>(45)
        .put<uint32_t>(0)
        .put<uint32_t>(0);
    out.put(count).put(count).put(size).put(directory);
    out.put<uint32_t>(0x07064b50).put<uint32_t>(0).put(end64).put<uint32_t>(1);
  }
  const auto short_count = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  out.put<uint32_t>(0x06054b50).put<uint16_t>(0).put<uint16_t>(0).put(short_count).put(short_count);
  out.put(capped(size)).put(capped(directory)).put<uint16_t>(0);
  write(out.bytes().data(), out.bytes().size());
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) throw errorf("cannot be written: {}", std::strerror(errno)).at(path_.string());
  if (staged_) staged_->commit();
}

}  // namespace anemone
