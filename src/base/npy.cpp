#include "base/npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/shape.h"

namespace anemone {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
// Of an ordinary array; only structures need longer headers.
constexpr size_t kMaxHeader = 65536;
constexpr size_t kMaxRank = 32;

struct DTypeText {
  DType dtype;
  std::string_view text;
};
constexpr DTypeText kTypes[] = {
    {DType::boolean, "b1"}, {DType::fp16, "f2"},   {DType::fp32, "f4"},   {DType::fp64, "f8"},
    {DType::int8, "i1"},    {DType::int16, "i2"},  {DType::int32, "i4"},  {DType::int64, "i8"},
    {DType::uint8, "u1"},   {DType::uint16, "u2"}, {DType::uint32, "u4"}, {DType::uint64, "u8"},
};

struct Header {
  DType dtype = DType::none;
  bool big_endian = false;
  bool fortran = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

// The Python dictionary literal of the header: three keys, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header out;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr)
        descr = true, set_type(out);
      else if (key == "fortran_order" && !order)
        order = true, out.fortran = boolean();
      else if (key == "shape" && !shape)
        shape = true, out.shape = tuple();
      else
        throw errorf("the header has an unknown or repeated key '{}'", key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) throw Error("the header has more text after its dictionary");
    if (!descr || !order || !shape) throw Error("the header lacks one of 'descr', 'fortran_order', 'shape'");
    return out;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) throw errorf("the header is not a dictionary as NumPy writes it: no '{}' at {}", c, at_);
  }

  std::string quoted() {
    const char quote = accept('"') ? '"' : (expect('\''), '\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) throw Error("a string of the header does not end");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }

  bool boolean() {
    skip();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    throw Error("fortran_order is neither True nor False");
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t value = 0;
      const size_t start = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text_[at_] - '0', &value))
          throw Error("a dimension is too large");
      if (at_ == start) throw Error("a dimension is not a whole number");
      out.push_back(value);
      if (out.size() > kMaxRank) throw errorf("the array has more than {} dimensions", kMaxRank);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return out;
  }

  void set_type(Header& out) {
    if (accept('[')) throw Error("the array holds structures").expected("numbers");
    const std::string descr = quoted();
    const auto fail = [&] {
      const char kind = descr.size() > 1 ? descr[1] : '?';
      return Error(kind == 'O'                  ? "the array holds Python objects"
                   : kind == 'U' || kind == 'S' ? "the array holds text"
                   : kind == 'c'                ? "the array holds complex numbers"
                                                : "the array has an element type that is not known")
          .found("'" + descr + "'")
          .expected("numbers");
    };
    if (descr.empty() || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) throw fail();
    for (const DTypeText& type : kTypes)
      if (type.text == std::string_view(descr).substr(1)) out.dtype = type.dtype;
    if (out.dtype == DType::none) throw fail();
    out.big_endian = descr[0] == '>';
  }

  std::string_view text_;
  size_t at_ = 0;
};

Header parse_header(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 10) throw Error("is not a .npy file");
  const int major = static_cast<unsigned char>(bytes[6]);
  if (major < 1 || major > 3) throw errorf("the .npy version {} is not known", major);
  uint32_t length = 0;
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = 8 + length_bytes;
  if (bytes.size() < start) throw Error("the header is cut short");
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (length > kMaxHeader) throw errorf("a header of {} bytes is too long", length);
  if (length > bytes.size() - start) throw Error("the header is cut short");
  Header out = HeaderParser(bytes.substr(start, length)).parse();
  out.data_offset = start + length;
  return out;
}

uint64_t data_bytes(const Header& header) {
  return packed_bytes(element_count(header.shape), dtype_bits(header.dtype));
}

void check_size(const Header& header, uint64_t file_bytes) {
  const uint64_t need = data_bytes(header);
  const uint64_t have = file_bytes - header.data_offset;
  if (have != need)
    throw errorf("the data does not fill an array of {} {}", dtype_name(header.dtype),
                 shape_text(header.shape))
        .found(fmt::format("{} bytes", have))
        .expected(fmt::format("{} bytes", need))
        .hint(have < need ? "was the file cut short?" : "was something appended to the file?");
}

void swap_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t i = 0; i + width <= bytes.size(); i += width)
    std::reverse(bytes.data() + i, bytes.data() + i + width);
}

// Column-major to row-major.
Array reorder(const Array& in) {
  Array out(in.dtype(), in.shape());
  const auto& shape = in.shape();
  const size_t rank = shape.size(), width = static_cast<size_t>(dtype_bits(in.dtype()) / 8);
  std::vector<size_t> stride(rank), index(rank);
  size_t total = 1;
  for (size_t i = 0; i < rank; ++i) stride[i] = total, total *= static_cast<size_t>(shape[i]);
  size_t from = 0;
  for (size_t to = 0; to < total; ++to) {
    std::memcpy(out.bytes().data() + to * width, in.bytes().data() + from * width, width);
    for (size_t i = rank; i-- > 0;) {
      from += stride[i];
      if (++index[i] < static_cast<size_t>(shape[i])) break;
      from -= stride[i] * index[i];
      index[i] = 0;
    }
  }
  return out;
}

