#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/zip.h"

namespace anemone {
namespace {

// A byte of deflate gives 1032 bytes at most.
constexpr uint64_t kMaxRatio = 1032;
constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint32_t kEntryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;

template <class T>
T load(std::span<const std::byte> bytes, uint64_t at) {
  if (at > bytes.size() || sizeof(T) > bytes.size() - at) throw Error("the zip directory is cut short");
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Inflates from `in`; each call fills `out` whole or throws.
class Inflater {
 public:
  explicit Inflater(std::span<const std::byte> in) : in_(in) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw Error("zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Returns how much there was, which is less than asked for only at the end of the stream.
  size_t read(std::span<std::byte> out) {
    size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) {
        const size_t part = std::min(in_.size(), kPart);
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in_.data()));
        stream_.avail_in = static_cast<uInt>(part);
        in_ = in_.subspan(part);
      }
      const size_t part = std::min(out.size() - done, kPart);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(part);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      done += part - stream_.avail_out;
      if (status == Z_STREAM_END)
        ended_ = true;
      else if (status != Z_OK)
        throw errorf("the packed data is damaged: {}", stream_.msg ? stream_.msg : "it ends too early");
    }
    return done;
  }

 private:
  static constexpr size_t kPart = size_t{1} << 30;
  std::span<const std::byte> in_;
  z_stream stream_{};
  bool ended_ = false;
};

