// Filters on text.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

using S = const Value&;
using A = const Args&;
using R = Runtime&;

const std::string& need_text(const char* filter, S v) {
  refuse_undefined(v);
  if (!v.is_string()) throw errorf("{} needs a string, not {}", filter, v.type_name());
  return v.text();
}

// A filter that is the string method of the same name, on str(v).
Value as_method(R rt, S v, A args, std::string_view name) {
  const Value text = v.is_string() ? v : rt.str(rt.text(v));
  return find_method(text, name)(rt, text, args);
}

Value filter_trim(R rt, S v, A args) { return as_method(rt, v, args, "strip"); }

Value filter_title(R rt, S v, A args) {
  const Params p(args, "title", {});
  const std::string s = soft_text(rt, v);
  std::string out;
  const auto is_gap = [](char32_t c) {
    return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  for (size_t i = 0; i < s.size();) {
    const CodePoint first = decode_at(s, i);
    const size_t begin = i;
    const bool gap = is_gap(first.value);
    while (i < s.size() && is_gap(decode_at(s, i).value) == gap) i += decode_at(s, i).bytes;
    out += upper(s.substr(begin, first.bytes));
    out += lower(s.substr(begin + first.bytes, i - begin - first.bytes));
  }
  return rt.str(std::move(out), v.is_string() && v.str().markup);
}

Value filter_replace(R rt, S v, A args) {
  const Params p(args, "replace", {"old", "new", "count"}, 2);
  const int64_t limit = p.given(2) ? p.integer(2, -1) : -1;
  return rt.str(replace_text(rt, rt.text(v), rt.text(p[0]), rt.text(p[1]), limit));
}

Value filter_indent(R rt, S v, A args) {
  const Params p(args, "indent", {"width", "first", "blank"});
  std::string indent;
  if (p.has(0) && p[0].is_string()) {
    indent = p[0].text();
  } else {
    const int64_t width = std::max<int64_t>(0, p.integer(0, 4));
    rt.check_size(static_cast<uint64_t>(width));
    indent.assign(static_cast<size_t>(width), ' ');
  }
  const std::string text = need_text("indent", v) + "\n";
  rt.charge(text.size());
  std::string out = p.flag(rt, 1) ? indent : "";
  bool first = true;
  for (const std::string_view line : split_lines(text, false)) {
    if (!first) {
      out += '\n';
      if (!line.empty() || p.flag(rt, 2)) out += indent;
    }
    first = false;
    out += line;
    rt.check_size(out.size());
    rt.step(1 + indent.size() / 64);
  }
  return rt.str(std::move(out), v.str().markup);
}

Value filter_truncate(R rt, S v, A args) {
  const Params p(args, "truncate", {"length", "killwords", "end", "leeway"});
  const int64_t length = p.integer(0, 255);
  const std::string end = p.has(2) ? p.string(2) : "...";
  const int64_t leeway = p.given(3) ? p.integer(3, 5) : 5;
  const auto end_length = static_cast<int64_t>(code_points(end));
  if (length < end_length)
    throw errorf("truncate: length {} is less than that of the end, {}", length, end_length);
  if (leeway < 0) throw errorf("truncate: leeway {} is negative", leeway);
  const auto n = static_cast<int64_t>(rt.need_length(v));
  if (n - leeway <= length) return v;
  const std::string& s = need_text("truncate", v);
  std::string cut = s.substr(0, byte_offset(s, static_cast<size_t>(length - end_length)));
  if (!p.flag(rt, 1)) {
    if (const size_t blank = cut.rfind(' '); blank != std::string::npos) cut.resize(blank);
  }
  return rt.str(cut + end);
}

// Words and the blanks between them; a word may break after a hyphen between letters.
std::vector<std::string_view> wrap_chunks(std::string_view line, bool break_on_hyphens) {
  static constexpr std::string_view kBlanks = "\t\n\v\f\r ";
  std::vector<std::string_view> chunks;
  const auto letter = [&](size_t i) { return i < line.size() && is_alpha(decode_at(line, i).value); };
  for (size_t i = 0; i < line.size();) {
    const size_t begin = i;
    const bool blank = kBlanks.find(line[i]) != std::string_view::npos;
    while (i < line.size() && (kBlanks.find(line[i]) != std::string_view::npos) == blank) {
      const bool hyphen = !blank && break_on_hyphens && line[i] == '-' && i > begin + 1;
      ++i;
      if (hyphen && letter(i) && letter(i + 1) && is_word(static_cast<unsigned char>(line[i - 2]))) break;
    }
    chunks.push_back(line.substr(begin, i - begin));
  }
  return chunks;
}

// textwrap.wrap for one paragraph.
void wrap_line(R rt, std::string_view line, int64_t width, bool break_long, bool hyphens,
               std::vector<std::string>& out) {
  std::vector<std::string_view> chunks = wrap_chunks(line, hyphens);
  rt.charge(line.size() + chunks.size() * 16);
  std::reverse(chunks.begin(), chunks.end());
  const auto blank = [](std::string_view s) { return strip_left(s).empty(); };
  const bool first_of_line = out.empty();
  bool any = !first_of_line;
  while (!chunks.empty()) {
    std::string current;
    int64_t length = 0;
    std::string_view last;
    size_t last_start = 0;
    if (blank(chunks.back()) && any) chunks.pop_back();
    const auto take = [&](std::string_view part) {
      last_start = current.size();
      last = part;
      current += part;
      length += static_cast<int64_t>(code_points(part));
    };
    while (!chunks.empty() && length + static_cast<int64_t>(code_points(chunks.back())) <= width) {
      take(chunks.back());
      chunks.pop_back();
    }
    if (!chunks.empty() && static_cast<int64_t>(code_points(chunks.back())) > width) {
      const int64_t space = width < 1 ? 1 : width - length;
      if (break_long) {
        const size_t cut = byte_offset(chunks.back(), static_cast<size_t>(std::max<int64_t>(0, space)));
        take(chunks.back().substr(0, cut));
        chunks.back().remove_prefix(cut);
      } else if (current.empty()) {
        take(chunks.back());
        chunks.pop_back();
      }
    }
    if (!current.empty() && blank(last)) current.resize(last_start);
    rt.step(1 + current.size() / 16);
    if (!current.empty()) {
      out.push_back(std::move(current));
      any = true;
    }
  }
}

Value filter_wordwrap(R rt, S v, A args) {
  const Params p(args, "wordwrap", {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t width = p.integer(0, 79);
  if (width <= 0) throw errorf("wordwrap: invalid width {}", width).expected("more than 0");
  const std::string wrap = p.given(2) ? p.string(2) : "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(need_text("wordwrap", v), false)) {
    std::vector<std::string> lines;
    wrap_line(rt, line, width, p.flag(rt, 1, true), p.flag(rt, 3, true), lines);
    if (lines.empty()) lines.emplace_back();
    for (const std::string& wrapped : lines) {
      if (!first) out += wrap;
      first = false;
      out += wrapped;
      rt.check_size(out.size());
      rt.step(1 + wrap.size() / 64);
    }
  }
  return rt.str(std::move(out));
}

Value filter_wordcount(R rt, S v, A args) {
  const Params p(args, "wordcount", {});
  const std::string s = soft_text(rt, v);
  rt.step(s.size() / 8);
  int64_t words = 0;
  bool in_word = false;
  for (size_t i = 0; i < s.size();) {
    const CodePoint c = decode_at(s, i);
    const bool word = c.value <= 0x10ffff && is_word(c.value);
    if (word && !in_word) ++words;
    in_word = word;
    i += c.bytes;
  }
  return Value(words);
}

Value filter_center(R rt, S v, A args) {
  const Params p(args, "center", {"width"});
  return as_method(rt, v, {{p.has(0) ? p[0] : Value(80)}, {}}, "center");
}

Value filter_escape(R rt, S v, A args) {
  const Params p(args, "escape", {});
  if (v.is_string() && v.str().markup) return v;
  return rt.str(escape_html(rt.text(v)), true);
}

Value filter_forceescape(R rt, S v, A args) {
  const Params p(args, "forceescape", {});
  return rt.str(escape_html(rt.text(v)), true);
}

Value filter_safe(R rt, S v, A args) {
  const Params p(args, "safe", {});
  return rt.str(rt.text(v), true);
}

Value filter_string(R rt, S v, A args) {
  const Params p(args, "string", {});
  return v.is_string() ? v : rt.str(rt.text(v));
}

Value filter_format(R rt, S v, A args) {
  if (!args.positional.empty() && !args.named.empty()) {
    throw errorf("format: positional and named arguments cannot be used together");
  }
  if (args.named.empty()) return rt.str(printf_format(rt, rt.text(v), rt.tuple(args.positional)));
  Dict named;
  for (const auto& [name, value] : args.named) rt.set(named, rt.str(name), value);
  return rt.str(printf_format(rt, rt.text(v), rt.dict(std::move(named))));
}

std::string url_quote(R rt, S v, bool for_query) {
  std::string out;
  for (const char c : rt.text(v)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
    if (plain) {
      out += c;
    } else if (c == ' ' && for_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Value filter_urlencode(R rt, S v, A args) {
  const Params p(args, "urlencode", {});
  if (v.is_string() || !rt.is_iterable(v)) return rt.str(url_quote(rt, v, false));
  std::string out;
  const auto put = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += url_quote(rt, key, true) + "=" + url_quote(rt, value, true);
    rt.check_size(out.size());
  };
  if (v.is_dict()) {
    for (const auto& [key, value] : v.dict().entries) put(key, value);
    return rt.str(std::move(out));
  }
  Iter it(rt, v);
  for (Value item; it.next(item);) {
    const std::vector<Value> pair = rt.to_vector(item);
    if (pair.size() != 2) throw errorf("urlencode needs pairs, not {} values", pair.size());
    put(pair[0], pair[1]);
  }
  return rt.str(std::move(out));
}

Value filter_xmlattr(R rt, S v, A args) {
  const Params p(args, "xmlattr", {"autospace"});
  refuse_undefined(v);
  if (!v.is_dict()) throw errorf("xmlattr needs a dict, not {}", v.type_name());
  std::string out;
  for (const auto& [key, value] : v.dict().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string() || key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      throw errorf("xmlattr: invalid attribute name {}", rt.repr(key));
    }
    if (!out.empty() || p.flag(rt, 0, true)) out += ' ';
    const bool safe = value.is_string() && value.str().markup;
    out += escape_html(key.text()) + "=\"" + (safe ? value.text() : escape_html(rt.text(value))) + "\"";
  }
  return rt.str(std::move(out));
}

// Tags and comments go, entities become characters, blanks run together.
Value filter_striptags(R rt, S v, A args) {
  const Params p(args, "striptags", {});
  std::string text = rt.text(v);
  const auto remove_between = [&](std::string_view open, std::string_view close) {
    std::string out;
    size_t begin = 0;
    for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, begin)) {
      const size_t end = text.find(close, at);
      if (end == std::string::npos) break;
      out += text.substr(begin, at - begin);
      begin = end + close.size();
    }
    text = out + text.substr(begin);
  };
  remove_between("<!--", "-->");
  remove_between("<", ">");
  std::string out;
  const Value spaced = rt.str(std::move(text));
  const Value words = find_method(spaced, "split")(rt, spaced, {});
  for (const Value& word : words.items()) {
    if (!out.empty()) out += ' ';
    out += word.text();
  }
  static constexpr std::array<std::pair<const char*, const char*>, 6> kEntities = {
      {{"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}};
  for (const auto& [entity, character] : kEntities) out = replace_text(rt, out, entity, character, -1);
  return rt.str(std::move(out));
}

Value filter_filesizeformat(R rt, S v, A args) {
  const Params p(args, "filesizeformat", {"binary"});
  const bool binary = p.flag(rt, 0);
  refuse_undefined(v);
  const std::optional<double> parsed = v.is_string() ? parse_python_float(v.text()) : std::nullopt;
  if (!v.is_number() && !parsed) throw errorf("filesizeformat needs a number, not {}", v.type_name());
  const double bytes = parsed ? *parsed : v.as_double();
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return rt.str("1 Byte");
  if (bytes < base) return rt.str(fmt::format("{} Bytes", static_cast<int64_t>(std::max(bytes, -9e18))));
  static constexpr std::string_view kPrefixes = "KMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit; ++i) unit *= base;
  const std::string prefix(1, i == 0 && !binary ? 'k' : kPrefixes[i]);
  return rt.str(fmt::format("{:.1f} {}", base * bytes / unit, prefix + (binary ? "iB" : "B")));
}

constexpr Named<Filter> kFilters[] = {
    {"upper", [](R rt, S v, A a) { return as_method(rt, v, a, "upper"); }},
    {"lower", [](R rt, S v, A a) { return as_method(rt, v, a, "lower"); }},
    {"capitalize", [](R rt, S v, A a) { return as_method(rt, v, a, "capitalize"); }},
    {"title", filter_title},
    {"trim", filter_trim},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"truncate", filter_truncate},
    {"wordwrap", filter_wordwrap},
    {"wordcount", filter_wordcount},
    {"center", filter_center},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_forceescape},
    {"safe", filter_safe},
    {"string", filter_string},
    {"format", filter_format},
    {"urlencode", filter_urlencode},
    {"xmlattr", filter_xmlattr},
    {"striptags", filter_striptags},
    {"filesizeformat", filter_filesizeformat},
};

}  // namespace

std::span<const Named<Filter>> text_filters() { return kFilters; }

}  // namespace anemone::jinja