Array finish(const Header& header, Array array) {
  const size_t width = static_cast<size_t>(dtype_bits(header.dtype) / 8);
  if (header.big_endian && width > 1) swap_bytes(array.bytes(), width);
  if (header.dtype == DType::boolean)
    for (std::byte& value : array.bytes()) value = value == std::byte{0} ? value : std::byte{1};
  return header.fortran && header.shape.size() > 1 ? reorder(array) : std::move(array);
}

std::string header_text(std::string_view descr, std::span<const int64_t> shape) {
  std::string dims;
  for (const int64_t size : shape) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", size);
  if (shape.size() == 1) dims += ",";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  // Padded so that the data starts at a multiple of 64.
  text.append(63 - (kMagic.size() + 4 + text.size()) % 64, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return out + text;
}

std::string header_of(const Array& array) {
  for (const DTypeText& type : kTypes)
    if (type.dtype == array.dtype())
      return header_text(fmt::format("{}{}", dtype_bits(type.dtype) == 8 ? '|' : '<', type.text),
                         array.shape());
  throw errorf("NumPy has no element type for {}", dtype_name(array.dtype()));
}

// Code points of UTF-8; what is not UTF-8 becomes U+FFFD.
std::u32string code_points(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    const int more = lead < 0x80                   ? 0
                     : lead >= 0xc2 && lead < 0xe0 ? 1
                     : lead >= 0xe0 && lead < 0xf0 ? 2
                     : lead >= 0xf0 && lead < 0xf5 ? 3
                                                   : -1;
    if (more < 0) {
      out.push_back(0xfffd);
      continue;
    }
    char32_t value = more == 0 ? lead : lead & (0x3f >> more);
    int seen = 0;
    for (; seen < more && i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
         ++seen, ++i)
      value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
    out.push_back(seen < more || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0xfffd : value);
  }
  return out;
}

template <class Body>
auto named(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (Error& e) {
    e.within(name);
    throw;
  }
}

Array read_member(const ZipReader& zip, const ZipEntry& entry) {
  const std::string head = zip.head(entry, kMaxHeader + 12);
  const Header header = parse_header(head);
  check_size(header, entry.bytes);
  Array array(header.dtype, header.shape);
  zip.extract(entry, header.data_offset, array.bytes());
  return finish(header, std::move(array));
}

}  // namespace

Array parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  return named(name, [&] {
    const Header header = parse_header({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    check_size(header, bytes.size());
    Array array(header.dtype, header.shape);
    if (!array.bytes().empty())
      std::memcpy(array.bytes().data(), bytes.data() + header.data_offset, array.bytes().size());
    return finish(header, std::move(array));
  });
}

Array read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_npy(file->bytes(), path.string());
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  const std::string header = header_of(array);
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (!file) throw errorf("cannot be written: {}", std::strerror(errno)).at(path.string());
  const auto bytes = array.bytes();
  const bool ok = std::fwrite(header.data(), 1, header.size(), file) == header.size() &&
                  std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const int why = errno;
  if (std::fclose(file) != 0 || !ok)
    throw errorf("cannot be written: {}", std::strerror(ok ? errno : why)).at(path.string());
}

NamedArrays parse_npz(std::span<const std::byte> bytes, const std::string& name) {
  const ZipReader zip(bytes, name);
  NamedArrays out;
  std::unordered_set<std::string> seen;
  for (const ZipEntry& entry : zip.entries()) {
    const std::string place = fmt::format("{}: member '{}'", name, entry.name);
    if (!entry.name.ends_with(".npy"))
      throw Error("is not an array").at(place).expected("a name that ends in .npy");
    if (!seen.insert(entry.name).second) throw Error("occurs twice").at(place);
    out.emplace_back(entry.name.substr(0, entry.name.size() - 4),
                     named(place, [&] { return read_member(zip, entry); }));
  }
  return out;
}

NamedArrays read_npz(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return parse_npz(file->bytes(), path.string());
}

void NpzWriter::add(const std::string& name, const Array& array) {
  const std::string header = header_of(array);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)), array.bytes()};
  zip_.add(name + ".npy", pieces, compress_);
}

void NpzWriter::add_strings(const std::string& name, std::span<const std::string> values) {
  std::vector<std::u32string> wide;
  size_t longest = 1;  // '<U0' is written as '<U1', as NumPy does
  for (const std::string& value : values)
    longest = std::max(longest, wide.emplace_back(code_points(value)).size());
  std::u32string data;
  for (std::u32string& value : wide) value.resize(longest), data += value;
  const int64_t shape[] = {static_cast<int64_t>(values.size())};
  const std::string header = header_text(fmt::format("<U{}", longest), shape);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)),
                                               std::as_bytes(std::span(data))};
  zip_.add(name + ".npy", pieces, compress_);
}

void write_npz(const std::filesystem::path& path, const NamedArrays& arrays, bool compress) {
  NpzWriter writer(path, compress);
  for (const auto& [name, array] : arrays) writer.add(name, array);
  writer.finish();
}

}  // namespace anemone
