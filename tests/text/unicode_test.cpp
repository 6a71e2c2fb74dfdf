#include "text/unicode.h"

#include <doctest/doctest.h>

namespace anemone {

TEST_CASE("the inline classes of ASCII are those of the table") {
  for (char32_t c = 0; c < 128; ++c) CHECK(kAsciiClasses[c] == class_from_table(c));
}

TEST_CASE("characters have the classes of Unicode 16") {
  struct Case {
    char32_t c;
    uint16_t bits;
  };
  const Case cases[] = {{U'é', kLower | kWord},
                        {U'ǅ', kTitle | kWord},
                        {U'ʰ', kModifierLetter | kWord},
                        {U'中', kOtherLetter | kWord},
                        {0x301, kMark | kNonspacing | kWord},
                        {U'²', kNumeral},
                        {U'٣', kNumeral | kWord},
                        {U'—', kPunctuation},
                        {U'€', kSymbol},
                        {0x3000, kSpace},
                        {0x85, kSpace | kControl},
                        {0x180e, kControl},
                        {0x378, 0},
                        {0x13b03, kOtherLetter | kWord},
                        {0x2ebf0, kOtherLetter | kWord},
                        {0x1cd00, kSymbol},
                        {0x110000, 0}};
  for (const Case& c : cases) {
    CAPTURE(static_cast<uint32_t>(c.c));
    CHECK(class_of(c.c) == c.bits);
  }
}

TEST_CASE("malformed UTF-8 is replaced part by part as the Unicode standard recommends") {
  // Table 3-8 of the Unicode standard: E1 80 | E2 | F0 91 92 | F1 BF | 41
  CHECK(to_valid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41") == "\ufffd\ufffd\ufffd\ufffdA");
  CHECK(to_valid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41") ==
        "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdA");
  CHECK(to_valid_utf8("\xed\xa0\x80") == "\ufffd\ufffd\ufffd");  // a surrogate
  CHECK(to_valid_utf8("a\u00e9\U0001f680") == "a\u00e9\U0001f680");
  CHECK_FALSE(is_valid_utf8("12345678\x80"));
  CHECK(is_valid_utf8("12345678\ufffd"));
}

TEST_CASE("an unfinished character at the end is measured") {
  CHECK(incomplete_tail("abc") == 0);
  CHECK(incomplete_tail("\xe2\x82") == 2);
  CHECK(incomplete_tail("\xe2\x82\xac") == 0);
  CHECK(incomplete_tail("a\xf0\x9f\x9a") == 3);
  CHECK(incomplete_tail("\x82\x82") == 0);
  CHECK(incomplete_tail("") == 0);
}

TEST_CASE("normal forms touch what they must and leave the rest") {
  CHECK(normalize("abc é", NormalForm::nfc) == "abc é");
  CHECK(normalize("e\u0301x\u0323\u0307", NormalForm::nfc) == "\u00e9\u1e8b\u0323");
  CHECK(normalize("\u1100\u1161\u11a8", NormalForm::nfc) == "각");
  CHECK(normalize("각", NormalForm::nfd) == "\u1100\u1161\u11a8");
  CHECK(normalize("\u212b \ufb01 \u2460 ｱ", NormalForm::nfkc) == "\u00c5 fi 1 ア");
  CHECK(normalize("\u212b", NormalForm::nfkd) == "A\u030a");
  CHECK(normalize("\u0958", NormalForm::nfc) == "\u0915\u093c");  // excluded from composition
  CHECK(to_lower("ÀΣİß") == "àσi\u0307ß");
}

TEST_CASE("bytes and their printable characters map both ways") {
  std::string all, back;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  CHECK(printable_to_bytes(bytes_to_printable(all), back));
  CHECK(back == all);
  CHECK(bytes_to_printable(" \n\xff") == "ĠĊÿ");
  CHECK_FALSE(printable_to_bytes("a b", back));
  CHECK(back == all);
}

}  // namespace anemone
