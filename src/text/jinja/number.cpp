#include "text/jinja/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "text/jinja/unicode.h"

namespace anemone::jinja {
namespace {

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Removes underscores; none where one is not between two digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || text[i + 1] == '_') {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", d);  // shortest digits that read back; exponent outside 1e-4 … 1e16
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::optional<double> parse_double(std::string_view text) {
  if (text.empty()) return std::nullopt;
#if defined(__cpp_lib_to_chars)
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  if (begin != text.data() && text.size() > 1 && (text[1] == '-' || text[1] == '+')) return std::nullopt;
  double value = 0;
  const auto [last, ec] = std::from_chars(begin, text.data() + text.size(), value);
  if (last != text.data() + text.size() || last == begin) return std::nullopt;
  if (ec == std::errc()) return value;
#endif
  // Out of range (from_chars leaves the value alone), or a library without from_chars for doubles.
  const std::string copy(text);
  char* end = nullptr;
  const double slow = std::strtod(copy.c_str(), &end);
  return end == copy.c_str() + copy.size() ? std::optional(slow) : std::nullopt;
}

std::optional<int64_t> parse_python_int(std::string_view text, int base) {
  text = strip_left(strip_right(text));
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  bool prefixed = false;
  if (text.size() > 2 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int of_prefix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (of_prefix != 0 && (base == of_prefix || base == 0)) {
      base = of_prefix;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
      prefixed = true;
    }
  }
  if (base == 0) {
    base = 10;
    if (!prefixed && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of("0_") != std::string_view::npos) {
      return std::nullopt;
    }
  }
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty() || (*digits)[0] == '-') return std::nullopt;
  int64_t value = 0;
  const std::string with_sign = (negative ? "-" : "") + *digits;
  const auto [last, ec] = std::from_chars(with_sign.data(), with_sign.data() + with_sign.size(), value, base);
  if (last != with_sign.data() + with_sign.size()) return std::nullopt;
  if (ec != std::errc()) throw errorf("the integer {} does not fit 64 bits", with_sign);
  return value;
}

std::optional<double> parse_python_float(std::string_view text) {
  text = strip_left(strip_right(text));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !is_ascii_digit(text[i - 1]) || !is_ascii_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  std::string plain(text);
  std::erase(plain, '_');
  std::string low = lower(plain);
  if (!low.empty() && (low[0] == '-' || low[0] == '+')) low.erase(0, 1);
  if (low == "inf" || low == "infinity" || low == "nan") {
    const double v =
        low == "nan" ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    return plain[0] == '-' ? -v : v;
  }
  if (low.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  return parse_double(plain);
}

double round_decimal(double d, int64_t digits) {
  if (!std::isfinite(d)) return d;
  if (digits > 323) return d;
  if (digits < -308) return 0.0 * d;
  if (digits >= 0) {
    return parse_double(fmt::format("{:.{}f}", d, static_cast<int>(digits))).value_or(d);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  double y = std::nearbyint(d / scale);  // the default rounding mode is half to even
  return y * scale;
}

}  // namespace anemone::jinja
