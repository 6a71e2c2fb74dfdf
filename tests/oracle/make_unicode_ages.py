#!/usr/bin/env python3
"""Write src/text/unicode_ages.h: what characters were in the older Unicode versions that Hugging Face tokenizers 0.23.3
is built with (8 for BERT's classes, 9 for normal forms and accents). Every set is asked of the library itself, one
character at a time.

    make_unicode_ages.py src/text/unicode_ages.h
"""
import sys

import unicodedata2 as unicodedata
from tokenizers import normalizers as N, pre_tokenizers as P

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out = []
    for c in ALL:
        if not test(chr(c)):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def is_gone(normalizer):
    return lambda c: normalizer.normalize_str("a" + c) == "a"


def is_alone(c):
    pieces = [piece for piece, _ in P.Punctuation().pre_tokenize_str("a" + c)]
    return pieces == ["a", c]


def is_left_whole():  # composites of today that Unicode 9 does not know
    whole = N.NFKD()
    return lambda c: (unicodedata.decomposition(c) and whole.normalize_str(c) == c
                      and unicodedata.normalize("NFKD", c) != c)


def main():
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    tables = [
        ("kMarks9", "M of Unicode 9", is_gone(N.StripAccents())),
        ("kNonspacing8", "Mn of Unicode 8", is_gone(N.BertNormalizer(**{**bert, "strip_accents": True}))),
        ("kControls8", "Cc, Cf and Co of Unicode 8 that BERT drops",
         lambda c: c not in "\0\ufffd" and is_gone(N.BertNormalizer(**{**bert, "clean_text": True}))(c)),
        ("kPunctuation8", "P of Unicode 8, and ASCII's", is_alone),
        ("kCompositesAfter9", "have a decomposition, but not yet in Unicode 9", is_left_whole()),
    ]
    with open(sys.argv[1], "w") as f:
        f.write("// Characters as older Unicode versions class them: Hugging Face's BERT parts know version 8, its\n"
                "// normal forms and accents version 9, and their answers must be ours. Written by\n"
                "// tests/oracle/make_unicode_ages.py.\n"
                "#pragma once\n\n#include <algorithm>\n#include <iterator>\n\nnamespace anemone {\n\n"
                "struct CharRange {\n  char32_t first, last;\n};\n\n"
                "template <size_t N>\nbool in_ranges(const CharRange (&ranges)[N], char32_t c) noexcept {\n"
                "  const auto* after = std::upper_bound(std::begin(ranges), std::end(ranges), c,\n"
                "                                       [](char32_t x, const CharRange& r) { return x < r.first; });\n"
                "  return after != std::begin(ranges) && c <= after[-1].last;\n}\n\n// clang-format off\n")
        for name, what, test in tables:
            cells = [f"{{0x{a:x}, 0x{b:x}}}" for a, b in ranges(test)]
            f.write(f"// {what}.\ninline constexpr CharRange {name}[] = {{\n")
            line = "   "
            for cell in cells:
                if len(line) + len(cell) + 2 > 120:
                    f.write(line + "\n")
                    line = "   "
                line += f" {cell},"
            f.write(line + "\n};\n")
        f.write("// clang-format on\n\n}  // namespace anemone\n")


if __name__ == "__main__":
    main()
