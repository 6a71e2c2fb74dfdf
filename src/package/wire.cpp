#include "package/wire.h"

#include <cstring>
#include <protozero/varint.hpp>

namespace anemone::wire {

bool valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    if (uint64_t eight = 0; end - p >= 8) {  // mostly names: ASCII
      std::memcpy(&eight, p, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        p += 8;
        continue;
      }
    }
    const unsigned char lead = *p++;
    if (lead < 0x80) continue;
    if (lead < 0xc2 || lead > 0xf4) return false;
    const int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (end - p < more) return false;
    // Overlong forms, surrogates and code points past U+10FFFF show in the second byte.
    if ((lead == 0xe0 && p[0] < 0xa0) || (lead == 0xed && p[0] > 0x9f) || (lead == 0xf0 && p[0] < 0x90) ||
        (lead == 0xf4 && p[0] > 0x8f))
      return false;
    for (int i = 0; i < more; ++i)
      if ((*p++ & 0xc0) != 0x80) return false;
  }
  return true;
}

std::string_view Fields::text_view() {
  const uint32_t number = tag();
  const std::string_view v = view();
  if (!valid_utf8(v)) throw errorf("the text in field {} is not UTF-8", number);
  return v;
}

void Fields::integers(std::vector<int64_t>& out) {
  if (reader_.wire_type() != protozero::pbf_wire_type::length_delimited) {
    out.push_back(integer());
    return;
  }
  const std::string_view packed = view();
  const char* p = packed.data();
  const char* end = p + packed.size();
  while (p < end) out.push_back(static_cast<int64_t>(protozero::decode_varint(&p, end)));
}

void Message::integers(uint32_t tag, const std::vector<int64_t>& values) {
  if (!values.empty()) writer().add_packed_int64(tag, values.begin(), values.end());
}

}  // namespace anemone::wire
