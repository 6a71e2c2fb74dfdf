// Writes small GGUF files for tests, field by field, so that a test can break any one of them.
//     GgufBuilder b;
//     b.value("general.architecture", "llama").tensor("t", {32}, 8, 0).data(34);
//     auto file = MappedFile::from_bytes("t.gguf", b.bytes());
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace anemone::test {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void put_string(std::string& out, std::string_view s) {
  put<uint64_t>(out, s.size());
  out.append(s);
}

class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  int64_t extra_tensors = 0, extra_values = 0;  // added to the counts in the header

  // A value of any type, its payload given as bytes.
  GgufBuilder& raw(std::string_view key, uint32_t type, std::string_view payload) {
    put_string(values_, key);
    put<uint32_t>(values_, type);
    values_.append(payload);
    ++value_count_;
    return *this;
  }
  template <class T>
  GgufBuilder& number(std::string_view key, uint32_t type, T value) {
    std::string payload;
    put(payload, value);
    return raw(key, type, payload);
  }
  GgufBuilder& value(std::string_view key, std::string_view text) {
    std::string payload;
    put_string(payload, text);
    return raw(key, 8, payload);
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& list) {
    std::string payload;
    put<uint32_t>(payload, 8);
    put<uint64_t>(payload, list.size());
    for (const auto& s : list) put_string(payload, s);
    return raw(key, 9, payload);
  }
  template <class T>
  GgufBuilder& array(std::string_view key, uint32_t type, const std::vector<T>& list) {
    std::string payload;
    put<uint32_t>(payload, type);
    put<uint64_t>(payload, list.size());
    for (const T x : list) put(payload, x);
    return raw(key, 9, payload);
  }
  // dims in the order of the file: innermost first.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset) {
    put_string(tensors_, name);
    put<uint32_t>(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) put(tensors_, d);
    put(tensors_, type);
    put(tensors_, offset);
    ++tensor_count_;
    return *this;
  }
  GgufBuilder& data(std::string_view bytes) {
    data_.append(bytes);
    return *this;
  }
  GgufBuilder& data(size_t size) { return data(std::string(size, '\1')); }

  std::string bytes() const {
    std::string out = "GGUF";
    put(out, version);
    put<uint64_t>(out, tensor_count_ + static_cast<uint64_t>(extra_tensors));
    put<uint64_t>(out, value_count_ + static_cast<uint64_t>(extra_values));
    out += values_ + tensors_;
    if (!data_.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data_;
  }

 private:
  std::string values_, tensors_, data_;
  uint64_t value_count_ = 0, tensor_count_ = 0;
};

}  // namespace anemone::test
