#include "redact/spans.h"

#include <doctest/doctest.h>

#include "redact/finder.h"
#include "redact/windows.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::redact;

namespace {

Unit unit_of(std::string_view text) {
  Unit unit{SourcePlace{}};
  std::vector<SourceChar> chars;
  CharReader reader(Encoding::utf8);
  reader.feed(text, chars);
  for (const SourceChar& c : chars) unit.put(Part::open, c);
  unit.end();
  return unit;
}

std::vector<std::string> tidied(std::string_view text, const std::vector<Span>& spans) {
  const Unit unit = unit_of(text);
  std::vector<std::string> out;
  for (const Span& s : tidy(unit, spans)) out.emplace_back(unit.view(s.begin, s.end));
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("spans never cut a word or a number, and lose white space at their edges") {
  CHECK(tidied("Ask Jürgen now", {{7, 9, 0, 1}}) == Texts{"Jürgen"});
  CHECK(tidied("call 555-0142 x", {{7, 10, 0, 1}}) == Texts{"555-0142"});
  CHECK(tidied(" Ann \n", {{0, 6, 0, 1}}) == Texts{"Ann"});
  CHECK(tidied("  ", {{0, 2, 0, 1}}) == Texts{});
  // Scripts without case have no words to see.
  CHECK(tidied("我叫王伟好", {{6, 12, 0, 1}}) == Texts{"王伟"});
}

TEST_CASE("spans that touch after that join, or the later one gives way") {
  CHECK(tidied("Annabel", {{0, 3, 0, 1}, {3, 7, 0, 1}}) == Texts{"Annabel"});
  CHECK(tidied("Ann Lee7", {{0, 6, 0, 1}, {6, 8, 1, 1}}) == Texts{"Ann Lee", "7"});
}

TEST_CASE("patterns take the place of what they cover") {
  const std::vector<Span> over = {{2, 4, 9, 1}, {6, 7, 9, 1}}, under = {{0, 3, 1, 1}, {3, 8, 2, 1}};
  const std::vector<Span> all = overlaid(over, under);
  std::vector<std::array<uint64_t, 3>> seen;
  for (const Span& s : all) seen.push_back({s.begin, s.end, static_cast<uint64_t>(s.kind)});
  CHECK(seen == std::vector<std::array<uint64_t, 3>>{{0, 2, 1}, {2, 4, 9}, {4, 6, 2}, {6, 7, 9}, {7, 8, 2}});
}

TEST_CASE("places in the source: bytes and characters, with escapes and other encodings") {
  Unit unit{SourcePlace{10, 5}};
  unit.put(Part::open, {U'a', 1, true});
  unit.put(Part::open, U'ü', 6, 6);  // \u00fc
  unit.put(Part::open, {U'é', 2, true});
  unit.put(Part::fixed, {U'"', 1, true});
  unit.context("key: ");
  unit.put(Part::open, {U'z', 1, true});
  CHECK(unit.view(0, unit.view_end()) == "aüékey: z");
  const std::vector<SourceRange> all = unit.sources(0, unit.view_end());
  REQUIRE(all.size() == 2);
  CHECK(all[0].begin.byte == 10);
  CHECK(all[0].end.byte == 19);
  CHECK(all[0].begin.character == 5);
  CHECK(all[0].end.character == 13);
  CHECK(all[1].begin.byte == 20);
  CHECK(all[1].begin.character == 14);
  const std::vector<SourceRange> one = unit.sources(1, 3);
  REQUIRE(one.size() == 1);
  CHECK(one[0].begin.byte == 11);
  CHECK(one[0].end.byte == 17);
  unit.drop(3);
  CHECK(unit.sources(3, 5).at(0).begin.byte == 17);
}

TEST_CASE("windows: every token is kept once, with all that it sees") {
  for (const int64_t tokens : {1, 99, 100, 101, 160, 161, 1000}) {
    WindowCut cut(100, 20);
    int64_t kept = 0;
    for (int64_t there = 0; there <= tokens; there += 13) {
      const bool ended = there + 13 > tokens;
      while (const auto w = cut.next(ended ? tokens : there, ended)) {
        CHECK(w->keep == kept);
        kept += w->kept;
        CHECK(w->count <= 100);
        CHECK(w->first == std::max<int64_t>(0, w->keep - 20));
        CHECK(w->first + w->count >= std::min(tokens, w->keep + w->kept + 20));
        CHECK(cut.needed_from() <= kept);
      }
    }
    CHECK(kept == tokens);
  }
  WindowCut narrow(40, 20);
  CHECK(error_of([&] { narrow.next(41, true); }).find("--tokens 80") != std::string::npos);
}

TEST_CASE("a text is cut where no token crosses") {
  CHECK(safe_cut("one two\nthree four") == 8);
  CHECK(safe_cut("one two three") == 7);
  CHECK(safe_cut("one two\n  x") == 3);
  CHECK(safe_cut("onetwothree") == 0);
  CHECK(safe_cut("a\n") == 0);
}
