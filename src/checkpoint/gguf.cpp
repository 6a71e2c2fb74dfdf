#include "checkpoint/gguf.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

constexpr uint64_t kDefaultAlignment = 32;
constexpr uint32_t kMaxRank = 4;
// The least that one entry takes in the file: bounds what a count may claim before anything is allocated.
constexpr uint64_t kMinValueBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Bytes of one element; 0 for strings and arrays.
uint64_t element_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: return 0;
  }
  return 0;
}

// What one file of a checkpoint says, before the parts are put together.
struct Part {
  uint32_t version = 0;
  std::vector<GgufValue> values;
  std::vector<GgufTensor> tensors;

  const GgufValue* find(std::string_view key) const {
    for (const GgufValue& value : values)
      if (value.key == key) return &value;
    return nullptr;
  }
};

Error bad_magic(const MappedFile& file) {
  const std::string_view magic = file.text().substr(0, 4);
  if (magic == "FUGG") return Error("is a big-endian GGUF file, which is not supported").at(file.path());
  Error error = Error("is not a GGUF file").at(file.path()).found(fmt::format("'{}'", printable(magic)));
  error.expected("'GGUF' as its first bytes");
  if (magic == "tjgg" || magic == "lmgg" || magic == "fmgg")
    error.hint("it is in an older ggml format: convert the model again");
  return error;
}

uint32_t read_version(ByteReader& in, const MappedFile& file) {
  const auto version = in.read<uint32_t>("GGUF version");
  if ((version & 0xffff) == 0 && version != 0)
    throw Error("is a big-endian GGUF file, which is not supported")
        .at(file.path())
        .found(fmt::format("version {:#010x}", version))
        .hint("convert it with gguf_convert_endian.py of the gguf package");
  if (version != 2 && version != 3)
    throw Error("has a GGUF version that is not supported")
        .at(file.path())
        .found(std::to_string(version))
        .expected("2 or 3")
        .hint(version == 1 ? "version 1 is obsolete: convert the model again"
                           : "is a newer release available?");
  return version;
}

GgufType read_type(ByteReader& in, std::string_view key) {
  const auto id = in.read<uint32_t>("metadata type");
  if (id > static_cast<uint32_t>(GgufType::f64))
    throw errorf("metadata value '{}' has an unknown type", printable(key))
        .found(std::to_string(id))
        .expected("0 to 12");
  return static_cast<GgufType>(id);
}

// The bytes of `count` elements, after checking that they are all there.
std::span<const std::byte> take_elements(ByteReader& in, const MappedFile& file, const GgufValue& value) {
  const uint64_t begin = in.offset();
  const uint64_t size = element_bytes(value.type);
  const uint64_t least = size ? size : 8;  // a string has at least its length
  if (value.count > in.left() / least)
    throw errorf("metadata value '{}' claims {} elements, more than the file can hold", printable(value.key),
                 value.count)
        .found(fmt::format("{} bytes left", in.left()))
        .hint("was the download cut short?");
  if (size) {
    in.take(value.count * size, "metadata");
  } else {
    for (uint64_t i = 0; i < value.count; ++i) in.string("metadata string");
  }
  return file.bytes().subspan(begin, in.offset() - begin);
}

GgufValue read_value(ByteReader& in, const MappedFile& file) {
  GgufValue value{};
  value.key = in.string("metadata key");
  if (value.key.empty()) throw errorf("a metadata value has an empty key before byte {}", in.offset());
  value.type = read_type(in, value.key);
  value.count = 1;
  if (value.type == GgufType::array) {
    value.is_array = true;
    value.type = read_type(in, value.key);
    value.count = in.read<uint64_t>("array length");
    if (value.type == GgufType::array)
      throw errorf("metadata value '{}' is an array of arrays, which is not supported", printable(value.key));
  }
  value.bytes = take_elements(in, file, value);
  if (value.type == GgufType::boolean)
    for (const std::byte b : value.bytes)
      if (b > std::byte{1})
        throw errorf("metadata value '{}' is not a boolean", printable(value.key))
            .found(std::to_string(std::to_integer<int>(b)))
            .expected("0 or 1");
  return value;
}

std::vector<int64_t> read_shape(ByteReader& in, std::string_view name) {
  const auto rank = in.read<uint32_t>("tensor rank");
  if (rank < 1 || rank > kMaxRank)
    throw errorf("tensor '{}' has an impossible number of dimensions", printable(name))
        .found(std::to_string(rank))
        .expected("1 to 4");
  std::vector<int64_t> shape(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = in.read<uint64_t>("tensor dimension");
    if (dim > static_cast<uint64_t>(INT64_MAX))
      throw errorf("tensor '{}' has an impossible dimension", printable(name)).found(std::to_string(dim));
    shape[rank - 1 - i] = static_cast<int64_t>(dim);
  }
  return shape;
}

