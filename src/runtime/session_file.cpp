#include "runtime/session_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/json_text.h"
#include "base/mapped_file.h"
#include "base/shape.h"
#include "base/staged.h"
#include "bundle/files.h"
#include "kernels/convert.h"
#include "predict/arithmetic.h"

namespace anemone {
namespace {

static_assert(std::endian::native == std::endian::little, "session files are written as memory has them");

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic = "anemsess";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = kMagic.size() + 2 * sizeof(uint32_t);
constexpr const char* kHint = "delete it: a text that is not saved is computed again";

Error damaged(const std::string& path, const std::string& what) {
  return errorf("the session file is damaged: {}", what).at(path).hint(kHint);
}

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string_view bytes_of(const Array& array) {
  return {reinterpret_cast<const char*>(array.bytes().data()), array.bytes().size()};
}

// Half as many bytes, where every value is one of half precision.
bool as_halves(const Array& array, std::vector<uint16_t>& halves) {
  if (array.dtype() != DType::fp32) return false;
  const std::span<const float> values = array.values<float>();
  halves.resize(values.size());
  constexpr size_t kPiece = 4096;
  float back[kPiece];
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const size_t n = std::min(kPiece, values.size() - at);
    floats_to_halves(values.data() + at, static_cast<int64_t>(n), halves.data() + at);
    halves_to_floats(reinterpret_cast<const std::byte*>(halves.data() + at), static_cast<int64_t>(n), back);
    if (std::memcmp(back, values.data() + at, n * sizeof(float)) != 0) return false;
  }
  return true;
}

Json role_json(const Role& role) {
  return {{"kind", role_name(role.kind)}, {"index", role.index}, {"layers", role.layers}};
}

Role role_of(const Json& json) {
  Role role;
  role.kind = role_from_name(json.at("kind").get<std::string>());
  role.index = json.at("index").get<size_t>();
  role.layers = json.at("layers").get<std::vector<int64_t>>();
  return role;
}

// Calls `visit` with every array of a past, and with where it is: 0 for the present, n for the n-th point before.
template <class Past, class Visit>
void for_each_array(Past& past, const Visit& visit) {
  for (size_t s = 0; s < past.stages.size(); ++s)
    for (auto& kept : past.stages[s]) visit(size_t{0}, s, kept);
  for (size_t p = 0; p < past.points.size(); ++p)
    for (size_t s = 0; s < past.points[p].stages.size(); ++s)
      for (auto& kept : past.points[p].stages[s]) visit(p + 1, s, kept);
}

Json head_of(const SessionPast& past, const SessionAbout& about, const Json& arrays) {
  Json points = Json::array();
  for (const auto& point : past.points) points.push_back(point.position);
  return {{"bundle", about.bundle},       {"model", about.model},
          {"backend", about.backend},     {"arithmetic", about.arithmetic},
          {"positions", about.positions}, {"tokens", past.ids.size()},
          {"context", past.tier},         {"stages", past.stages.size()},
          {"points", std::move(points)},  {"arrays", arrays}};
}

// A file that checks itself as it is written.
class CheckedWriter {
 public:
  explicit CheckedWriter(const std::filesystem::path& path) : file_(path, std::ios::binary) {
    ::chmod(path.c_str(), S_IRUSR | S_IWUSR);
    XXH3_64bits_reset(state_.get());
  }
  void write(std::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void write_check() {
    const uint64_t digest = XXH3_64bits_digest(state_.get());
    file_.write(reinterpret_cast<const char*>(&digest), sizeof digest);
    XXH3_64bits_reset(state_.get());
  }
  bool close() {
    file_.close();
    return !file_.fail();
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::ofstream file_;
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

// The parts of a file, in place.
struct Parts {
  std::shared_ptr<const MappedFile> file;
  Json head;
  SessionTitle title;
  uint64_t arrays = 0;  // where they begin
};

uint64_t number_at(const MappedFile& file, uint64_t offset, size_t bytes) {
  uint64_t out = 0;
  std::memcpy(&out, file.slice(offset, bytes, "number").data(), bytes);
  return out;
}

Parts read_parts(const std::filesystem::path& path) {
  Parts out;
  out.file = MappedFile::open(path);
  const MappedFile& file = *out.file;
  const std::string& name = file.path();
  if (file.size() < kFixedBytes || !file.text().starts_with(kMagic))
    throw errorf("this is no session file").at(name);
  if (const uint64_t version = number_at(file, kMagic.size(), 4); version != kVersion)
    throw errorf("the session file has another version")
        .at(name)
        .found(fmt::format("{}", version))
        .expected(fmt::format("{}", kVersion))
        .hint(kHint);
  const uint64_t json_bytes = number_at(file, kMagic.size() + 4, 4);
  if (json_bytes > file.size() - kFixedBytes) throw damaged(name, "it is cut off");
  const std::string_view text = file.text().substr(kFixedBytes, json_bytes);
  out.head = Json::parse(text, nullptr, false);
  if (!out.head.is_object() || !out.head.value("tokens", Json()).is_number_unsigned())
    throw damaged(name, "its head is no JSON");
  const auto tokens = out.head["tokens"].get<uint64_t>();
  const uint64_t ids = kFixedBytes + json_bytes;
  if (tokens > (file.size() - ids) / sizeof(int32_t)) throw damaged(name, "it is cut off");
  const uint64_t end = ids + tokens * sizeof(int32_t);
  if (file.size() - end < 2 * sizeof(uint64_t)) throw damaged(name, "it is cut off");
  if (XXH3_64bits(file.bytes().data(), end) != number_at(file, end, 8))
    throw damaged(name, "the checksum of its head is wrong");
  out.arrays = end + sizeof(uint64_t);
  out.title.ids.resize(tokens);
  std::memcpy(out.title.ids.data(), file.bytes().data() + ids, tokens * sizeof(int32_t));
  const auto word = [&](const char* key) { return out.head.at(key).get<std::string>(); };
  out.title.about = {word("bundle"), word("model"), word("backend"), word("arithmetic"),
                     out.head.at("positions").get<int64_t>()};
  return out;
}

Array read_array(const MappedFile& file, const Json& about, uint64_t& at) {
  const DType type = dtype_from_name(about.at("type").get<std::string>());
  if (type != DType::fp16 && type != DType::fp32 && type != DType::int32)
    throw damaged(file.path(), "an array has an unknown type");
  const auto shape = about.at("shape").get<std::vector<int64_t>>();
  for (const int64_t n : shape)
    if (n < 0) throw damaged(file.path(), "an array has a size below 0");
  // More than the file holds is known before memory is asked for.
  uint64_t count = 1;
  for (const int64_t n : shape) {
    if (n && count > file.size() / static_cast<uint64_t>(n)) throw damaged(file.path(), "it is cut off");
    count *= static_cast<uint64_t>(n);
  }
  const uint64_t bytes = count * static_cast<uint64_t>(dtype_bits(type)) / 8;
  const std::span<const std::byte> stored = file.slice(at, bytes, "array");
  at += bytes;
  Array out(type == DType::fp16 ? DType::fp32 : type, shape);
  if (type == DType::fp16)
    halves_to_floats(stored.data(), static_cast<int64_t>(count), out.values<float>().data());
  else if (bytes)
    std::memcpy(out.bytes().data(), stored.data(), bytes);
  return out;
}

SessionPast past_of(const Parts& parts) {
  const MappedFile& file = *parts.file;
  SessionPast out;
  out.ids = parts.title.ids;
  out.tier = parts.head.at("context").get<int64_t>();
  const auto stages = parts.head.at("stages").get<size_t>();
  if (stages > file.size()) throw damaged(file.path(), "it has too many stages");
  out.stages.resize(stages);
  for (const Json& position : parts.head.at("points"))
    out.points.push_back({position.get<int64_t>(), std::vector<std::vector<Kept>>(stages)});
  uint64_t at = parts.arrays;
  for (const Json& array : parts.head.at("arrays")) {
    const auto point = array.at("point").get<size_t>(), stage = array.at("stage").get<size_t>();
    if (point > out.points.size() || stage >= stages) throw damaged(file.path(), "an array has no place");
    auto& place = point ? out.points[point - 1].stages[stage] : out.stages[stage];
    place.push_back({role_of(array.at("role")), read_array(file, array, at)});
  }
  if (at + sizeof(uint64_t) != file.size()) throw damaged(file.path(), "its length is wrong");
  return out;
}

}  // namespace

std::string bundle_identity(const Bundle& bundle) { return file_hash(bundle.path() / kBundleFile); }

SessionAbout about_session(const Bundle& bundle, int64_t positions) {
  return {bundle_identity(bundle), bundle.info().name, std::string(bundle.backend().name()),
          arithmetic_name(bundle.backend().arithmetic()), positions};
}

void save_session(const Session& session, const std::filesystem::path& path, const SessionAbout& about) {
  const SessionPast past = session.past();
  Json arrays = Json::array();
  std::vector<std::vector<uint16_t>> halves;
  for_each_array(past, [&](size_t point, size_t stage, const Kept& kept) {
    halves.emplace_back();
    if (!as_halves(kept.array, halves.back())) halves.back() = {};
    const DType type = halves.back().empty() ? kept.array.dtype() : DType::fp16;
    arrays.push_back({{"point", point},
                      {"stage", stage},
                      {"role", role_json(kept.role)},
                      {"type", dtype_name(type)},
                      {"shape", kept.array.shape()}});
  });
  const std::string head = json_text(head_of(past, about, arrays));
  StagedOutput out(path, true);
  CheckedWriter file(out.path());
  const uint32_t numbers[2] = {kVersion, static_cast<uint32_t>(head.size())};
  file.write(kMagic);
  file.write({reinterpret_cast<const char*>(numbers), sizeof numbers});
  file.write(head);
  file.write(bytes_of(past.ids));
  file.write_check();
  size_t next = 0;
  for_each_array(past, [&](size_t, size_t, const Kept& kept) {
    const std::vector<uint16_t>& half = halves[next++];
    file.write(half.empty() ? bytes_of(kept.array) : bytes_of(half));
  });
  file.write_check();
  if (!file.close()) throw errorf("the session cannot be written").at(path.string());
  out.commit();
}

SessionTitle read_session_title(const std::filesystem::path& path) {
  try {
    return read_parts(path).title;
  } catch (const Json::exception&) {
    throw damaged(path.string(), "its head lacks a field");
  }
}

Session load_session(const std::filesystem::path& path, std::shared_ptr<const Bundle> bundle,
                     const SessionAbout& about) {
  try {
    const Parts parts = read_parts(path);
    if (parts.title.about != about)
      throw errorf("the session file belongs to another model, arithmetic or backend").at(path.string());
    const uint64_t end = parts.file->size() - sizeof(uint64_t);
    if (XXH3_64bits(parts.file->bytes().data() + parts.arrays, end - parts.arrays) !=
        number_at(*parts.file, end, 8))
      throw damaged(path.string(), "the checksum of its arrays is wrong");
    Session session(std::move(bundle), {.positions = about.positions, .chunk = 0, .function = {}});
    session.assume(past_of(parts));
    return session;
  } catch (const Json::exception&) {
    throw damaged(path.string(), "its head lacks a field");
  }
}

}  // namespace anemone
