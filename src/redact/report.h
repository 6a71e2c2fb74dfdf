// Report: what was found, where, and how much, as JSON; written while documents are read, so that memory stays flat.
//     Report report("report.json", head);                     // or nowhere: it only counts
//     report.begin_file("a.txt"); report.add(finding); report.end_file(facts);
//     report.finish();
// The texts that were found are in it only if asked for.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/staged.h"
#include "redact/redactor.h"

namespace anemone::redact {

struct ReportHead {
  std::string tool, model, policy, replace;
  std::string limits;  // of the model; empty: nothing to say
  bool show = false;   // what was found stands in the report
};

// What is known of a file at its end.
struct FileFacts {
  std::string output, format, encoding;  // empty: nothing to say
  uint64_t bytes = 0, characters = 0, malformed = 0, records = 0, bad_records = 0;
  std::vector<std::string> notes;
};

class Report {
 public:
  using Write = std::function<void(std::string_view text)>;

  // `write`: takes the text of the report; none: only counts are kept.
  Report(ReportHead head, std::vector<std::string> kinds, Write write);

  void begin_file(const std::string& name);
  void add(const Finding& finding);
  void end_file(const FileFacts& facts);
  // A file that was left alone.
  void skipped(const std::string& name, const std::string& why);
  void finish();

  const std::vector<std::string>& kinds() const { return kinds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }
  uint64_t total() const;
  uint64_t files() const { return files_; }
  // "2 private_email, 1 private_person"; "nothing".
  std::string counts_text() const;

 private:
  void put(std::string_view text) const {
    if (write_) write_(text);
  }
  std::string counts_json(const std::vector<uint64_t>& counts) const;

  ReportHead head_;
  std::vector<std::string> kinds_;
  Write write_;
  std::vector<uint64_t> counts_, file_counts_;
  uint64_t files_ = 0, entries_ = 0, spans_ = 0;
};

// Whether a file begins as reports do.
bool is_report(const std::filesystem::path& path);

// The file of a report: whole or not at all.
class ReportFile {
 public:
  explicit ReportFile(const std::filesystem::path& path);
  ~ReportFile();
  void write(std::string_view text);
  void commit();

 private:
  StagedOutput staged_;
  std::FILE* file_ = nullptr;
};

}  // namespace anemone::redact
