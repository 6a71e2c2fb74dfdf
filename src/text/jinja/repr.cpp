// str() and repr() of values, as Python writes them.
#include "base/error.h"
#include "text/jinja/number.h"
#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

void append_repr(std::string& out, std::string_view text) {
  const bool double_quoted =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quoted ? '"' : '\'';
  out += quote;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_at(text, i);
    if (c.value == static_cast<unsigned char>(quote) || c.value == '\\') {
      out += '\\';
      out += static_cast<char>(c.value);
    } else if (c.value == '\n') {
      out += "\\n";
    } else if (c.value == '\r') {
      out += "\\r";
    } else if (c.value == '\t') {
      out += "\\t";
    } else if (c.value > 0x10ffff || is_printable(c.value)) {
      out.append(text, i, c.bytes);
    } else if (c.value < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c.value));
    } else if (c.value < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c.value));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c.value));
    }
    i += c.bytes;
  }
  out += quote;
}

}  // namespace

std::string Runtime::text(const Value& v) {
  if (v.is_string()) {
    step(v.text().size() / 64);
    return v.text();
  }
  if (v.is_undefined()) return "";
  return repr(v);
}

std::string Runtime::repr(const Value& v) {
  std::string out;
  repr_into(out, v);
  return out;
}

void Runtime::repr_items(std::string& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    repr_into(out, items[i]);
  }
}

void Runtime::repr_into(std::string& out, const Value& v) {
  step();
  check_size(out.size());
  switch (v.type()) {
    case Type::undefined: out += "Undefined"; break;
    case Type::none: out += "None"; break;
    case Type::boolean: out += v.as_bool() ? "True" : "False"; break;
    case Type::integer: out += fmt::format("{}", v.as_int()); break;
    case Type::floating: out += float_repr(v.as_double()); break;
    case Type::string:
      step(v.text().size() / 16);
      if (v.str().markup) out += "Markup(";
      append_repr(out, v.text());
      if (v.str().markup) out += ')';
      break;
    case Type::sequence:
      out += v.is_list() ? '[' : '(';
      repr_items(out, v.items());
      if (v.is_tuple() && v.items().size() == 1) out += ',';
      out += v.is_list() ? ']' : ')';
      break;
    case Type::dict: {
      out += '{';
      bool first = true;
      for (const auto& [key, value] : v.dict().entries) {
        if (!first) out += ", ";
        first = false;
        repr_into(out, key);
        out += ": ";
        repr_into(out, value);
      }
      out += '}';
      break;
    }
    case Type::object: {
      const Deeper deeper(*this);  // a namespace can hold itself
      out += v.object()->repr(*this);
      break;
    }
  }
}

}  // namespace anemone::jinja
