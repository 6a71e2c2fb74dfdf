#include "redact/walker.h"

#include <doctest/doctest.h>

#include <random>

#include "redact/document.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::redact;

namespace {

// What the model sees of a document, a unit after the other, with [ ] around what may be replaced.
struct Seen : UnitSink {
  std::deque<Unit> units;
  std::vector<std::string> problems;
  bool open = false;

  Unit& unit() override {
    if (!open) units.emplace_back(units.empty() ? SourcePlace{} : units.back().source_end());
    open = true;
    return units.back();
  }
  void end_unit() override { open = false; }
  void problem(const std::string& what) override { problems.push_back(what); }

  std::vector<std::string> views() const {
    std::vector<std::string> out;
    for (const Unit& u : units) {
      std::string text;
      uint64_t at = 0;
      for (const SourceRange& r : u.sources(0, u.view_end())) {
        text += u.view(at, r.view_begin);
        text += "[" + std::string(u.view(r.view_begin, r.view_end)) + "]";
        at = r.view_end;
      }
      out.push_back(text + std::string(u.view(at, u.view_end())));
    }
    return out;
  }
};

std::vector<std::string> seen(Format format, std::string_view text, WalkerSettings settings = {}) {
  // In pieces, as files come.
  for (const size_t piece : {1u, 7u, 4096u}) {
    Seen sink;
    const auto walker = make_walker(format, settings);
    CharReader reader(Encoding::utf8);
    for (size_t at = 0; at < text.size(); at += piece) {
      std::vector<SourceChar> chars;
      reader.feed(text.substr(at, piece), chars);
      walker->feed(chars, sink);
    }
    std::vector<SourceChar> chars;
    reader.finish(chars);
    walker->feed(chars, sink);
    walker->finish(sink);
    if (!sink.units.empty()) CHECK(sink.units.back().source_end().byte == text.size());
    if (piece == 4096u) return sink.views();
  }
  return {};
}

using Views = std::vector<std::string>;

}  // namespace

TEST_CASE("text: a document is a unit, or each line is") {
  CHECK(seen(Format::text, "a\nb\n") == Views{"[a\nb\n]"});
  WalkerSettings lines;
  lines.lines = true;
  CHECK(seen(Format::text, "a\r\n\nb", lines) == Views{"[a\r\n]", "[\n]", "[b]"});
}

TEST_CASE("csv: the model sees each cell behind the name of its column") {
  CHECK(seen(Format::csv, "name,mail\nAnn,a@b.c\n") == Views{"name,mail\n", "name: [Ann]\nmail: [a@b.c]\n"});
  CHECK(seen(Format::csv, "n;\"a b\"\r\n\"say \"\"hi\"\"\";\"x\ny\"\r\n") ==
        Views{"n;[a b]\r\n", "n: [say \"hi\"]\na b: [x\ny]\n"});
  CHECK(seen(Format::tsv, "a\tb\n1,5\t\"\"\n") == Views{"a\tb\n", "a: [1,5]\nb: \n"});
  CHECK(seen(Format::csv, "Ann Lee,a@b.c,x\n") == Views{"[Ann Lee],[a@b.c],x\n"});
  WalkerSettings settings;
  settings.fields = FieldFilter({"mail"});
  CHECK(seen(Format::csv, "name,mail\nAnn,a@b.c", settings) == Views{"", "mail: [a@b.c]\n"});
  settings.fields = FieldFilter({"1"});
  CHECK(seen(Format::csv, "name,mail\nAnn,a@b.c", settings) == Views{"", "name: [Ann]\n"});
  settings.fields = {};
  settings.header = false;
  CHECK(seen(Format::csv, "Ann,a@b.c\n", settings) == Views{"[Ann]\n[a@b.c]\n"});
}

