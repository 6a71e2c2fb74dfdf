#include "serve/page.h"

#include <array>

namespace anemone {

extern const std::string_view kPageStyle, kServePage, kServeIcon, kServeStyle, kServeMain, kServeChat,
    kServeMarkdown, kServeStore, kServeApi, kServeBundle, kServeLive, kServeRedact;

}  // namespace anemone

namespace anemone::serve {

const PageFile* find_page_file(std::string_view path) {
  constexpr std::string_view kScript = "text/javascript; charset=utf-8", kCss = "text/css; charset=utf-8",
                             kSvg = "image/svg+xml";
  static const std::array<PageFile, 13> files = {{{"/", "text/html; charset=utf-8", kServePage},
                                                  {"/favicon.ico", kSvg, kServeIcon},
                                                  {"/page/icon.svg", kSvg, kServeIcon},
                                                  {"/page/style.css", kCss, kPageStyle},
                                                  {"/page/page.css", kCss, kServeStyle},
                                                  {"/page/main.js", kScript, kServeMain},
                                                  {"/page/chat.js", kScript, kServeChat},
                                                  {"/page/markdown.js", kScript, kServeMarkdown},
                                                  {"/page/store.js", kScript, kServeStore},
                                                  {"/page/api.js", kScript, kServeApi},
                                                  {"/page/bundle.js", kScript, kServeBundle},
                                                  {"/page/live.js", kScript, kServeLive},
                                                  {"/page/redact.js", kScript, kServeRedact}}};
  for (const PageFile& file : files)
    if (file.path == path) return &file;
  return nullptr;
}

const HttpHeaders& page_headers() {
  static const HttpHeaders headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-cache"}};
  return headers;
}

}  // namespace anemone::serve
