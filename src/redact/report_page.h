// ReportPage: a page that shows redacted documents with what was found in them.
//     ReportPage page(head, kinds);
//     page.pass("a.txt", Encoding::utf8, raw); page.find("a.txt", finding);
//     page.write("found.html", report);
// It holds the texts, so it shows the first megabytes of a large run, and says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "redact/report.h"

namespace anemone::redact {

class ReportPage {
 public:
  ReportPage(ReportHead head, std::vector<std::string> kinds)
      : head_(std::move(head)), kinds_(std::move(kinds)) {}

  // Bytes of a file that stay, and something that does not, in the order of the file.
  void pass(const std::string& file, Encoding encoding, std::string_view raw);
  void find(const std::string& file, const Finding& finding);
  void write(const std::filesystem::path& path, const Report& report) const;

 private:
  struct Piece {
    std::string text;  // what stays, or what was found, if that may be shown
    std::string replacement;
    int kind = -1;  // of what was found
    float score = 0;
  };
  struct File {
    std::string name;
    std::vector<Piece> pieces;
  };

  // The file that is being read; nullptr where the page is full.
  File* file(const std::string& name);

  ReportHead head_;
  std::vector<std::string> kinds_;
  std::vector<File> files_;
  uint64_t bytes_ = 0;
  bool cut_ = false;
};

}  // namespace anemone::redact
