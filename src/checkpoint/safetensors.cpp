#include "checkpoint/safetensors.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/byte_reader.h"
#include "checkpoint/safetensors_header.h"

namespace anemone {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kIndexName = "model.safetensors.index.json";

constexpr BlockType kTypes[] = {
    BlockType::f64,     BlockType::f32,     BlockType::f16,     BlockType::bf16,
    BlockType::i64,     BlockType::i32,     BlockType::i16,     BlockType::i8,
    BlockType::u64,     BlockType::u32,     BlockType::u16,     BlockType::u8,
    BlockType::boolean, BlockType::f8_e4m3, BlockType::f8_e5m2, BlockType::f8_e8m0};

const BlockInfo& type_from_name(const SafetensorsHeader::Entry& entry) {
  for (const BlockType type : kTypes)
    if (const BlockInfo* info = block_info(type); info->name == entry.dtype) return *info;
  throw errorf("tensor '{}' has a dtype that is not supported", printable(entry.name))
      .found("'" + printable(entry.dtype) + "'")
      .expected("one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, I64 to I8, U64 to U8, BOOL");
}

SafeTensor make_tensor(SafetensorsHeader::Entry& entry, uint64_t data, size_t part) {
  const BlockInfo& info = type_from_name(entry);
  const uint64_t begin = entry.data_offsets[0], end = entry.data_offsets[1];
  uint64_t size = 0;
  try {
    size = packed_bytes(element_count(entry.shape), 8 * info.bytes);
  } catch (Error& e) {
    e.within(fmt::format("tensor '{}'", printable(entry.name)));
    throw;
  }
  if (begin > end || end - begin != size)
    throw errorf("tensor '{}' does not have the size of its shape and dtype", printable(entry.name))
        .found(fmt::format("bytes {} to {}", begin, end))
        .expected(fmt::format("{} bytes for {} of {}", size, shape_text(entry.shape), info.name));
  return {std::move(entry.name), info.type, std::move(entry.shape), part, data + begin, size};
}

// The tensors must fill the data exactly, one after the other.
void check_tiling(const std::vector<SafeTensor>& tensors, uint64_t data, uint64_t file_size) {
  uint64_t at = data;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.offset != at)
      throw errorf("tensor '{}' {}", printable(tensor.name),
                   tensor.offset < at ? "overlaps the one before it" : "leaves a gap before it")
          .found(fmt::format("offset {}", tensor.offset - data))
          .expected(fmt::format("offset {}", at - data));
    at += tensor.bytes;
  }
  if (at != file_size)
    throw Error("the tensors do not fill the file")
        .found(fmt::format("{} bytes of data", file_size - data))
        .expected(fmt::format("{}", at - data))
        .hint("was the download cut short?");
}

std::vector<SafeTensor> read_tensors(const MappedFile& file, size_t part,
                                     std::vector<std::pair<std::string, std::string>>& metadata) try {
  ByteReader in(file, 0);
  const auto header_bytes = in.read<uint64_t>("header length");
  if (header_bytes > kMaxHeaderBytes || header_bytes > in.left())
    throw Error("the header does not fit into the file, so this is not a complete safetensors file")
        .found(fmt::format("a header of {} bytes in a file of {}", header_bytes, file.size()))
        .expected(fmt::format("at most {}", std::min(kMaxHeaderBytes, in.left())))
        .hint("was the download cut short?");
  SafetensorsHeader header =
      parse_safetensors_header(file.text().substr(in.offset(), static_cast<size_t>(header_bytes)));
  const uint64_t data = in.offset() + header_bytes;
  std::vector<SafeTensor> tensors;
  for (auto& entry : header.entries) {
    if (entry.data_offsets[1] > file.size() - data)
      throw errorf("tensor '{}' is not inside the file", printable(entry.name))
          .found(fmt::format("data up to byte {} of {}", entry.data_offsets[1], file.size() - data))
          .hint("was the download cut short?");
    tensors.push_back(make_tensor(entry, data, part));
  }
  std::sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  check_tiling(tensors, data, file.size());
  metadata = std::move(header.metadata);
  return tensors;
} catch (Error& e) {
  if (!e.where().starts_with(file.path())) e.within(file.path());
  throw;
}

