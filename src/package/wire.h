// Wire: protobuf messages read and written field by field, so that fields we do not know survive.
//     for (wire::Fields f(bytes); f.next();)
//       if (f.key() == wire::varint(1)) version = f.integer(); else f.keep(extra);
// A field of a known number but another wire type counts as unknown, as in protobuf itself. Included by the
// codecs only.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace anemone::wire {

constexpr uint32_t varint(uint32_t tag) { return tag << 3; }
constexpr uint32_t fixed64(uint32_t tag) { return tag << 3 | 1; }
constexpr uint32_t bytes(uint32_t tag) { return tag << 3 | 2; }
constexpr uint32_t fixed32(uint32_t tag) { return tag << 3 | 5; }

// How deep blocks, types and values may nest: real programs stay below ten.
constexpr int kMaxDepth = 64;

bool valid_utf8(std::string_view text);

// Runs `body`; an Error gets place() put in front, and a malformed message becomes an Error at place().
template <class Place, class Body>
decltype(auto) at_place(Place&& place, Body&& body) {
  try {
    return body();
  } catch (Error& e) {
    e.within(place());
    throw;
  } catch (const protozero::exception&) {
    throw Error("the bytes are not a protobuf message").at(place()).hint("is the file cut short?");
  }
}

class Fields {
 public:
  explicit Fields(std::string_view message) : reader_(message.data(), message.size()) {}

  bool next() {
    start_ = reader_.data().data();
    return reader_.next();
  }
  uint32_t tag() const { return reader_.tag(); }
  // Number and wire type together, to compare with varint(n), bytes(n) …
  uint32_t key() const { return reader_.tag_and_type(); }

  int64_t integer() { return reader_.get_int64(); }
  uint64_t unsigned_integer() { return reader_.get_uint64(); }
  bool boolean() { return reader_.get_uint64() != 0; }
  float float32() { return reader_.get_float(); }
  double float64() { return reader_.get_double(); }
  std::string_view view() {
    const auto v = reader_.get_view();
    return {v.data(), v.size()};
  }
  std::string text() { return std::string(text_view()); }
  std::string_view text_view();  // checked to be UTF-8; lies in the message
  void skip() { reader_.skip(); }
  // The bytes of a number of fixed size, as they lie in the message.
  std::string_view fixed_bytes() {
    const char* begin = reader_.data().data();
    reader_.skip();
    return {begin, static_cast<size_t>(reader_.data().data() - begin)};
  }

  // Repeated integers come packed, or one by one.
  void integers(std::vector<int64_t>& out);

  // Appends the whole field, tag included, to `extra`.
  void keep(std::string& extra) {
    reader_.skip();
    extra.append(start_, static_cast<size_t>(reader_.data().data() - start_));
  }

 private:
  protozero::pbf_reader reader_;
  const char* start_ = nullptr;
};

// A message under construction. Plain fields leave out zero and empty, as proto3 does; `always` ones are
// members of a oneof, where presence means something.
class Message {
 public:
  void integer(uint32_t tag, int64_t value) {
    if (value != 0) integer_always(tag, value);
  }
  void integer_always(uint32_t tag, int64_t value) { writer().add_int64(tag, value); }
  void unsigned_integer(uint32_t tag, uint64_t value) {
    if (value != 0) writer().add_uint64(tag, value);
  }
  void boolean(uint32_t tag, bool value) {
    if (value) writer().add_bool(tag, true);
  }
  void float_always(uint32_t tag, float value) { writer().add_float(tag, value); }
  void double_always(uint32_t tag, double value) { writer().add_double(tag, value); }
  void text(uint32_t tag, std::string_view value) {
    if (!value.empty()) data(tag, value);
  }
  // Strings of a repeated field, bytes and sub-messages: written also when empty.
  void data(uint32_t tag, std::string_view value) { writer().add_bytes(tag, value.data(), value.size()); }
  void message(uint32_t tag, const Message& value) { data(tag, value.bytes_); }
  // Packed; nothing when there are none.
  void integers(uint32_t tag, const std::vector<int64_t>& values);
  void raw(std::string_view fields) { bytes_ += fields; }

  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  protozero::pbf_writer writer() { return protozero::pbf_writer(bytes_); }

  std::string bytes_;
};

}  // namespace anemone::wire
