// Replacer: what stands in a redacted text in the place of something personal.
//     Replacer replacer({.style = Style::number}, kinds);
//     replacer.text(kPerson, "Ann Lee");                      // "[PERSON_1]", and the same again for "ann  lee"
// The answer is ASCII without quotes, commas, backslashes or line breaks, so it may stand in a cell of a table and in
// a JSON string as it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace anemone::redact {

enum class Style {
  label,   // [EMAIL]
  number,  // [EMAIL_2]: the same value has the same number
  mask,    // ******: as many characters as there were
  hash,    // [EMAIL_9c1185a5c5e9fc54]: of the value and a key
  remove,  // nothing
  fake,    // another value of that kind; the same value has the same one
};

std::string_view style_name(Style style);
const std::vector<std::string>& style_names();
Style find_style(std::string_view name);  // Error for another name

struct ReplaceOptions {
  Style style = Style::label;
  bool per_run = false;  // number, fake: values are the same in the whole run, not in each document
  std::string key;       // hash, fake: bytes that nobody else knows; empty: drawn anew
};

class Replacer {
 public:
  // `kinds`: the names of kinds by number.
  Replacer(ReplaceOptions options, std::vector<std::string> kinds);

  std::string text(int kind, std::string_view value);
  // A new document begins.
  void next_document();

 private:
  std::string number(int kind, std::string_view value);

  ReplaceOptions options_;
  std::vector<std::string> names_;                     // "EMAIL", by kind
  std::vector<std::string> kinds_;                     // "private_email", by kind
  std::unordered_map<std::string, uint64_t> numbers_;  // by hash: values themselves are not kept
  std::vector<uint64_t> last_;                         // the last number of each kind
  uint64_t document_ = 0;
};

// HMAC-SHA256 (RFC 2104), 32 bytes.
std::string hmac_sha256(std::string_view key, std::string_view message);
// Small letters, with single spaces: values that differ only so are one.
std::string value_key(std::string_view value);
// Another value of a kind, chosen by 32 bytes.
std::string fake_value(std::string_view kind, std::string_view bytes, std::string_view value);

}  // namespace anemone::redact