// `offset` is still relative to the data section, whose place is known only after the last entry.
GgufTensor read_tensor(ByteReader& in) {
  GgufTensor tensor{};
  tensor.name = in.string("tensor name");
  if (tensor.name.empty()) throw errorf("a tensor has an empty name before byte {}", in.offset());
  const std::string name = printable(tensor.name);
  tensor.shape = read_shape(in, tensor.name);
  const auto id = in.read<uint32_t>("tensor type");
  const BlockInfo* info = block_info_from_gguf(id);
  if (!info)
    throw errorf("tensor '{}' has a type that is unknown or was removed from the format", name)
        .found(fmt::format("type {}", id))
        .hint("convert or quantise the model again");
  tensor.type = info->type;
  tensor.offset = in.read<uint64_t>("tensor offset");
  int64_t elements = 0;
  try {
    elements = element_count(tensor.shape);
  } catch (Error& e) {
    e.within(fmt::format("tensor '{}'", name));
    throw;
  }
  if (tensor.shape.back() % info->elements != 0)
    throw errorf("tensor '{}' has rows that are not a whole number of {} blocks", name, info->name)
        .found(shape_text(tensor.shape))
        .expected(fmt::format("rows of a multiple of {}", info->elements));
  if (elements / info->elements > INT64_MAX / info->bytes)
    throw errorf("tensor '{}' is larger than can be addressed", name).found(shape_text(tensor.shape));
  tensor.bytes = block_bytes(*info, elements);
  return tensor;
}

uint64_t read_alignment(const Part& part) {
  const GgufValue* value = part.find("general.alignment");
  if (!value) return kDefaultAlignment;
  uint32_t alignment = 0;
  if (value->is_array || element_bytes(value->type) != 4 || value->type == GgufType::f32)
    throw Error("'general.alignment' is not a 32-bit integer");
  std::memcpy(&alignment, value->bytes.data(), 4);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0)
    throw Error("'general.alignment' is not a power of two").found(std::to_string(alignment));
  return alignment;
}

void check_apart(const std::vector<GgufTensor>& tensors) {
  std::vector<const GgufTensor*> by_offset;
  for (const GgufTensor& tensor : tensors)
    if (tensor.bytes > 0) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const GgufTensor &a = *by_offset[i - 1], &b = *by_offset[i];
    if (a.offset + a.bytes > b.offset)
      throw errorf("tensors '{}' and '{}' overlap", printable(a.name), printable(b.name))
          .found(fmt::format("bytes {} to {} and {} to {}", a.offset, a.offset + a.bytes, b.offset,
                             b.offset + b.bytes));
  }
}

// Makes the offsets absolute, after checking that every tensor is inside the file, aligned, and overlaps no other.
void place_tensors(Part& part, const MappedFile& file, uint64_t end_of_table) {
  const uint64_t alignment = read_alignment(part);
  const uint64_t data = (end_of_table + alignment - 1) / alignment * alignment;
  for (GgufTensor& tensor : part.tensors) {
    const std::string name = printable(tensor.name);
    if (tensor.offset % alignment != 0)
      throw errorf("tensor '{}' is not aligned", name)
          .found(fmt::format("offset {}", tensor.offset))
          .expected(fmt::format("a multiple of {}", alignment));
    if (data > file.size() || tensor.offset > file.size() - data ||
        tensor.bytes > file.size() - data - tensor.offset)
      throw errorf("tensor '{}' is not inside the file", name)
          .found(fmt::format("{} bytes at {} + {} in a file of {}", tensor.bytes, data, tensor.offset,
                             file.size()))
          .hint("was the download cut short?");
    tensor.offset += data;
  }
  check_apart(part.tensors);
}

void check_count(uint64_t count, uint64_t least_bytes, const ByteReader& in, std::string_view what) {
  if (count > in.left() / least_bytes)
    throw errorf("claims {} {}, more than the file can hold", count, what)
        .found(fmt::format("{} bytes left", in.left()))
        .hint("was the download cut short?");
}

Part read_part(const MappedFile& file) try {
  if (file.size() < 4 || file.text().substr(0, 4) != "GGUF") throw bad_magic(file);
  Part part;
  ByteReader in(file, 4);
  part.version = read_version(in, file);
  const auto tensor_count = in.read<uint64_t>("GGUF header");
  const auto value_count = in.read<uint64_t>("GGUF header");
  check_count(value_count, kMinValueBytes, in, "metadata values");
  check_count(tensor_count, kMinTensorBytes, in, "tensors");
  for (uint64_t i = 0; i < value_count; ++i) part.values.push_back(read_value(in, file));
  check_count(tensor_count, kMinTensorBytes, in, "tensors");
  for (uint64_t i = 0; i < tensor_count; ++i) part.tensors.push_back(read_tensor(in));
  place_tensors(part, file, in.offset());
  return part;
} catch (Error& e) {
  if (e.where().empty() || !e.where().starts_with(file.path())) e.within(file.path());
  throw;
}

// The index of names in sorted order; an Error when one comes twice.
template <class Entry, class Name>
std::vector<size_t> sorted_index(const std::vector<Entry>& entries, Name name, std::string_view what,
                                 const std::string& path) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return name(entries[a]) < name(entries[b]); });
  for (size_t i = 1; i < order.size(); ++i)
    if (name(entries[order[i - 1]]) == name(entries[order[i]]))
      throw errorf("{} '{}' occurs twice", what, printable(name(entries[order[i]]))).at(path);
  return order;
}

