// Batch: files, folders or standard input, redacted one after the other with all cores at work.
//     std::vector<BatchItem> items = plan_batch({.inputs = {"letters"}, .output = "clean"}, skipped);
//     Batch batch(redactor, options, report);
//     for (const BatchItem& item : items) batch.add(item);
//     batch.finish();
// While the windows of one file are computed, the next ones are read. Files are written in order, whole or not at all.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "redact/document.h"
#include "redact/records.h"
#include "redact/report.h"

namespace anemone::redact {

// "-" is standard input, or standard output.
struct BatchItem {
  std::string input, output;
  uint64_t bytes = 0;  // of the input; 0: not known
};

struct BatchPlan {
  std::vector<std::string> inputs;
  std::string output;      // empty: standard output
  bool recursive = false;  // folders are walked
  bool write = true;       // false: nothing is written
  bool overwrite = false;
};

struct Skipped {
  std::string file, why;
};

// Error for a folder without `recursive`, for several inputs without a folder to write to, and for what stands in the
// way. Files that are no text, links and what is no file are skipped in folders.
std::vector<BatchItem> plan_batch(const BatchPlan& plan, std::vector<Skipped>& skipped);

struct BatchOptions {
  std::optional<Format> format;  // empty: by the name of the file
  std::optional<Encoding> encoding;
  WalkerSettings walker;
  bool records = false;  // lines with a text field each
  std::string text_field = "text";
  bool overwrite = false;
  // Standard output.
  std::function<void(std::string_view bytes)> print;
  std::function<void()> flush;
  // What was read so far, in bytes.
  std::function<void(uint64_t bytes)> progress;
  // What comes out, piece by piece, for pages: what stays, decoded, and what was found.
  std::function<void(const std::string& file, Encoding encoding, std::string_view raw)> passed;
  std::function<void(const std::string& file, const Finding& finding)> found;
};

// Looks for the fields that are asked for in all files of the batch. Error where none has one of them, before anything
// is written. What comes through a pipe can be read only once, so there the same error comes at the end.
void expect_fields(const std::vector<BatchItem>& items, const BatchOptions& options);

class Batch {
 public:
  Batch(Redactor& redactor, BatchOptions options, Report& report);
  ~Batch();

  // Reads a file and writes what can be written.
  void add(const BatchItem& item);
  // Waits for the rest.
  void finish();

  const std::vector<std::string>& notes() const { return notes_; }
  uint64_t bad_records() const { return bad_records_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Running;

  std::unique_ptr<Stream> open(Running& running);
  void read(Running& running, int descriptor);
  // Takes a result of the oldest file; false: there was none.
  bool advance(bool wait);
  void close(Running& running);

  Redactor& redactor_;
  BatchOptions options_;
  Report& report_;
  std::deque<std::unique_ptr<Running>> running_;
  std::vector<std::string> notes_;
  uint64_t bytes_ = 0, bad_records_ = 0;
};

}  // namespace anemone::redact
