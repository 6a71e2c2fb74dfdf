// Documents with patterns alone: what is not replaced stays to the byte, and places in the report are right.
#include "redact/document.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "redact/records.h"
#include "support/temp_folder.h"
#include "text/unicode.h"

using namespace anemone;
using namespace anemone::redact;
using namespace std::string_literals;

namespace {

struct Ran {
  std::string out;
  std::vector<Finding> findings;  // without texts
  std::vector<std::string> texts;
  FileFacts facts;
};

Ran run(std::string_view bytes, Format format, std::vector<std::string> also, size_t piece = 1 << 14,
        WalkerSettings walker = {}) {
  RedactSettings settings;
  settings.also = std::move(also);
  Redactor redactor(settings, nullptr);
  Ran ran;
  Document document(redactor, {.format = format,
                               .walker = std::move(walker),
                               .write = [&](std::string_view b) { ran.out += b; },
                               .found =
                                   [&](const Finding& f) {
                                     ran.findings.push_back(f);
                                     ran.texts.emplace_back(f.text);
                                   }});
  for (size_t at = 0; at < bytes.size(); at += piece) {
    document.feed(bytes.substr(at, piece));
    while (document.step(true)) {
    }
  }
  document.finish();
  while (document.step(true)) {
  }
  CHECK(document.done());
  ran.facts = document.facts();
  return ran;
}

// The text in another encoding, with or without a byte order mark.
std::string encoded(std::u32string_view text, Encoding encoding, bool mark) {
  std::string out;
  const auto unit = [&](uint32_t u) {
    const char low = static_cast<char>(u & 0xff), high = static_cast<char>(u >> 8);
    out += encoding == Encoding::utf16le ? low : high;
    out += encoding == Encoding::utf16le ? high : low;
  };
  const auto put = [&](char32_t c) {
    if (encoding == Encoding::utf8) return append_utf8(out, c);
    if (encoding == Encoding::latin1) return static_cast<void>(out += static_cast<char>(c < 256 ? c : '?'));
    if (encoding == Encoding::utf32le || encoding == Encoding::utf32be) {
      for (int i = 0; i < 4; ++i)
        out += static_cast<char>(c >> 8 * (encoding == Encoding::utf32le ? i : 3 - i) & 0xff);
      return;
    }
    if (c < 0x10000) return unit(c);
    unit(0xd800 + ((c - 0x10000) >> 10));
    unit(0xdc00 + ((c - 0x10000) & 0x3ff));
  };
  if (mark) put(0xfeff);
  for (const char32_t c : text) put(c);
  return out;
}

// Something that a file may hold: text, tables, JSON, noise, in any encoding and cut anywhere.
std::string odd_file(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return random() % n; };
  static const std::u32string pieces[] = {U"Tide pools\n",
                                          U"a,b;c\t|d\r\n",
                                          U"\"quoted \"\"cell\"\"\",",
                                          U"{\"k\": [\"v\", {\"d\": \"\\u00fc\\n\"}]}\n",
                                          U"naïve café ",
                                          U"\r",
                                          U"😀 ",
                                          U"\\ud83d\\ude00",
                                          U"\"",
                                          U"\\",
                                          U"[[[[",
                                          U"}]",
                                          U"\n\n  \n",
                                          std::u32string(2, 0),
                                          U"我在海边。",
                                          U"x"};
  std::u32string text;
  for (uint32_t n = below(60); n > 0; --n) text += pieces[below(std::size(pieces))];
  if (below(10) == 0) text.append(below(200000), U'y');  // one very long word
  const Encoding encoding = *find_encoding(encoding_names()[below(6)]);
  std::string bytes = encoded(text, encoding, encoding != Encoding::latin1 && below(2));
  if (below(3) == 0 && !bytes.empty())
    for (int i = 0; i < 5; ++i)
      bytes[below(static_cast<uint32_t>(bytes.size()))] = static_cast<char>(below(256));
  if (below(4) == 0) bytes.resize(below(static_cast<uint32_t>(bytes.size() + 1)));
  return bytes;
}

}  // namespace