template <class Entry, class Name>
const Entry* look_up(const std::vector<Entry>& entries, const std::vector<size_t>& order, Name name,
                     std::string_view wanted) {
  const auto at = std::lower_bound(order.begin(), order.end(), wanted,
                                   [&](size_t i, std::string_view w) { return name(entries[i]) < w; });
  return at != order.end() && name(entries[*at]) == wanted ? &entries[*at] : nullptr;
}

std::string_view key_of(const GgufValue& value) { return value.key; }
std::string_view name_of(const GgufTensor& tensor) { return tensor.name; }

// "model-00002-of-00005.gguf" → the path of part `number` (from 1); an Error when the name has another form.
std::filesystem::path sibling(const std::filesystem::path& path, int64_t number, int64_t count) {
  const std::string name = path.filename().string();
  const std::string tail = fmt::format("-of-{:05}.gguf", count);
  const size_t digits = name.size() - std::min(name.size(), tail.size());
  const bool fits =
      name.ends_with(tail) && digits > 6 && name[digits - 6] == '-' &&
      std::all_of(name.begin() + static_cast<ptrdiff_t>(digits) - 5,
                  name.begin() + static_cast<ptrdiff_t>(digits), [](char c) { return c >= '0' && c <= '9'; });
  if (!fits)
    throw errorf("is one of {} parts, but its name does not say which", count)
        .at(path.string())
        .expected(fmt::format("a name such as model-00001{}", tail))
        .hint("give the parts the names they were published under");
  return path.parent_path() / fmt::format("{}-{:05}{}", name.substr(0, digits - 6), number, tail);
}

}  // namespace

GgufFile GgufFile::read_one(std::shared_ptr<const MappedFile> file) {
  Part part = read_part(*file);
  GgufFile one;
  one.version_ = part.version;
  one.values_ = std::move(part.values);
  one.tensors_ = std::move(part.tensors);
  one.parts_ = {std::move(file)};
  one.values_by_key_ = sorted_index(one.values_, key_of, "metadata key", one.path());
  one.tensors_by_name_ = sorted_index(one.tensors_, name_of, "tensor", one.path());
  return one;
}

void GgufFile::expect_part(int64_t number, int64_t count) const {
  const int64_t said_count = std::max<int64_t>(1, integer("split.count").value_or(1));
  const int64_t said_number = said_count > 1 ? integer("split.no").value_or(0) : 0;
  if (said_count != count || said_number != number)
    throw Error("is not the part of a split checkpoint that it should be")
        .at(path())
        .found(fmt::format("split.no {} of {}", said_number, said_count))
        .expected(fmt::format("split.no {} of {}", number, count));
}

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile one = read_one(MappedFile::open(path));
  const int64_t count = one.integer("split.count").value_or(1);
  if (count <= 1) return one;
  std::vector<std::shared_ptr<const MappedFile>> parts;
  for (int64_t number = 1; number <= count; ++number) {
    const auto part = sibling(path, number, count);
    std::error_code ignored;
    if (!std::filesystem::exists(part, ignored))
      throw errorf("part {} of {} is missing", number, count)
          .at(part.string())
          .hint("all parts must be in one folder");
    parts.push_back(MappedFile::open(part));
  }
  return from_parts(std::move(parts));
}

GgufFile GgufFile::from_parts(std::vector<std::shared_ptr<const MappedFile>> parts) {
  ANEMONE_CHECK(!parts.empty());
  const auto count = static_cast<int64_t>(parts.size());
  GgufFile whole = read_one(parts.front());
  whole.expect_part(0, count);
  if (count == 1) return whole;
  for (size_t i = 1; i < parts.size(); ++i) {
    GgufFile next = read_one(std::move(parts[i]));
    next.expect_part(static_cast<int64_t>(i), count);
    for (GgufTensor& tensor : next.tensors_) tensor.part = i;
    std::move(next.tensors_.begin(), next.tensors_.end(), std::back_inserter(whole.tensors_));
    whole.parts_.push_back(next.parts_.front());
  }
  whole.tensors_by_name_ = sorted_index(whole.tensors_, name_of, "tensor", whole.path());
  const int64_t found = static_cast<int64_t>(whole.tensors_.size());
  if (const int64_t total = whole.integer("split.tensors.count").value_or(found); total != found)
    throw Error("the parts do not hold all tensors")
        .at(whole.path())
        .found(fmt::format("{} tensors", found))
        .expected(std::to_string(total));
  return whole;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  return look_up(values_, values_by_key_, key_of, key);
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  return look_up(tensors_, tensors_by_name_, name_of, name);
}

std::span<const std::byte> GgufFile::data(const GgufTensor& tensor) const {
  return parts_[tensor.part]->bytes().subspan(tensor.offset, tensor.bytes);
}

}  // namespace anemone
