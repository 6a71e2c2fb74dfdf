// JSON: strings that are values may be replaced; keys, numbers and the rest stay. The model sees each string behind its
// key ("email: a@example.org"). A document is a unit; of JSON lines, each line is. What is no JSON any more is read as
// text from there on, so that nothing in it is overlooked.
#include "redact/walker.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

constexpr size_t kDeepest = 10000;   // brackets inside of brackets
constexpr size_t kLongestKey = 256;  // bytes of a key that are kept
constexpr char32_t kBroken = 0xfffd;

int hex_digit(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
  return -1;
}

char32_t of_short_escape(char32_t c) {
  switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'b': return '\b';
    case 'f': return '\f';
    default: return c;
  }
}

bool is_json_space(char32_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_scalar(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
}

class JsonWalker : public Walker {
 public:
  JsonWalker(const WalkerSettings& settings, bool lines) : fields_(settings.fields), lines_(lines) {}

  void feed(std::span<const SourceChar> chars, UnitSink& sink) override {
    for (const SourceChar& c : chars) {
      place_.column++;
      if (c.code == '\n') place_ = {place_.line + 1, 0};
      if (as_text_)
        read_text(c, sink);
      else if (in_string_)
        read_string(c, sink);
      else
        read_outside(c, sink);
    }
  }

  void finish(UnitSink& sink) override {
    flush_escape(sink);
    sink.end_unit();
  }

 private:
  enum class Expect { value, key, colon, comma };
  struct Level {
    bool object;
  };

  void read_text(const SourceChar& c, UnitSink& sink) {
    sink.unit().put(Part::open, c);
    if (lines_ && c.code == '\n') end_line(sink);
  }

  void end_line(UnitSink& sink) {
    sink.end_unit();
    levels_.clear();
    path_.clear();
    as_text_ = in_string_ = false;
    expect_ = Expect::value;
  }

  void give_up(const SourceChar& c, UnitSink& sink) {
    sink.problem("line " + std::to_string(place_.line) + ", column " + std::to_string(place_.column) +
                 ": not JSON from here on; the rest " + (lines_ ? "of the line " : "") + "is read as text");
    as_text_ = true;
    in_string_ = false;
    read_text(c, sink);
  }

  // Between strings.
  void read_outside(const SourceChar& c, UnitSink& sink) {
    if (c.code == '\n' && lines_) {
      if (!levels_.empty()) return give_up(c, sink);
      sink.unit().put(Part::fixed, c);
      return end_line(sink);
    }
    if (is_json_space(c.code)) return sink.unit().put(Part::fixed, c);
    if (!accept(c.code)) return give_up(c, sink);
    sink.unit().put(Part::fixed, c);
    if (c.code == '"') begin_string(sink);
  }

  bool accept(char32_t c) {
    // One document may follow another.
    if (levels_.empty() && expect_ == Expect::comma && (c == '{' || c == '[' || c == '"'))
      expect_ = Expect::value;
    switch (c) {
      case '"': return expect_ == Expect::value || expect_ == Expect::key;
      case '{':
      case '[': return open(c == '{');
      case '}':
      case ']': return close(c == '}');
      case ':':
        if (expect_ != Expect::colon) return false;
        expect_ = Expect::value;
        return true;
      case ',':
        if (expect_ != Expect::comma || levels_.empty()) return false;
        expect_ = levels_.back().object ? Expect::key : Expect::value;
        return true;
      default: break;
    }
    // A number or a word: it goes on while `expect_` says comma and nothing stood between.
    if (!is_scalar(c) || (expect_ != Expect::value && expect_ != Expect::comma)) return false;
    expect_ = Expect::comma;
    return true;
  }

  bool open(bool object) {
    if (expect_ != Expect::value || levels_.size() >= kDeepest) return false;
    levels_.push_back({object});
    if (object) path_.emplace_back();
    expect_ = object ? Expect::key : Expect::value;
    return true;
  }

  bool close(bool object) {
    if (levels_.empty() || levels_.back().object != object || expect_ == Expect::colon) return false;
    levels_.pop_back();
    if (object) path_.pop_back();
    expect_ = Expect::comma;
    return true;
  }

  void begin_string(UnitSink& sink) {
    in_string_ = true;
    is_key_ = expect_ == Expect::key;
    escape_.clear();
    if (is_key_) {
      path_.back().clear();
      part_ = Part::fixed;
      return;
    }
    part_ = fields_.wants_path(path_) ? Part::open : Part::fixed;
    if (part_ == Part::open && !path_.empty()) sink.unit().context(path_.back() + ": ");
  }

  void end_string(const SourceChar& c, UnitSink& sink) {
    flush_escape(sink);
    sink.unit().put(Part::fixed, c);
    if (part_ == Part::open) sink.unit().context("\n");
    in_string_ = false;
    if (is_key_) fields_.wants_path(path_);  // it is there, whatever its value is
    expect_ = is_key_ ? Expect::colon : Expect::comma;
  }

  void read_string(const SourceChar& c, UnitSink& sink) {
    if (!escape_.empty()) return read_escape(c, sink);
    if (c.code == '"') return end_string(c, sink);
    if (c.code == '\n' && lines_) {  // a line that ends inside of a string
      flush_escape(sink);
      return give_up(c, sink);
    }
    if (c.code == '\\') {
      escape_ = {c};
      return;
    }
    flush_half(sink);
    give(c.code, c.bytes, 1, sink);
  }

  void read_escape(const SourceChar& c, UnitSink& sink) {
    escape_.push_back(c);
    if (escape_.size() == 2 && c.code != 'u') {
      flush_half(sink);
      return end_escape(of_short_escape(c.code), sink);
    }
    if (escape_.size() > 2 && hex_digit(c.code) < 0) {
      // No escape: what was held is itself, and this character is read again.
      escape_.pop_back();
      flush_escape(sink);
      return read_string(c, sink);
    }
    if (escape_.size() < 6) return;
    char32_t code = 0;
    for (size_t i = 2; i < 6; ++i) code = code * 16 + static_cast<char32_t>(hex_digit(escape_[i].code));
    if (code >= 0xd800 && code < 0xdc00) {
      flush_half(sink);
      half_ = code;
      half_bytes_ = bytes_of_escape();
      escape_.clear();
      return;
    }
    if (code >= 0xdc00 && code < 0xe000) {
      if (!half_) return end_escape(kBroken, sink);
      code = 0x10000 + ((half_ - 0xd800) << 10) + (code - 0xdc00);
      half_ = 0;
      give(code, half_bytes_ + bytes_of_escape(), 12, sink);
      escape_.clear();
      return;
    }
    flush_half(sink);
    end_escape(code, sink);
  }

  uint64_t bytes_of_escape() const {
    uint64_t sum = 0;
    for (const SourceChar& c : escape_) sum += c.bytes;
    return sum;
  }

  void end_escape(char32_t code, UnitSink& sink) {
    give(code, bytes_of_escape(), escape_.size(), sink);
    escape_.clear();
  }

  // Half a pair that found no other half.
  void flush_half(UnitSink& sink) {
    if (half_) give(kBroken, half_bytes_, 6, sink);
    half_ = 0;
  }

  // An escape that never ended.
  void flush_escape(UnitSink& sink) {
    flush_half(sink);
    for (const SourceChar& c : escape_) give(c.code, c.bytes, 1, sink);
    escape_.clear();
  }

  void give(char32_t code, uint64_t bytes, uint64_t characters, UnitSink& sink) {
    sink.unit().put(part_, code, bytes, characters);
    if (is_key_ && path_.back().size() < kLongestKey) append_utf8(path_.back(), code);
  }

  struct Place {
    uint64_t line = 1, column = 0;
  };

  FieldFilter fields_;
  bool lines_;
  Place place_;
  std::vector<Level> levels_;
  std::vector<std::string> path_;  // the key at each level that is an object
  Expect expect_ = Expect::value;
  bool as_text_ = false, in_string_ = false, is_key_ = false;
  Part part_ = Part::fixed;
  std::vector<SourceChar> escape_;  // an escape that is not whole
  char32_t half_ = 0;               // the first half of a pair of escapes
  uint64_t half_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Walker> make_json_walker(const WalkerSettings& settings, bool lines) {
  return std::make_unique<JsonWalker>(settings, lines);
}

}  // namespace anemone::redact
