// Tables: rows of cells, as RFC 4180 writes them and as people do. A row is a unit. The model sees each cell behind the
// name of its column ("email: a@example.org"), which says more than the cell alone. The first row it sees as it is. One
// word there is the name of a column; what has a space, a digit or an @ may be data of a table without names.
#include <algorithm>
#include <array>

#include "redact/walker.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kLongestHead =
    1 << 16;                         // characters of a first line that are waited for to find the delimiter
constexpr size_t kLongestName = 64;  // bytes of a column's name that the model sees
constexpr size_t kMostColumns = 1 << 16;  // whose names are kept

class CsvWalker : public Walker {
 public:
  CsvWalker(const WalkerSettings& settings, std::optional<char32_t> delimiter)
      : fields_(settings.fields), header_(settings.header), delimiter_(delimiter) {}

  void feed(std::span<const SourceChar> chars, UnitSink& sink) override {
    for (const SourceChar& c : chars) {
      if (delimiter_) {
        read(c, sink);
        continue;
      }
      head_.push_back(c);
      if (c.code == '\n' || head_.size() == kLongestHead) read_head(sink);
    }
  }

  void finish(UnitSink& sink) override {
    if (!delimiter_) read_head(sink);
    if (quote_waits_) close_quote(sink);
    end_row(sink);
  }

 private:
  struct CellChar {
    char32_t code;
    uint64_t bytes, characters;
  };

  // The delimiter that the first line has most of, outside of quotes.
  void read_head(UnitSink& sink) {
    constexpr std::array<char32_t, 4> kDelimiters = {',', ';', '\t', '|'};
    std::array<size_t, 4> counts{};
    bool quoted = false;
    for (const SourceChar& c : head_) {
      quoted ^= c.code == '"';
      for (size_t i = 0; i < counts.size() && !quoted; ++i) counts[i] += c.code == kDelimiters[i];
    }
    delimiter_ =
        kDelimiters[static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
    for (const SourceChar& c : head_) read(c, sink);
    head_ = {};
  }

  void read(const SourceChar& c, UnitSink& sink) {
    if (quote_waits_) {
      if (c.code == '"') {
        cell_char(c.code, quote_bytes_ + c.bytes, 2, sink);
        quote_waits_ = false;
        return;
      }
      close_quote(sink);
    }
    if (quoted_) {
      if (c.code == '"') {
        quote_waits_ = true;
        quote_bytes_ = c.bytes;
      } else {
        cell_char(c.code, c.bytes, 1, sink);
      }
      return;
    }
    if (c.code == '"' && !begun_) {
      quoted_ = true;
      begin_cell(sink);
      sink.unit().put(Part::fixed, c);
    } else if (c.code == *delimiter_ || c.code == '\n' || c.code == '\r') {
      end_cell(sink);
      sink.unit().put(names_row() && fields_.all() ? Part::shown : Part::fixed, c);
      if (c.code == '\n') end_row(sink);
      if (c.code == *delimiter_) ++column_;
    } else {
      cell_char(c.code, c.bytes, 1, sink);
    }
  }

  void close_quote(UnitSink& sink) {
    if (names_row()) flush_name(sink);
    sink.unit().put(Part::fixed, '"', quote_bytes_, 1);
    quote_waits_ = quoted_ = false;
  }

  bool names_row() const { return header_ && row_ == 0; }

  bool wanted() const {
    if (names_row()) return fields_.all();
    return fields_.wants_column(
        column_ < names_.size() ? std::string_view(names_[column_]) : std::string_view(), column_ + 1);
  }

  void begin_cell(UnitSink& sink) {
    if (begun_) return;
    begun_ = true;
    wanted_ = wanted();
    if (wanted_ && !names_row() && column_ < names_.size() && !names_[column_].empty())
      sink.unit().context(names_[column_].substr(0, cut_) + ": ");
  }

  void cell_char(char32_t code, uint64_t bytes, uint64_t characters, UnitSink& sink) {
    begin_cell(sink);
    if (!names_row()) return sink.unit().put(wanted_ ? Part::open : Part::fixed, code, bytes, characters);
    cell_.push_back({code, bytes, characters});
    if (cell_.size() == kLongestHead) flush_name(sink);
    if (column_ >= kMostColumns) return;
    names_.resize(std::max(names_.size(), column_ + 1));
    if (names_[column_].size() < kLongestName) append_utf8(names_[column_], code);
  }

  // A cell of the first row, whose part depends on all of it.
  void flush_name(UnitSink& sink) {
    const bool data = std::any_of(cell_.begin(), cell_.end(), [](const CellChar& c) {
      return c.code == ' ' || c.code == '@' || (class_of(c.code) & kNumeral);
    });
    const Part part = !wanted_ ? Part::fixed : data ? Part::open : Part::shown;
    for (const CellChar& c : cell_) sink.unit().put(part, c.code, c.bytes, c.characters);
    cell_.clear();
  }

  void end_cell(UnitSink& sink) {
    if (names_row()) flush_name(sink);
    if (begun_ && wanted_ && !names_row()) sink.unit().context("\n");
    begun_ = false;
  }

  void end_row(UnitSink& sink) {
    end_cell(sink);
    if (names_row())  // a table without rows has these columns too
      for (size_t i = 0; i < names_.size(); ++i) fields_.wants_column(names_[i], i + 1);
    quoted_ = false;
    column_ = 0;
    ++row_;
    sink.end_unit();
  }

  static constexpr size_t cut_ = kLongestName + 4;
  FieldFilter fields_;
  bool header_;
  std::optional<char32_t> delimiter_;
  std::vector<SourceChar> head_;  // the first line, until the delimiter is known
  std::vector<std::string> names_;
  std::vector<CellChar> cell_;  // of the first row, as far as it was read
  size_t column_ = 0, row_ = 0;
  bool begun_ = false, wanted_ = true, quoted_ = false;
  bool quote_waits_ = false;  // a quote inside of quotes: the next character says what it is
  uint64_t quote_bytes_ = 1;
};

}  // namespace

std::unique_ptr<Walker> make_csv_walker(const WalkerSettings& settings, std::optional<char32_t> delimiter) {
  return std::make_unique<CsvWalker>(settings, delimiter);
}

}  // namespace anemone::redact
