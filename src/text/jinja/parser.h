// Parser: template source → Program, with Jinja's grammar and precedence. A syntax error names the template's
// line.
//     Program p = parse("{% for m in messages %}{{ m.content }}{% endfor %}");
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace anemone::jinja {

Program parse(std::string_view source);

}  // namespace anemone::jinja
