#include "checkpoint/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"

namespace anemone {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRank = 32;

// Where the parser is: in the outer object, in "__metadata__", in an entry, in a list of an entry.
enum class Place { before, outer, metadata, entry, shape, offsets, after };

class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;

  bool null() override { throw unexpected("null"); }
  bool boolean(bool) override { throw unexpected("a boolean"); }
  bool number_float(double, const std::string& text) override { throw unexpected(text); }
  bool binary(Json::binary_t&) override { throw unexpected("binary data"); }
  bool number_integer(int64_t value) override { throw unexpected(std::to_string(value)); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<uint64_t>(INT64_MAX) || entry().shape.size() == kMaxRank)
        throw unexpected(std::to_string(value));
      entry().shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets && entry().data_offsets.size() < 2) {
      entry().data_offsets.push_back(value);
    } else {
      throw unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      header.metadata.emplace_back(key_, value);
    } else if (place_ == Place::entry && key_ == "dtype") {
      entry().dtype = value;
    } else {
      throw unexpected("'" + printable(value) + "'");
    }
    return true;
  }

  bool key(std::string& value) override {
    key_ = value;
    if (place_ == Place::entry) {
      const int bit = value == "dtype" ? 1 : value == "shape" ? 2 : value == "data_offsets" ? 4 : 0;
      if (bit == 0 || (seen_ & bit))
        throw errorf("the entry of tensor '{}' has an unexpected field", printable(entry().name))
            .found("'" + printable(value) + "'")
            .expected("dtype, shape and data_offsets, once each");
      seen_ |= bit;
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::before) {
      place_ = Place::outer;
    } else if (place_ == Place::outer && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::outer) {
      place_ = Place::entry;
      seen_ = 0;
      header.entries.push_back({.name = key_});
    } else {
      throw unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      if (seen_ != 7 || entry().data_offsets.size() != 2)
        throw errorf("the entry of tensor '{}' is incomplete", printable(entry().name))
            .expected("dtype, shape and two data_offsets");
    }
    place_ = place_ == Place::outer ? Place::after : Place::outer;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::entry && key_ == "shape") {
      place_ = Place::shape;
    } else if (place_ == Place::entry && key_ == "data_offsets") {
      place_ = Place::offsets;
    } else {
      throw unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw errorf("the header is not valid JSON near its byte {}", position)
        .hint("was the download cut short?");
  }

 private:
  SafetensorsHeader::Entry& entry() { return header.entries.back(); }

  Error unexpected(const std::string& found) const {
    return errorf("the header has an unexpected value at '{}'", printable(key_)).found(found);
  }

  Place place_ = Place::before;
  std::string key_;
  int seen_ = 0;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  if (!text.starts_with('{')) throw Error("the header does not begin with '{'");
  HeaderEvents events;
  Json::sax_parse(text.begin(), text.end(), &events);
  return std::move(events.header);
}

}  // namespace anemone
