#include "e2e/browser.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

namespace anemone::e2e {
namespace {

using Json = nlohmann::json;

// A string for a script inside of HTML.
std::string script_text(const std::string& text) {
  std::string out;
  for (const char c : Json(text).dump()) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

// The frame reports to the page around it, which is what --dump-dom prints.
constexpr const char* kFrame =
    R"(<!doctype html><html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<body style="margin:0"><script>
onmessage = (e) => document.body.replaceChildren(Object.assign(document.createElement("pre"), {textContent: e.data}));
const frame = document.createElement("iframe");
frame.style = "width:WIDTHpx;height:900px;border:0";
frame.srcdoc = PAGE;
document.body.append(frame);
</script></body></html>)";

constexpr const char* kBefore = R"(<script>
const seenErrors = [];
addEventListener("error", (e) => seenErrors.push(String(e.message)));
BEFORE
</script>)";

constexpr const char* kAfter = R"(<script>
addEventListener("load", async () => {
  const root = document.documentElement;
  let result = null;
  try {
    result = await (async () => { SCRIPT })();
  } catch (e) {
    seenErrors.push("test: " + e);
  }
  parent.postMessage(JSON.stringify({errors: seenErrors, overflow: root.scrollWidth - root.clientWidth,
    back: getComputedStyle(document.body).backgroundColor, result: result ?? null}), "*");
});
</script>)";

// A script for a page: "</script>" in one of its strings must not end it.
std::string in_script(std::string text) {
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  return text;
}

void replace(std::string& text, std::string_view what, const std::string& with) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  text.replace(at, what.size(), with);
}

}  // namespace

std::string browser() {
  if (const char* named = std::getenv("ANEMONE_BROWSER")) return named;
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"})
    if (shell(std::string("command -v ") + name).status == 0) return name;
  return "";
}

std::optional<std::string> axe_core() {
  const char* named = std::getenv("ANEMONE_AXE");
  const std::filesystem::path path = named ? named : source_dir() / ".cache/axe/axe.min.js";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return slurp(path);
}

Json look_at(const std::string& program, const std::string& page, const Look& look, const std::string& script,
             const std::string& before) {
  std::string first = kBefore, last = kAfter, used = page, frame = kFrame;
  replace(first, "BEFORE", in_script(before));
  replace(last, "SCRIPT", in_script(script));
  replace(used, "<body>", "<body>" + first);
  used.insert(used.rfind("</body>"), last);
  replace(frame, "WIDTH", std::to_string(look.width));
  replace(frame, "PAGE", script_text(used));
  const TempFolder folder;
  std::ofstream(folder / "frame.html") << frame;
  const Outcome shown =
      shell(program + " --headless=new --no-sandbox --disable-gpu --user-data-dir='" +
            (folder / "profile").string() + "' --window-size=1400,1000 --timeout=120000" +
            " --virtual-time-budget=20000 --blink-settings=preferredColorScheme=" + (look.dark ? "0" : "1") +
            " --dump-dom 'file://" + (folder / "frame.html").string() + "'");
  const size_t begin = shown.out.find("<pre>"), end = shown.out.rfind("</pre>");
  CAPTURE(shown.err);
  REQUIRE(begin != std::string::npos);
  std::string text = shown.out.substr(begin + 5, end - begin - 5);
  for (const auto& [entity, sign] : {std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")})
    for (size_t at = text.find(entity); at != std::string::npos; at = text.find(entity, at + 1))
      text.replace(at, std::string_view(entity).size(), sign);
  return Json::parse(text);
}

}  // namespace anemone::e2e
