// GBNF, the form in which llama.cpp's users write grammars.
//     Grammar g = parse_gbnf(R"(root ::= "yes" | "no" | [0-9]{1,3})");
// Rules: name ::= what. What: "text", [a-z], [^"\n], ., names, (groups), |, *, +, ?, {n}, {n,}, {n,m}, # comments.
// Escapes: \n \r \t \\ \" \[ \] \- \^ \/ \x41 \u00e9 \U0001f41a. The first rule that matters is `root`.
#pragma once

#include <string_view>

#include "grammar/grammar.h"

namespace anemone {

// Error with line and column.
Grammar parse_gbnf(std::string_view text);

}  // namespace anemone
