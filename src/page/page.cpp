#include "page/page.h"

#include <fstream>

#include "base/error.h"
#include "base/staged.h"

namespace anemone {

extern const std::string_view kPageFrame, kPageStyle,
    kPageKit;  // frame.html, style.css, kit.js, embedded by CMake

namespace {

// Characters that change the direction of text, or end a line: LRM, RLM, U+2028 to U+202E, U+2066 to U+2069 and ALM.
// 0 where `at` is no such character; else the code point.
unsigned direction_mark(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0;
  };
  if (byte(0) == 0xd8 && byte(1) == 0x9c) return 0x61c;
  if (byte(0) != 0xe2 || (byte(1) != 0x80 && byte(1) != 0x81)) return 0;
  const unsigned point = 0x2000 + ((byte(1) & 0x3f) << 6) + (byte(2) & 0x3f);
  const bool marks = point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
                     (point >= 0x2066 && point <= 0x2069);
  return marks ? point : 0;
}

// The text with `special` characters in other words; direction marks by their numbers.
template <class Special>
std::string replaced(std::string_view text, const Special& special) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size(); ++i) {
    if (const std::string_view other = special(text[i]); !other.empty()) {
      out += other;
    } else if (const unsigned point = direction_mark(text, i)) {
      out += fmt::format("⟨U+{:04X}⟩", point);
      i += point < 0x800 ? 1 : 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string html_escaped(std::string_view text) {
  return replaced(text, [](char c) -> std::string_view {
    switch (c) {
      case '&': return "&amp;";
      case '<': return "&lt;";
      case '>': return "&gt;";
      case '"': return "&quot;";
      case '\'': return "&#39;";
      default: return "";
    }
  });
}

std::string with_data(std::string_view body, std::string_view json) {
  constexpr std::string_view kSlot = "/*data*/null";
  std::string out(body);
  const size_t at = out.find(kSlot);
  ANEMONE_CHECK(at != std::string::npos);
  // In a script only "<" is dangerous: it could end the script or open a comment. In JSON it stands in strings alone.
  const std::string data =
      replaced(json, [](char c) -> std::string_view { return c == '<' ? "\\u003c" : ""; });
  return out.replace(at, kSlot.size(), data);
}

std::string page_text(const PageHead& head, std::string_view body) {
  const std::string title = html_escaped(head.title), heading = html_escaped(head.heading),
                    note = html_escaped(head.note);
  const std::pair<std::string_view, std::string_view> parts[] = {{"title", title},     {"style", kPageStyle},
                                                                 {"heading", heading}, {"note", note},
                                                                 {"kit", kPageKit},    {"body", body}};
  std::string out;
  size_t done = 0;
  for (const auto& [name, text] : parts) {  // in the order of the frame, so that no text is taken for a slot
    const std::string slot = fmt::format("{{{{{}}}}}", name);
    const size_t at = kPageFrame.find(slot, done);
    ANEMONE_CHECK(at != std::string_view::npos);
    out.append(kPageFrame.substr(done, at - done)).append(text);
    done = at + slot.size();
  }
  return out.append(kPageFrame.substr(done));
}

void write_page(const std::filesystem::path& path, std::string_view page) {
  check_file_output(path);
  StagedOutput staged(path, true);
  std::ofstream out(staged.path(), std::ios::binary);
  out.write(page.data(), static_cast<std::streamsize>(page.size()));
  out.close();
  if (!out) throw errorf("the page cannot be written").at(path.string());
  staged.commit();
}

}  // namespace anemone
