#include "redact/replace.h"

#include <doctest/doctest.h>

#include <set>

#include "base/sha256.h"
#include "redact/patterns.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::redact;

namespace {

const std::vector<std::string> kKinds = {"private_person",  "private_email", "account_number",
                                         "private_address", "private_date",  "private_phone",
                                         "private_url",     "secret"};

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

}  // namespace

TEST_CASE("HMAC-SHA256 of RFC 4231") {
  CHECK(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(
      hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("labels, numbers, masks, hashes and removal") {
  Replacer label({Style::label}, kKinds);
  CHECK(label.text(0, "Ann Lee") == "[PERSON]");
  CHECK(label.text(2, "1234") == "[ACCOUNT]");
  Replacer number({Style::number}, kKinds);
  CHECK(number.text(0, "Ann Lee") == "[PERSON_1]");
  CHECK(number.text(0, "Bo Ek") == "[PERSON_2]");
  CHECK(number.text(1, "a@b.c") == "[EMAIL_1]");
  CHECK(number.text(0, "ANN\n  lee") == "[PERSON_1]");
  number.next_document();
  CHECK(number.text(0, "Bo Ek") == "[PERSON_1]");
  Replacer run({Style::number, true}, kKinds);
  run.text(0, "Ann Lee");
  run.next_document();
  CHECK(run.text(0, "Bo Ek") == "[PERSON_2]");
  CHECK(Replacer({Style::mask}, kKinds).text(0, "Jürgen W") == "********");
  CHECK(Replacer({Style::remove}, kKinds).text(0, "Ann") == "");
  // printf 'private_email\0a@b.c' | openssl dgst -sha256 -hmac 0123456789abcdef
  Replacer hash({Style::hash, false, "0123456789abcdef"}, kKinds);
  CHECK(hash.text(1, "A@b.c") == "[EMAIL_79fea0bc660c7bb6]");
  CHECK(hash.text(0, "a@b.c") != hash.text(1, "a@b.c"));
}

TEST_CASE("fake values are consistent, of the same form, and plain enough for any document") {
  Replacer fake({Style::fake, true, "0123456789abcdef"}, kKinds),
      other({Style::fake, true, "another key 1234"}, kKinds);
  std::set<std::string> names;
  for (int kind = 0; kind < static_cast<int>(kKinds.size()); ++kind)
    for (int i = 0; i < 200; ++i) {
      const std::string value = "Ann \"Q, Lee\\ " + std::to_string(i) + "ü";
      const std::string text = fake.text(kind, value);
      CHECK(text == fake.text(kind, value));
      CHECK_FALSE(text.empty());
      for (const char c : text) CHECK((c >= ' ' && c < 127 && c != '"' && c != ',' && c != '\\' && c != ';'));
      if (kind == 0) names.insert(text);
    }
  CHECK(names.size() > 150);
  CHECK(fake.text(2, "4111-1111 X").size() == 11);
  CHECK(fake.text(0, "Ann Lee") != other.text(0, "Ann Lee"));
  CHECK(fake.text(1, "x@y.z").ends_with("@example.org"));
}

TEST_CASE("patterns: kinds of their own, what is kept, what is refused") {
  std::vector<std::string> kinds = kKinds;
  Patterns patterns;
  patterns.add("E-\\d{4}", kinds);
  patterns.add("TICKET=T\\d+", kinds);
  patterns.add("private_email=mail to \\w+", kinds);
  CHECK(kinds.size() == kKinds.size() + 2);
  CHECK(kinds.back() == "TICKET");
  std::vector<Span> spans;
  patterns.find("E-1234, T7, mail to bob", 100, spans);
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].begin == 100);
  CHECK(spans[1].kind == static_cast<int>(kinds.size()) - 1);
  CHECK(spans[2].kind == 1);
  patterns.keep("^Marie Curie$");
  CHECK(patterns.keeps("Marie Curie"));
  CHECK_FALSE(patterns.keeps("Marie Curie Jr"));
  CHECK(error_of([&] { patterns.add("a*", kinds); }).find("matches the empty text") != std::string::npos);
  CHECK(error_of([&] { patterns.add("(", kinds); }).find("bad regular expression") != std::string::npos);
}