TEST_CASE("1,000 odd files in which nothing is found come out as they went in") {
  std::mt19937 random(11);
  size_t same = 0;
  for (int n = 0; n < 1000; ++n) {
    const std::string bytes = n == 0 ? "" : odd_file(random);
    const auto format = static_cast<Format>(random() % 5);
    const size_t piece = 1 + random() % 5000;
    WalkerSettings walker;
    walker.lines = random() % 2;
    walker.header = random() % 2;
    const Ran ran = run(bytes, format, {"this stands nowhere in them"}, piece, walker);
    CHECK(ran.findings.empty());
    same += ran.out == bytes;
  }
  CHECK(same == 1000);
}

TEST_CASE("what is found in odd files lies where the report says, and the rest stays") {
  std::mt19937 random(12);
  size_t found = 0;
  for (int n = 0; n < 300; ++n) {
    const std::string bytes = odd_file(random);
    const auto format = static_cast<Format>(random() % 5);
    const Ran ran = run(bytes, format, {"pools?|caf\u00e9|海|😀|quoted \""}, 1 + random() % 5000);
    // The source, with every span replaced at its place, is what came out.
    const Encoding encoding = *find_encoding(ran.facts.encoding);
    std::string made;
    uint64_t at = 0;
    for (size_t i = 0; i < ran.findings.size(); ++i) {
      const SourceRange& r = ran.findings[i].range;
      REQUIRE(r.begin.byte >= at);
      made += bytes.substr(at, r.begin.byte - at) + encoded_ascii("[MATCH]", encoding);
      CHECK(ran.findings[i].line == 1 + count_lines(bytes.substr(0, r.begin.byte), encoding));
      at = r.end.byte;
      // Characters count code points of the source.
      std::vector<SourceChar> before;
      CharReader reader(encoding);
      reader.feed(std::string_view(bytes).substr(0, r.begin.byte), before);
      reader.finish(before);
      CHECK(before.size() == r.begin.character);
      if (format == Format::text && encoding == Encoding::utf8 && ran.facts.malformed == 0)
        CHECK(bytes.substr(r.begin.byte, r.end.byte - r.begin.byte) == ran.texts[i]);
    }
    made += bytes.substr(at);
    CHECK(made == ran.out);
    found += ran.findings.size();
  }
  CHECK(found > 300);
}

TEST_CASE("documents: tables and JSON keep their form around what is replaced") {
  CHECK(run("id,mail\n7,\"Ann, a@b.c \"\"x\"\"\"\n", Format::csv, {"[a-z]@b\\.c"}).out ==
        "id,mail\n7,\"Ann, [MATCH] \"\"x\"\"\"\n");
  CHECK(run(R"({"a@b.c": "to \u0061@b.c\n", "n": 5})", Format::json, {"[a-z]@b\\.c"}).out ==
        R"({"a@b.c": "to [MATCH]\n", "n": 5})");
  // A match over two cells is replaced in both, and nothing between them is lost.
  CHECK(run("x,y\nAnn,Lee\n", Format::csv, {"Ann(?s:.)*Lee"}).out == "x,y\n[MATCH],[MATCH]\n");
  const std::string utf16 = encoded(U"say Ann!", Encoding::utf16le, true);
  CHECK(run(utf16, Format::text, {"Ann"}).out == encoded(U"say [MATCH]!", Encoding::utf16le, true));
}

TEST_CASE("documents: a line that comes through a pipe does not wait for those behind it") {
  RedactSettings settings;
  settings.also = {"Ann"};
  Redactor redactor(settings, nullptr);
  for (const Encoding encoding : {Encoding::utf8, Encoding::utf16be, Encoding::utf32le}) {
    std::string out;
    DocumentSettings lines{.write = [&](std::string_view bytes) { out += bytes; }};
    lines.walker.lines = true;
    Document document(redactor, lines);
    document.feed(encoded(U"ask Ann", encoding, false));
    document.pause();
    CHECK_FALSE(document.step(true));
    document.feed(encoded(U" now\nand", encoding, false));
    document.pause();
    while (document.step(true)) {
    }
    CHECK(out == encoded(U"ask [MATCH] now\n", encoding, false));
  }
}

TEST_CASE("documents: broken UTF-8 stays, is seen as Latin-1, and is counted") {
  const Ran ran = run("Herr J\xfcrgen \xff\xfe Ann", Format::text, {"J\u00fcrgen"});
  CHECK(ran.out == "Herr [MATCH] \xff\xfe Ann");
  CHECK(ran.facts.malformed == 3);
}

