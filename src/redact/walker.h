// Walker: reads a document of one format and says what the model sees of it and what may be replaced.
//     auto walker = make_walker(Format::csv, settings);
//     walker->feed(chars, sink);                              // the characters of the source, as they come
//     walker->finish(sink);
// Every character of the source goes to the sink once, in order. So whatever is not replaced stays as it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redact/encoding.h"
#include "redact/unit.h"

namespace anemone::redact {

enum class Format { text, csv, tsv, json, jsonl };

std::string_view format_name(Format format);
std::optional<Format> find_format(std::string_view name);
const std::vector<std::string>& format_names();
// By the end of a file's name; text where it says nothing.
Format format_of(std::string_view path);

// Where a walker puts a document.
class UnitSink {
 public:
  virtual ~UnitSink() = default;
  virtual Unit& unit() = 0;  // the one that is being read
  virtual void end_unit() = 0;
  // Something in the document is not as its format wants it.
  virtual void problem(const std::string& what) = 0;
};

class Walker {
 public:
  virtual ~Walker() = default;
  virtual void feed(std::span<const SourceChar> chars, UnitSink& sink) = 0;
  virtual void finish(UnitSink& sink) = 0;
};

// Which values of records are looked at: names of columns or keys, "user.email" for a path, * for any name. A name
// without a dot stands for a key at any depth, and for a column also its number, from 1.
class FieldFilter {
 public:
  FieldFilter() = default;
  explicit FieldFilter(std::vector<std::string> names);

  bool all() const { return fields_.empty(); }
  // Whether a document had columns or keys to be asked for; and the names that none of them had so far. Copies of a
  // filter share this.
  bool asked() const { return met_ && met_->asked; }
  std::vector<std::string> unmet() const;
  // Error for a name that none of them had: a slip of the pen would leave everything in.
  void expect_met() const;
  bool wants_column(std::string_view name, size_t number) const;
  // Keys from the outermost one on.
  bool wants_path(std::span<const std::string> path) const;

 private:
  struct Met {
    explicit Met(size_t count) : names(count) {}
    std::vector<std::atomic<bool>> names;
    std::atomic<bool> asked = false;
  };
  // Whether some name fits; those that do are met.
  bool any(const std::function<bool(const std::vector<std::string>& field)>& fits) const;

  std::vector<std::vector<std::string>> fields_;  // the parts of each name
  std::shared_ptr<Met> met_;
};

struct WalkerSettings {
  FieldFilter fields;
  bool lines = false;  // text: each line is a unit
  bool header = true;  // csv, tsv: the first row names the columns
};

std::unique_ptr<Walker> make_walker(Format format, const WalkerSettings& settings);
// One for each format.
std::unique_ptr<Walker> make_text_walker(const WalkerSettings& settings);
std::unique_ptr<Walker> make_csv_walker(const WalkerSettings& settings, std::optional<char32_t> delimiter);
std::unique_ptr<Walker> make_json_walker(const WalkerSettings& settings, bool lines);

}  // namespace anemone::redact
