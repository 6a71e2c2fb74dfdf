// to_pcre: rewrites an expression so that PCRE2 reads it as Oniguruma does. Tokenizer files are written for Oniguruma.
//     to_pcre("[\\p{L}&&[^\\p{Han}]]\\h");   // "(?:(?=(?:[^…]))[\\p{L}…])[0-9A-Fa-f]"
// The two differ in sets (nested, with &&, negated escapes), in some escapes (\h is a hex digit, \v one character), in
// the meaning of (?m) and of {1,3}+, in what \w and \p{Han} hold, and in the Unicode version: Oniguruma's is 16.
#pragma once

#include <string>
#include <string_view>

namespace anemone {

// Throws Error for what has no equal.
std::string to_pcre(std::string_view pattern);

}  // namespace anemone