// File name of each tensor, from an index; a tree sorted by key, since an index has one key a tensor.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMaxHeaderBytes)
    throw Error("is too large for an index").at(file->path()).found(fmt::format("{} bytes", file->size()));
  const auto shallow = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > 16) throw Error("is nested too deep for an index").at(file->path());
    return true;
  };
  using Object = nlohmann::json::object_t;
  std::map<std::string, std::string> files;
  const auto no_index = [&](const std::string& found) {
    return Error("is not an index of safetensors files")
        .at(file->path())
        .found(found)
        .expected("{\"weight_map\": {tensor: file, …}}");
  };
  nlohmann::json index;
  try {
    index = nlohmann::json::parse(file->text().begin(), file->text().end(), shallow);
  } catch (const nlohmann::json::parse_error& e) {
    throw no_index(fmt::format("no JSON at byte {}", e.byte));
  } catch (const nlohmann::json::exception&) {
    throw no_index("a number that is too large");
  }
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) throw no_index("no \"weight_map\"");
  for (const auto& [tensor, name] : map->get_ref<const Object&>()) {
    if (!name.is_string())
      throw no_index(fmt::format("tensor '{}' in a file whose name is not a text", printable(tensor)));
    files[tensor] = name.get<std::string>();
  }
  if (files.empty()) throw Error("names no tensor").at(file->path());
  return files;
}

}  // namespace

void SafetensorsFile::add_part(std::shared_ptr<const MappedFile> file) {
  std::vector<std::pair<std::string, std::string>> metadata;
  auto tensors = read_tensors(*file, parts_.size(), metadata);
  if (parts_.empty()) metadata_ = std::move(metadata);
  parts_.push_back(std::move(file));
  std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
}

void SafetensorsFile::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return tensors_[a].name < tensors_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const SafeTensor &tensor = tensors_[by_name_[i]], &other = tensors_[by_name_[i - 1]];
    if (other.name == tensor.name)
      throw errorf("tensor '{}' occurs twice", printable(tensor.name))
          .at(parts_[tensor.part]->path())
          .found(other.part == tensor.part ? "" : "it in " + parts_[other.part]->path() + " as well");
  }
}

SafetensorsFile SafetensorsFile::from_file(std::shared_ptr<const MappedFile> file) {
  SafetensorsFile whole;
  whole.add_part(std::move(file));
  whole.index_names();
  return whole;
}

SafetensorsFile SafetensorsFile::open_index(const std::filesystem::path& path) {
  const auto files = read_weight_map(path);
  std::map<std::string, size_t> parts;
  SafetensorsFile whole;
  for (const auto& [tensor, name] : files) {
    if (parts.count(name)) continue;
    using namespace std::string_view_literals;
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\\0"sv) != std::string::npos)
      throw errorf("the index places tensor '{}' in a file outside the folder", printable(tensor))
          .at(path.string())
          .found("'" + printable(name) + "'")
          .expected("a plain file name");
    const auto part = path.parent_path() / name;
    if (name.size() > 255)
      throw errorf("the index places tensor '{}' in a file whose name is too long", printable(tensor))
          .at(path.string())
          .found("'" + printable(name) + "'");
    std::error_code ignored;
    if (!std::filesystem::exists(part, ignored))
      throw errorf("a file of the index is missing")
          .at(part.string())
          .hint("download all files of the model");
    parts[name] = whole.parts_.size();
    whole.add_part(MappedFile::open(part));
  }
  // A tensor that the index does not name is still a part of the checkpoint: other programs that load the files see it.
  whole.index_names();
  for (const auto& [tensor, name] : files)
    if (const SafeTensor* found = whole.tensor(tensor); !found || found->part != parts.at(name))
      throw errorf("tensor '{}' of the index is not in its file", printable(tensor))
          .at((path.parent_path() / name).string())
          .found(found ? "it in " + whole.parts_[found->part]->path() : "");
  return whole;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a file that cannot be examined counts as missing; opening it reports the reason
  if (!fs::is_directory(path, ignored)) {
    if (path.extension() == ".json") return open_index(path);
    return from_file(MappedFile::open(path));
  }
  if (fs::exists(path / "model.safetensors", ignored))
    return from_file(MappedFile::open(path / "model.safetensors"));
  if (fs::exists(path / kIndexName, ignored)) return open_index(path / kIndexName);
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(path, ignored))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  if (found.size() != 1)
    throw Error("the folder does not hold exactly one checkpoint")
        .at(path.string())
        .found(fmt::format("{} .safetensors files", found.size()))
        .expected(fmt::format("model.safetensors or {}", kIndexName));
  return from_file(MappedFile::open(found.front()));
}

const SafeTensor* SafetensorsFile::tensor(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

std::span<const std::byte> SafetensorsFile::data(const SafeTensor& tensor) const {
  return parts_[tensor.part]->bytes().subspan(tensor.offset, tensor.bytes);
}

std::optional<std::string_view> SafetensorsFile::metadata(std::string_view key) const {
  for (const auto& [name, value] : metadata_)
    if (name == key) return value;
  return std::nullopt;
}

}  // namespace anemone
