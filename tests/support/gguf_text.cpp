#include "support/gguf_text.h"

#include <cstdint>
#include <cstring>
#include <optional>

namespace anemone {
namespace {

constexpr uint32_t kU32 = 4, kString = 8, kList = 9;

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Where the value of a key starts, of that type: behind its u32 type.
std::optional<size_t> find_value(const std::string& bytes, const std::string& key, uint32_t type) {
  std::string mark;
  append<uint64_t>(mark, key.size());
  mark += key;
  append<uint32_t>(mark, type);
  const size_t at = bytes.find(mark);
  if (at == std::string::npos) return std::nullopt;
  return at + mark.size();
}

std::string read_string(const std::string& bytes, size_t& at) {
  const auto size = static_cast<size_t>(number_at<uint64_t>(bytes, at));
  std::string out = bytes.substr(at + 8, size);
  at += 8 + size;
  return out;
}

}  // namespace

bool edit_gguf_strings(std::string& bytes, const std::string& key,
                       const std::function<void(std::vector<std::string>&)>& change) {
  const auto begin = find_value(bytes, key, kList);
  if (!begin || number_at<uint32_t>(bytes, *begin) != kString) return false;
  size_t at = *begin + 12;
  std::vector<std::string> all;
  for (auto count = number_at<uint64_t>(bytes, *begin + 4); count > 0; --count)
    all.push_back(read_string(bytes, at));
  change(all);
  std::string made;
  append<uint32_t>(made, kString);
  append<uint64_t>(made, all.size());
  for (const std::string& text : all) {
    append<uint64_t>(made, text.size());
    made += text;
  }
  bytes.replace(*begin, at - *begin, made);
  return true;
}

bool edit_gguf_string(std::string& bytes, const std::string& key,
                      const std::function<void(std::string&)>& change) {
  const auto begin = find_value(bytes, key, kString);
  if (!begin) return false;
  size_t at = *begin;
  std::string text = read_string(bytes, at);
  change(text);
  std::string made;
  append<uint64_t>(made, text.size());
  bytes.replace(*begin, at - *begin, made + text);
  return true;
}

bool add_to_gguf_number(std::string& bytes, const std::string& key, uint32_t more) {
  const auto at = find_value(bytes, key, kU32);
  if (!at) return false;
  const uint32_t value = number_at<uint32_t>(bytes, *at) + more;
  std::memcpy(bytes.data() + *at, &value, sizeof value);
  return true;
}

}  // namespace anemone