uint32_t checksum(uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;  // zlib starts anew for a null pointer
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

ZipReader::ZipReader(std::span<const std::byte> bytes, std::string name)
    : bytes_(bytes), name_(std::move(name)) {
  try {
    read_directory();
    check_overlap();
  } catch (Error& e) {
    e.within(name_);
    throw;
  }
}

void ZipReader::read_directory() {
  if (bytes_.size() < kEndBytes)
    throw Error("is not a zip archive").found(fmt::format("{} bytes", bytes_.size()));
  // The end record is followed by a comment of up to 65535 bytes.
  uint64_t end = bytes_.size() - kEndBytes;
  const uint64_t lowest = end > 0xffff ? end - 0xffff : 0;
  while (load<uint32_t>(bytes_, end) != kEndMagic ||
         load<uint16_t>(bytes_, end + 20) != bytes_.size() - end - kEndBytes)
    if (end-- == lowest)
      throw Error("is not a zip archive: it has no end record").hint("was the file cut short?");
  uint64_t count = load<uint16_t>(bytes_, end + 10);
  uint64_t directory_bytes = load<uint32_t>(bytes_, end + 12);
  uint64_t directory = load<uint32_t>(bytes_, end + 16);
  if ((count == 0xffff || directory_bytes == 0xffffffff || directory == 0xffffffff) && end >= kLocatorBytes &&
      load<uint32_t>(bytes_, end - kLocatorBytes) == kLocator64Magic) {
    const auto end64 = load<uint64_t>(bytes_, end - kLocatorBytes + 8);
    if (end64 > end || end - end64 < kEnd64Bytes || load<uint32_t>(bytes_, end64) != kEnd64Magic)
      throw Error("the zip64 end record is not where it should be");
    count = load<uint64_t>(bytes_, end64 + 32);
    directory_bytes = load<uint64_t>(bytes_, end64 + 40);
    directory = load<uint64_t>(bytes_, end64 + 48);
  }
  if (directory > end || directory_bytes > end - directory)
    throw Error("the zip directory lies outside the file").hint("was the file cut short?");
  if (count > directory_bytes / kEntryBytes)
    throw errorf("the zip directory is too small for {} members", count);
  for (uint64_t i = 0, at = directory; i < count; ++i) read_entry(at);
}

void ZipReader::read_entry(uint64_t& at) {
  if (load<uint32_t>(bytes_, at) != kEntryMagic) throw Error("the zip directory is damaged");
  ZipEntry entry;
  const auto flags = load<uint16_t>(bytes_, at + 8);
  const auto method = load<uint16_t>(bytes_, at + 10);
  entry.crc = load<uint32_t>(bytes_, at + 16);
  entry.packed_bytes = load<uint32_t>(bytes_, at + 20);
  entry.bytes = load<uint32_t>(bytes_, at + 24);
  const uint64_t name_bytes = load<uint16_t>(bytes_, at + 28), extra_bytes = load<uint16_t>(bytes_, at + 30);
  const uint64_t comment_bytes = load<uint16_t>(bytes_, at + 32);
  entry.header_offset = load<uint32_t>(bytes_, at + 42);
  const uint64_t extra = at + kEntryBytes + name_bytes;
  at = extra + extra_bytes + comment_bytes;
  if (at > bytes_.size()) throw Error("the zip directory is cut short");
  entry.name.assign(reinterpret_cast<const char*>(bytes_.data()) + extra - name_bytes, name_bytes);
  // The zip64 field holds, in this order, those sizes that did not fit above.
  for (uint64_t p = extra; p + 4 <= extra + extra_bytes;) {
    const auto id = load<uint16_t>(bytes_, p);
    const uint64_t end = p + 4 + load<uint16_t>(bytes_, p + 2);
    p += 4;
    if (end > extra + extra_bytes) throw errorf("member '{}' has a damaged extra field", entry.name);
    if (id == 1)
      for (uint64_t* size : {&entry.bytes, &entry.packed_bytes, &entry.header_offset})
        if (*size == 0xffffffff && p + 8 <= end) *size = load<uint64_t>(bytes_, p), p += 8;
    p = end;
  }
  if (flags & 1) throw errorf("member '{}' is encrypted", entry.name);
  if (method != 0 && method != 8)
    throw errorf("member '{}' is packed by method {}", entry.name, method)
        .expected("stored (0) or deflate (8)");
  entry.deflated = method == 8;
  if (entry.header_offset > bytes_.size() || load<uint32_t>(bytes_, entry.header_offset) != kLocalMagic)
    throw errorf("member '{}' is not where the zip directory says", entry.name);
  entry.data_offset = entry.header_offset + kLocalBytes + load<uint16_t>(bytes_, entry.header_offset + 26) +
                      load<uint16_t>(bytes_, entry.header_offset + 28);
  if (entry.data_offset > bytes_.size() || entry.packed_bytes > bytes_.size() - entry.data_offset)
    throw errorf("member '{}' ends past the end of the file", entry.name).hint("was the file cut short?");
  const bool fits =
      entry.deflated ? entry.bytes / kMaxRatio <= entry.packed_bytes : entry.bytes == entry.packed_bytes;
  if (!fits)
    throw errorf("member '{}' claims more than its data can hold", entry.name)
        .found(fmt::format("{} bytes out of {}", entry.bytes, entry.packed_bytes));
  entries_.push_back(std::move(entry));
}

void ZipReader::check_overlap() const {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& entry : entries_) sorted.push_back(&entry);
  std::ranges::sort(sorted, {}, [](const ZipEntry* e) { return e->header_offset; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->data_offset + sorted[i - 1]->packed_bytes > sorted[i]->header_offset)
      throw errorf("members '{}' and '{}' overlap", sorted[i - 1]->name, sorted[i]->name);
}

std::string ZipReader::head(const ZipEntry& entry, size_t limit) const {
  std::string out(std::min<uint64_t>(limit, entry.bytes), '\0');
  const auto in = bytes_.subspan(entry.data_offset, entry.packed_bytes);
  if (entry.deflated)
    out.resize(Inflater(in).read(std::as_writable_bytes(std::span(out))));
  else if (!out.empty())
    std::memcpy(out.data(), in.data(), out.size());
  return out;
}

void ZipReader::extract(const ZipEntry& entry, uint64_t skip, std::span<std::byte> out) const {
  ANEMONE_CHECK(skip <= entry.bytes && out.size() == entry.bytes - skip);
  const auto in = bytes_.subspan(entry.data_offset, entry.packed_bytes);
  uint32_t crc = 0;
  if (entry.deflated) {
    Inflater inflater(in);
    std::vector<std::byte> skipped(skip);
    std::byte more[1];
    if (inflater.read(skipped) != skip || inflater.read(out) != out.size() || inflater.read(more) != 0)
      throw errorf("member '{}' does not unpack to the size that it declares", entry.name).at(name_);
    crc = checksum(checksum(0, skipped), out);
  } else {
    if (!out.empty()) std::memcpy(out.data(), in.data() + skip, out.size());
    crc = checksum(0, in);
  }
  if (crc != entry.crc)
    throw errorf("member '{}' is damaged: its checksum is wrong", entry.name)
        .at(name_)
        .found(fmt::format("{:08x}", crc))
        .expected(fmt::format("{:08x}", entry.crc));
}

}  // namespace anemone
