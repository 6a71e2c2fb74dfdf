// Pages: what the pages of check, plan, verify and inspect share: one look, one way to bring data in.
//     std::string page = page_text({"demo", "demo", "will it stay?"}, with_data(kCheckBody, json_text(report)));
//     write_page("report.html", page);
// A page is one file that needs nothing else. Names in models come from anybody: they reach a page through
// html_escaped() or as data through with_data(), and are shown as text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace anemone {

struct PageHead {
  std::string title;    // of the window
  std::string heading;  // the large line at the top
  std::string note;     // the line below it
};

// The whole page around its body (HTML). style.css and kit.js, whose functions a body's script may use, are inside.
std::string page_text(const PageHead& head, std::string_view body);

// The body with JSON in its slot, which is `/*data*/null` in a script.
std::string with_data(std::string_view body, std::string_view json);

// Text for HTML, in elements and in quoted attributes. What would turn the direction of the text around it is named
// instead: ⟨U+202E⟩.
std::string html_escaped(std::string_view text);

// Writes the file whole or not at all. It may replace a file; Error where a folder or a device has its name.
void write_page(const std::filesystem::path& path, std::string_view page);

}  // namespace anemone
