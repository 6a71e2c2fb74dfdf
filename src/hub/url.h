// Url: the parts of an address that decide where a request may go and what it may carry.
//     Url url = Url::parse("https://huggingface.co/gpt2/resolve/main/config.json");
//     url.origin()                                     // "https://huggingface.co:443"
#pragma once

#include <string>
#include <string_view>

namespace anemone::hub {

struct Url {
  std::string text, scheme, host, port, path;  // the path still escaped

  // Error for what is no http or https address, or carries a password.
  static Url parse(const std::string& text);

  std::string origin() const { return scheme + "://" + host + ":" + port; }
  bool loopback() const;
};

// Error where bytes would travel unprotected: http, but to this machine, or to the hub that HF_ENDPOINT names.
void expect_protected(const Url& url, const std::string& endpoint);
// The same for what a server sends us on to; https never leads to http.
void expect_protected_redirect(const Url& from, const Url& to, const std::string& endpoint);

// With %XX for what has a meaning in an address; slashes stay.
std::string escape_path(std::string_view path);
// Slashes too: one part of a path.
std::string escape_part(std::string_view part);
// Error for %XX that is none.
std::string unescape(std::string_view text);

}  // namespace anemone::hub
