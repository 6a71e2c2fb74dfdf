// A page in a headless browser, as a reader sees it. Tests say "skipped" where there is no Chromium.
//     if (const std::string program = browser(); !program.empty())
//       Json seen = look_at(program, page, {.width = 360, .dark = true}, "return document.title;");
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace anemone::e2e {

// ANEMONE_BROWSER, or the Chromium that is installed; empty where there is none.
std::string browser();

// The text of axe-core, which finds what readers with a screen reader or weak eyes cannot use: ANEMONE_AXE, or what
// tools/axe.sh fetched; nothing where it is not there.
std::optional<std::string> axe_core();

struct Look {
  int width = 1280;
  bool dark = false;
};

// Opens the page in a frame of that width, runs `script` in it (the body of an async function), and gives
//     {"errors": [what the page's own scripts threw], "overflow": pixels wider than the frame, "back": the background,
//      "result": what the script returned}
// `before` is a script that runs before the page's own.
nlohmann::json look_at(const std::string& program, const std::string& page, const Look& look,
                       const std::string& script, const std::string& before = "");

}  // namespace anemone::e2e
