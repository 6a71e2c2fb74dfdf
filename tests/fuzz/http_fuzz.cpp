// HTTP requests from strangers: however the bytes are cut into pieces, the parser reads the same or refuses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "serve/http_parser.h"

using namespace anemone::serve;

namespace {

std::vector<std::string> read_all(std::string_view bytes, size_t piece) {
  HttpParser parser({.head_bytes = 4096, .headers = 20, .body_bytes = 8192});
  std::vector<std::string> out;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    parser.feed(bytes.substr(at, piece));
    for (;;) {
      const HttpParser::Step step = parser.next();
      if (step == HttpParser::Step::refused) {
        out.push_back("refused " + std::to_string(parser.status()));
        return out;
      }
      if (step == HttpParser::Step::more) break;
      const HttpRequest r = parser.take();
      out.push_back(r.method + " " + r.path + "?" + r.query + "\n" + r.body);
    }
    parser.wants_continue();
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 20'000) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = read_all(bytes, bytes.size() + 1);
  // What is too large is found earlier or later, so only the requests before it must agree.
  const auto pieces = read_all(bytes, 1 + size % 7);
  for (size_t i = 0; i < std::min(whole.size(), pieces.size()); ++i)
    if (whole[i] != pieces[i] && !whole[i].starts_with("refused") && !pieces[i].starts_with("refused"))
      std::abort();
  return 0;
}