TEST_CASE("documents: a line of many megabytes needs no more memory than a short one") {
  RedactSettings settings;
  settings.also = {"needle"};
  Redactor redactor(settings, nullptr);
  uint64_t written = 0, most = 0, fed = 0, found = 0;
  Document document(redactor, {.write = [&](std::string_view b) { written += b.size(); },
                               .found = [&](const Finding&) { ++found; }});
  const std::string block(1 << 16, 'x');
  for (int i = 0; i < 300; ++i) {
    document.feed(block);
    document.feed(" needle ");
    fed += block.size() + 8;
    while (document.step(true)) {
    }
    most = std::max(most, fed - std::min(fed, written));
  }
  document.finish();
  while (document.step(true)) {
  }
  CHECK(found == 300);
  CHECK(written == fed + 300);  // [MATCH] is one longer
  CHECK(most < 400'000);        // what is held back
}

TEST_CASE("records: the same objects, in order, with the text redacted and the spans beside it") {
  RedactSettings settings;
  settings.also = {"PERSON=Ann|Bø"};
  Redactor redactor(settings, nullptr);
  std::string out;
  Records records(redactor, {.write = [&](std::string_view line) { out += line; }});
  const std::string in =
      "{\"id\": 12345678901234567890.10, \"text\": \"I am B\\u00f8, not Ann\", \"x\": {\"text\": "
      "\"Ann\"}}\r\n"
      "\n"
      "{\"spans\": [1], \"text\": \"Ann\"}\n"
      "{\"text\": 5}\n"
      "{}\n"
      "[1]\n"
      "no JSON of Ann\n"
      "{\"text\": \"Ann\", \"text\": 4}\n"
      "{\"text\": [\"Ann\"]}\n"
      "{\"text\": \"\"}";
  for (const char c : in) records.feed(std::string_view(&c, 1));
  records.finish();
  while (records.step(true)) {
  }
  CHECK(records.done());
  std::vector<std::string> lines;
  for (size_t at = 0; at <= out.size();) {
    const size_t end = std::min(out.find('\n', at), out.size());
    lines.push_back(out.substr(at, end - at));
    at = end + 1;
  }
  REQUIRE(lines.size() == 10);
  CHECK(lines[0] ==
        "{\"id\": 12345678901234567890.10, \"text\": \"I am [PERSON], not [PERSON]\", \"x\": {\"text\": "
        "\"Ann\"}, "
        "\"spans\": [{\"start\": 5, \"end\": 7, \"start_byte\": 5, \"end_byte\": 8, \"label\": \"PERSON\", "
        "\"score\": "
        "1.0000}, {\"start\": 13, \"end\": 16, \"start_byte\": 14, \"end_byte\": 17, \"label\": \"PERSON\", "
        "\"score\": 1.0000}]}\r");
  CHECK(lines[1].empty());
  CHECK(nlohmann::json::parse(lines[2]).at("spans").size() == 1);
  CHECK(nlohmann::json::parse(lines[2]).at("text") == "[PERSON]");
  CHECK(lines[3] == "{\"text\": 5, \"error\": \"line 4: the field 'text' is no string\"}");
  CHECK(lines[4] == "{\"error\": \"line 5: the object has no field 'text'\"}");
  CHECK(lines[5] == "{\"error\": \"line 6: the line is no JSON object\", \"line\": \"[1]\"}");
  CHECK(lines[6] == "{\"error\": \"line 7: the line is no JSON\", \"line\": \"no JSON of [PERSON]\"}");
  // Texts that nobody would look at do not get out either.
  CHECK(nlohmann::json::parse(lines[7]) == nlohmann::json{{"error", "line 8: the field 'text' is no string"},
                                                          {"line", "{\"text\": \"[PERSON]\", \"text\": 4}"}});
  CHECK(nlohmann::json::parse(lines[8]).at("line") == "{\"text\": [\"[PERSON]\"]}");
  CHECK(lines[9] == "{\"text\": \"\", \"spans\": []}");
  CHECK(records.facts().records == 10);
  CHECK(records.facts().bad_records == 6);
}
