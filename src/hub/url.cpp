#include "hub/url.h"

#include <fmt/format.h>

#include <cctype>
#include <memory>

#include "base/error.h"
#include "hub/libcurl.h"

namespace anemone::hub {
namespace {

std::string escaped(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const unsigned char c : text)
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || (keep_slashes && c == '/'))
      out += static_cast<char>(c);
    else
      out += fmt::format("%{:02X}", c);
  return out;
}

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (libcurl().url_get(url, which, &text, flags) != CURLUE_OK) return "";
  std::string out = text;
  libcurl().free(text);
  return out;
}

}  // namespace

Url Url::parse(const std::string& text) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> url(libcurl().url(), libcurl().url_cleanup);
  const bool clean = text.find_first_of(std::string("\0 \t\r\n", 5)) == std::string::npos;
  if (!clean || libcurl().url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    throw Error("is no address of the web").at(text).expected("https://HOST/PATH");
  Url out{.text = text,
          .scheme = part(url.get(), CURLUPART_SCHEME),
          .host = part(url.get(), CURLUPART_HOST),
          .port = part(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT),
          .path = part(url.get(), CURLUPART_PATH)};
  if (out.scheme != "https" && out.scheme != "http")
    throw errorf("{}:// is not downloaded from", out.scheme).at(text).expected("https://HOST/PATH");
  if (!part(url.get(), CURLUPART_USER).empty())
    throw Error("an address with a password in it is not used").hint("leave out what stands before the @");
  for (char& c : out.host) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string Url::shown_host() const {
  return port == (scheme == "http" ? "80" : "443") ? host : host + ":" + port;
}

bool Url::loopback() const {
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

void expect_protected(const Url& url, const std::string& endpoint) {
  if (url.scheme == "https" || url.loopback() || url.origin() == Url::parse(endpoint).origin()) return;
  throw Error("an unprotected connection is not used")
      .at(url.text)
      .expected("https://")
      .hint("a hub in your own network may be named in HF_ENDPOINT");
}

void expect_protected_redirect(const Url& from, const Url& to, const std::string& endpoint) {
  if (from.scheme == "https" && to.scheme == "http")
    throw Error("the server leads from https to http, and anyone on the way could change the file")
        .at(from.text)
        .found(to.text);
  expect_protected(to, endpoint);
}

std::string escape_path(std::string_view path) { return escaped(path, true); }
std::string escape_part(std::string_view text) { return escaped(text, false); }

std::string unescape(std::string_view text) {
  std::string out;
  const auto digit = [&](size_t at) {
    const int c = at < text.size() ? std::tolower(static_cast<unsigned char>(text[at])) : 0;
    if (!std::isxdigit(c)) throw Error("%XX needs two hexadecimal digits").at(std::string(text));
    return c <= '9' ? c - '0' : c - 'a' + 10;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
    i += 2;
  }
  return out;
}

}  // namespace anemone::hub
