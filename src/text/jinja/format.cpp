// The three ways Python formats text: "%s" % x, "{}".format(x) and the format specifications both build on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  // , or _
  int64_t precision = -1;
  char type = 0;
};

// Digits of a width or precision. More than this many columns is refused before anything is allocated.
int64_t read_number(Runtime& rt, std::string_view text, size_t& at) {
  int64_t n = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    n = n * 10 + (text[at] - '0');
    rt.check_size(static_cast<uint64_t>(n));
  }
  return n;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Spec parse_spec(Runtime& rt, std::string_view text) {
  Spec spec;
  size_t at = 0;
  if (!text.empty()) {
    const size_t fill = decode_at(text, 0).bytes;
    if (fill < text.size() && is_align(text[fill])) {
      spec.fill = std::string(text.substr(0, fill));
      spec.align = text[fill];
      at = fill + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto skip = [&](char c) { return at < text.size() && text[at] == c ? (++at, true) : false; };
  for (const char c : {'+', '-', ' '}) {
    if (skip(c)) {
      spec.sign = c;
      break;
    }
  }
  spec.alternate = skip('#');
  if (skip('0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(rt, text, at);
  if (skip(',')) spec.grouping = ',';
  if (skip('_')) spec.grouping = '_';
  if (skip('.')) {
    const size_t before = at;
    spec.precision = read_number(rt, text, at);
    if (at == before) throw errorf("format specification '{}' has no precision", text);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) throw errorf("'{}' is not a format specification", text);
  return spec;
}

std::string pad(Runtime& rt, const Spec& spec, std::string sign, std::string body, char natural_align) {
  const auto size = static_cast<int64_t>(code_points(sign) + code_points(body));
  const int64_t missing = std::max<int64_t>(0, spec.width - size);
  rt.check_size(static_cast<uint64_t>(missing) * spec.fill.size());
  rt.charge(static_cast<uint64_t>(missing) * spec.fill.size());
  const auto blanks = [&](int64_t n) {
    std::string out;
    for (int64_t i = 0; i < n; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align ? spec.align : natural_align) {
    case '<': return sign + body + blanks(missing);
    case '=': return sign + blanks(missing) + body;
    case '^': return blanks(missing / 2) + sign + body + blanks(missing - missing / 2);
    default: return blanks(missing) + sign + body;
  }
}

// 1234567.5 → 1,234,567.5
std::string grouped(const std::string& digits, char separator, size_t every) {
  const size_t whole = std::min(digits.find_first_of(".e%"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string sign_of(bool negative, char style) {
  if (negative) return "-";
  return style == '-' ? "" : std::string(1, style);
}

std::string format_integer(Runtime& rt, int64_t i, const Spec& spec) {
  const uint64_t magnitude = i < 0 ? 0 - static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  std::string digits, prefix;
  switch (spec.type) {
    case 'b': digits = fmt::format("{:b}", magnitude), prefix = "0b"; break;
    case 'o': digits = fmt::format("{:o}", magnitude), prefix = "0o"; break;
    case 'x': digits = fmt::format("{:x}", magnitude), prefix = "0x"; break;
    case 'X': digits = fmt::format("{:X}", magnitude), prefix = "0X"; break;
    default: digits = fmt::format("{}", magnitude); break;
  }
  if (spec.precision >= 0) throw errorf("an integer takes no precision in a format specification");
  if (spec.grouping) digits = grouped(digits, spec.grouping, prefix.empty() ? 3 : 4);
  return pad(rt, spec, sign_of(i < 0, spec.sign) + (spec.alternate ? prefix : ""), std::move(digits), '>');
}

std::string float_digits(double d, char type, int precision) {
  switch (type) {
    case 'e': return fmt::format("{:.{}e}", d, precision);
    case 'E': return fmt::format("{:.{}E}", d, precision);
    case 'f':
    case 'F': return fmt::format("{:.{}f}", d, precision);
    case 'g': return fmt::format("{:.{}g}", d, std::max(precision, 1));
    case 'G': return fmt::format("{:.{}G}", d, std::max(precision, 1));
    default: return fmt::format("{:.{}f}%", d * 100, precision);
  }
}

std::string format_float(Runtime& rt, double d, const Spec& spec) {
  const double magnitude = std::fabs(d);
  std::string digits;
  if (!std::isfinite(d)) {
    digits = std::isnan(d) ? "nan" : "inf";
  } else if (spec.type == 0) {
    digits = spec.precision < 0 ? float_repr(magnitude)
                                : float_digits(magnitude, 'g', static_cast<int>(spec.precision));
    if (spec.precision >= 0 && digits.find_first_of(".e") == std::string::npos) digits += ".0";
  } else {
    rt.charge(static_cast<uint64_t>(std::max<int64_t>(spec.precision, 0)));
    digits = float_digits(magnitude, spec.type, static_cast<int>(spec.precision < 0 ? 6 : spec.precision));
  }
  if (spec.grouping) digits = grouped(digits, spec.grouping, 3);
  return pad(rt, spec, sign_of(std::signbit(d) && !std::isnan(d), spec.sign), std::move(digits), '>');
}

std::string cut(const std::string& text, int64_t precision) {
  return precision < 0 ? text : text.substr(0, byte_offset(text, static_cast<size_t>(precision)));
}

// printf style
// --------------------------------------------------------------------------------------------------

class Printf {
 public:
  Printf(Runtime& rt, const std::string& format, const Value& args) : rt_(rt), format_(format), args_(args) {}

  std::string run() {
    std::string out;
    for (at_ = 0; at_ < format_.size();) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out.append(format_, at_, percent - at_);
      at_ = percent + 1;
      if (percent < format_.size()) out += directive();
      rt_.check_size(out.size());
      rt_.step();
    }
    if (!used_mapping_ && args_.is_tuple() && next_ < args_.items().size()) {
      throw errorf("not all arguments were converted by the format '{}'", format_);
    }
    // What has subscripts counts as a mapping, of which a format need not use anything.
    const bool mapping = args_.is_dict() || args_.is_list() || args_.is_undefined() ||
                         (args_.is_object() && args_.object()->is_subscriptable());
    if (!used_mapping_ && !args_.is_tuple() && next_ == 0 && !mapping) {
      throw errorf("not all arguments were converted by the format '{}'", format_);
    }
    return out;
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) throw errorf("the format '{}' ends inside a directive", format_);
    return format_[at_];
  }

  const Value& argument() {
    if (keyed_) return *keyed_;
    if (!args_.is_tuple()) {
      if (next_++ > 0) throw errorf("not enough arguments for the format '{}'", format_);
      return args_;
    }
    if (next_ >= args_.items().size()) throw errorf("not enough arguments for the format '{}'", format_);
    return args_.items()[next_++];
  }

  int64_t number() {
    if (peek() != '*') return read_number(rt_, format_, at_);
    ++at_;
    const Value& v = argument();
    if (!v.is_integral()) throw errorf("'*' in a format needs an integer, not {}", v.type_name());
    rt_.check_size(static_cast<uint64_t>(std::llabs(std::max<int64_t>(v.as_int(), -INT64_MAX))));
    return v.as_int();
  }

  void key() {
    keyed_ = nullptr;
    if (peek() != '(') return;
    const size_t end = format_.find(')', at_);
    if (end == std::string::npos) throw errorf("the format '{}' has an incomplete key", format_);
    if (!args_.is_dict()) throw errorf("the format '{}' requires a mapping", format_);
    const std::string name = format_.substr(at_ + 1, end - at_ - 1);
    keyed_ = args_.dict().find(std::string_view(name));
    if (!keyed_) throw errorf("the format's key '{}' is not in the mapping", name);
    used_mapping_ = true;
    at_ = end + 1;
  }

  std::string directive() {
    key();
    Spec spec;
    bool zero = false;
    for (;; ++at_) {
      const char c = peek();
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        zero = true;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = number();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<int64_t>(0, number());
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = format_[at_++];
    if (spec.type == '%') return "%";
    if (zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    return convert(spec);
  }

  std::string convert(Spec spec) {
    const Value v = argument();
    const auto as_text = [&](const std::string& text) {
      spec.fill = " ";
      if (spec.align == '=') spec.align = '>';
      return pad(rt_, spec, "", cut(text, spec.precision), '>');
    };
    switch (spec.type) {
      case 's': return as_text(rt_.text(v));
      case 'r':
      case 'a': return as_text(rt_.repr(v));
      case 'c':
        if (v.is_string() && rt_.need_length(v) == 1) return as_text(v.text());
        if (v.is_integral() && v.as_int() >= 0 && v.as_int() <= 0x10ffff) {
          std::string c;
          append_utf8(c, static_cast<char32_t>(v.as_int()));
          return as_text(c);
        }
        throw errorf("%c needs one character, not {}", v.type_name());
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': return integer(v, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        refuse_undefined(v);
        if (!v.is_number()) throw errorf("%{} needs a number, not {}", spec.type, v.type_name());
        return format_float(rt_, v.as_double(), spec);
      default: throw errorf("unsupported format character '{}'", spec.type);
    }
  }

  std::string integer(const Value& v, Spec spec) {
    refuse_undefined(v);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (!v.is_integral() && !(decimal && v.is_float() && std::fabs(v.as_double()) < 9e18)) {
      throw errorf("%{} needs a number, not {}", spec.type, v.type_name());
    }
    const int64_t i = v.is_float() ? static_cast<int64_t>(v.as_double()) : v.as_int();
    const int64_t digits = std::exchange(spec.precision, -1);
    if (digits < 0) return format_integer(rt_, i, spec);
    Spec inner;
    inner.type = spec.type;
    inner.fill = "0";
    inner.align = '=';
    inner.width = digits + (i < 0 ? 1 : 0);
    spec.fill = " ";
    if (spec.align == '=') spec.align = '>';
    return pad(rt_, spec, "", format_integer(rt_, i, inner), '>');
  }

  Runtime& rt_;
  const std::string& format_;
  const Value& args_;
  const Value* keyed_ = nullptr;
  bool used_mapping_ = false;
  size_t at_ = 0, next_ = 0;
};

// str.format
// ------------------------------------------------------------------------------------------------------

class BraceFormat {
 public:
  BraceFormat(Runtime& rt, const Args& args) : rt_(rt), args_(args) {}

  std::string run(std::string_view format, int depth) {
    if (depth > 2) throw errorf("format: replacement fields nest too deep");
    std::string out;
    for (size_t i = 0; i < format.size();) {
      const char c = format[i];
      if ((c == '{' || c == '}') && i + 1 < format.size() && format[i + 1] == c) {
        out += c;
        i += 2;
      } else if (c == '}') {
        throw errorf("format: single '}}' in '{}'", format);
      } else if (c == '{') {
        const size_t end = closing(format, i);
        out += field(format.substr(i + 1, end - i - 1), depth);
        i = end + 1;
      } else {
        out += c;
        ++i;
      }
      rt_.check_size(out.size());
    }
    rt_.step(format.size() / 8);
    return out;
  }

 private:
  static size_t closing(std::string_view format, size_t open) {
    int level = 0;
    for (size_t i = open; i < format.size(); ++i) {
      if (format[i] == '{') ++level;
      if (format[i] == '}' && --level == 0) return i;
    }
    throw errorf("format: '{{' is not closed in '{}'", format);
  }

  std::string field(std::string_view text, int depth) {
    size_t end = text.find_first_of("!:[");
    while (end != std::string_view::npos && text[end] == '[') {
      end = text.find(']', end);
      if (end != std::string_view::npos) end = text.find_first_of("!:[", end);
    }
    const std::string_view name = text.substr(0, end);
    std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end);
    Value v = lookup(name);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) throw errorf("format: a conversion is missing after '!'");
      if (rest[1] == 'r' || rest[1] == 'a') {
        v = rt_.str(rt_.repr(v));
      } else if (rest[1] == 's') {
        v = rt_.str(rt_.text(v));
      } else {
        throw errorf("format: unknown conversion '!{}'", rest[1]);
      }
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':')
      throw errorf("format: expected ':' after a conversion, found '{}'", rest[0]);
    const std::string spec = rest.empty() ? std::string() : run(rest.substr(1), depth + 1);
    return format_value(rt_, v, spec);
  }

  Value first(std::string_view name) {
    if (name.empty()) return positional(next_++);
    const bool digits = name.size() < 10 && name.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits) return positional(static_cast<size_t>(std::stoul(std::string(name))));
    for (const auto& [key, value] : args_.named) {
      if (key == name) return value;
    }
    throw errorf("format: there is no argument '{}'", name);
  }

  const Value& positional(size_t i) const {
    if (i >= args_.positional.size()) throw errorf("format: there is no argument {}", i);
    return args_.positional[i];
  }

  // name, name.attribute, name[key]
  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value v = first(name.substr(0, end));
    for (size_t i = end; i < name.size();) {
      if (name[i] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", i + 1), name.size());
        v = rt_.attribute(v, name.substr(i + 1, stop - i - 1));
        i = stop;
      } else {
        const size_t stop = name.find(']', i);
        if (name[i] != '[' || stop == std::string_view::npos)
          throw errorf("format: '{}' is not a field", name);
        const std::string key(name.substr(i + 1, stop - i - 1));
        v = rt_.item(v, attribute_path(Value(key)).size() == 1 ? attribute_path(Value(key))[0] : Value(key));
        i = stop + 1;
      }
    }
    return v;
  }

  Runtime& rt_;
  const Args& args_;
  size_t next_ = 0;
};

}  // namespace

std::string format_value(Runtime& rt, const Value& v, std::string_view text) {
  if (text.empty()) return rt.text(v);
  const Spec spec = parse_spec(rt, text);
  if (v.is_float() || (v.is_integral() && spec.type != 0 &&
                       std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos)) {
    if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) == std::string_view::npos) {
      throw errorf("unknown format code '{}' for a float", spec.type);
    }
    return format_float(rt, v.as_double(), spec);
  }
  if (v.is_integral() && spec.type == 'c') {
    std::string c;
    if (v.as_int() < 0 || v.as_int() > 0x10ffff) throw errorf("{} is not a character", v.as_int());
    append_utf8(c, static_cast<char32_t>(v.as_int()));
    return pad(rt, spec, "", std::move(c), '<');
  }
  if (v.is_integral()) {
    if (spec.type != 0 && std::string_view("bdoxXn").find(spec.type) == std::string_view::npos) {
      throw errorf("unknown format code '{}' for an integer", spec.type);
    }
    return format_integer(rt, v.as_int(), spec);
  }
  if (!v.is_string() || (spec.type != 0 && spec.type != 's')) {
    throw errorf("unsupported format '{}' for a {}", text, v.type_name());
  }
  if (spec.align == '=' || spec.grouping || spec.sign != '-')
    throw errorf("format '{}' does not fit a string", text);
  return pad(rt, spec, "", cut(v.text(), spec.precision), '<');
}

std::string printf_format(Runtime& rt, const std::string& format, const Value& args) {
  return Printf(rt, format, args).run();
}

std::string brace_format(Runtime& rt, const std::string& format, const Args& args) {
  return BraceFormat(rt, args).run(format, 0);
}

}  // namespace anemone::jinja
