// Parser: template source → Template, with Jinja's grammar and precedence. A syntax error names the template's line.
//     Template t = parse("{% for m in messages %}{{ m.content }}{% endfor %}");
#pragma once

#include <string_view>

#include "text/jinja/ast.h"

namespace anemone::jinja {

Template parse(std::string_view source);

}  // namespace anemone::jinja
