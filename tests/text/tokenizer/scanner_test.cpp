#include "text/tokenizer/scanner.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "text/regex.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/unicode.h"

namespace anemone {
namespace {

using Pieces = std::vector<std::string>;

Pieces by_scanner(const Scanner& scanner, std::string_view text) {
  Pieces out;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const size_t n = scanner.match(p, end);
    if (n > 0) out.emplace_back(p, n);
    p += n > 0 ? static_cast<int>(n) : utf8_length(*p);
  }
  return out;
}

Pieces by_regex(const Regex& regex, std::string_view text) {
  Pieces out;
  regex.for_each_match(text,
                       [&](size_t begin, size_t end) { out.emplace_back(text.substr(begin, end - begin)); });
  return out;
}

// Characters of every class; those that expressions name come more often. Nothing is newer than Unicode 14, which is
// what the regex engine knows.
std::string random_text(std::mt19937& random) {
  static constexpr char32_t characters[] = {
      U' ', U' ',  U'\n', U'\r', U'\t',   U'\'',  U's', U'T',  U'l',  U'L',   U'r',   U'e',
      U'V', U'A',  U'z',  U'1',  U'2',    U'.',   U'/', U'!',  U'$',  U'é',   U'Ж',   U'ǅ',
      U'ʰ', U'中', U'あ', U'カ', U'가',   U'²',   U'٣', 0x301, 0x903, 0x20dd, 0x3000, 0xa0,
      0x85, 0x17f, U'—',  U'€',  0x1f680, 0x200d, 0,    0x378, 0xe000};
  std::string text;
  const size_t length = 1 + random() % 24;
  for (size_t i = 0; i < length; ++i) append_utf8(text, characters[random() % std::size(characters)]);
  return text;
}

}  // namespace

TEST_CASE("scanners cut as the expressions that they stand for") {
  int recognised = 0;
  for (const char* name :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3", "bailingmoe",
        "minicpm5", "youtu", "default", "falcon", "deepseek-coder"}) {
    for (std::string_view expression : gguf_pre_type(name).regexes) {
      const auto scanner = Scanner::recognise(expression);
      if (!scanner) continue;
      ++recognised;
      const Regex regex(expression);
      std::mt19937 random(7);
      for (int i = 0; i < 3000; ++i) {
        const std::string text = random_text(random);
        CAPTURE(expression);
        CAPTURE(text);
        REQUIRE(by_scanner(*scanner, text) == by_regex(regex, text));
      }
    }
  }
  CHECK(recognised >= 18);
}

TEST_CASE("an expression with an unknown part is left to the regex engine") {
  CHECK_FALSE(Scanner::recognise("\\p{L}+|x").has_value());
  CHECK_FALSE(Scanner::recognise("").has_value());
  CHECK(Scanner::recognise("[^\r\n\\p{L}\\p{N}]?\\p{L}+").has_value());  // line ends as themselves
}

TEST_CASE("white space, words and empty matches are as in Oniguruma") {
  CHECK(by_regex(Regex("\\s+"), "a\u3000\u0085b\u180ec") == Pieces{"\u3000\u0085"});
  CHECK(by_regex(Regex("\\w+"), "x² e\u0301 a① _") == Pieces{"x²", "e\u0301", "a", "_"});
  CHECK(by_regex(Regex("(?=(\\d{3})+(?!\\d))"), "12345") == Pieces{""});
  CHECK(by_regex(Regex("a$"), "a\nba") == Pieces{"a", "a"});
  CHECK(by_regex(Regex(Regex::escape("a.b|(c)")), "axb a.b|(c)") == Pieces{"a.b|(c)"});
}

}  // namespace anemone