TEST_CASE("json: strings that are values, each behind its key, with escapes undone") {
  CHECK(seen(Format::json, R"({"name": "Ann", "n": [1, "x", {"deep": "y"}], "t": true})") ==
        Views{"name: [Ann]\nn: [x]\ndeep: [y]\n"});
  CHECK(seen(Format::json, R"(["\u00fc\n\"\ud83d\ude00\/"])") == Views{"[ü\n\"😀/]\n"});
  CHECK(seen(Format::json, R"(["\ud83d!", "\ude00", "\ud83d\u0041"])") ==
        Views{"[\ufffd!]\n[\ufffd]\n[\ufffdA]\n"});
  CHECK(seen(Format::jsonl, "{\"a\": \"x\"}\n{\"b\": \"y\"}\n") == Views{"a: [x]\n", "b: [y]\n"});
  WalkerSettings settings;
  settings.fields = FieldFilter({"user.name", "note"});
  CHECK(seen(Format::json, R"({"name": "a", "user": {"name": "b", "id": "c"}, "x": [{"note": ["d"]}]})",
             settings) == Views{"name: [b]\nnote: [d]\n"});
}

TEST_CASE("json: what is none is read as text from there on") {
  CHECK(seen(Format::json, "{\"a\": \"x\", Ann}") == Views{"a: [x]\n[Ann}]"});
  CHECK(seen(Format::jsonl, "{\"a\": \"x\n{\"b\": \"y\"}\n") == Views{"a: [x\n]", "b: [y]\n"});
  CHECK(seen(Format::json, "[\"\\u12x\"]") == Views{"[\\u12x]\n"});
  CHECK(seen(Format::json, std::string(20000, '[')).size() == 1);
}

TEST_CASE("formats by the names of files") {
  CHECK(format_of("a/b.CSV") == Format::csv);
  CHECK(format_of("a.b/c") == Format::text);
  CHECK(format_of("x.ndjson") == Format::jsonl);
  CHECK(format_of("README.md") == Format::text);
}

TEST_CASE("encodings: found by the first bytes, and read without loss") {
  using namespace std::string_literals;
  CHECK(detect_encoding("\xff\xfe"s + "a\0"s) == Encoding::utf16le);
  CHECK(detect_encoding("\0H\0e\0l\0l\0o"s) == Encoding::utf16be);
  CHECK(detect_encoding("H\0e\0l\0l\0o\0"s) == Encoding::utf16le);
  CHECK(detect_encoding("Hello, J\xfcrgen") == Encoding::utf8);
  CHECK(detect_encoding("\xff\xfe\0\0a\0\0\0"s) == Encoding::utf32le);
  CHECK(detect_encoding("\0\0\xfe\xff\0\0\0a"s) == Encoding::utf32be);
  CHECK(detect_encoding("H\0\0\0\xac\x20\0\0\n\0\0\0"s) == Encoding::utf32le);
  CHECK(detect_encoding("\0\0\0H\0\1\xf6\0"s) == Encoding::utf32be);
  CHECK(detect_encoding("a\0\n\0b\0\n\0"s) == Encoding::utf16le);  // in UTF-32, two of plane 10
  CHECK(looks_binary("\1\0\0\0\2\0\0\0\0\0\0\0"s));
  CHECK(looks_binary("PK\x03\x04\0\0\0\x08"s));
  CHECK_FALSE(looks_binary("H\0e\0l\0l\0o\0"s));
  std::mt19937 random(5);
  for (const std::string& name : encoding_names())
    for (int n = 0; n < 200; ++n) {
      std::string bytes(random() % 40, '\0');
      for (char& c : bytes) c = static_cast<char>(random() % 3 ? random() % 256 : 'a' + random() % 26);
      std::vector<SourceChar> whole, pieces;
      CharReader one(*find_encoding(name)), many(*find_encoding(name));
      one.feed(bytes, whole);
      one.finish(whole);
      for (const char c : bytes) many.feed(std::string_view(&c, 1), pieces);
      many.finish(pieces);
      size_t sum = 0;
      for (const SourceChar& c : whole) sum += c.bytes;
      CHECK(sum == bytes.size());
      REQUIRE(pieces.size() == whole.size());
      for (size_t i = 0; i < whole.size(); ++i) CHECK(pieces[i].code == whole[i].code);
    }
}
