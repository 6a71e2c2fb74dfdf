// `anemone doctor`: what an error message means; or a look at a bundle, the disk and the system.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "check/doctor.h"
#include "check/rule.h"
#include "check/wrap.h"
#include "cli/command.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::vector<std::string> text;
  std::string bundle;
  bool no_hash = false;
};

int decode(const std::string& text, const Common& common) {
  const auto meanings = decode_error(text);
  if (common.json) {
    Json out = Json::array();
    for (const ErrorMeaning* m : meanings)
      out.push_back({{"meaning", std::string(m->meaning)},
                     {"try", std::string(m->first)},
                     {"rules", std::string(m->rules)},
                     {"sources", std::string(m->sources)}});
    fmt::print("{}\n", json_text(out, 2));
    return meanings.empty() ? 1 : 0;
  }
  if (meanings.empty()) {
    fmt::print("That message is not known here.\n");
    fmt::print("{}", wrap("  try      ",
                          "anemone check on the package; then load it with CPU only: what fails there too is "
                          "not the engine's fault.",
                          100));
    return 1;
  }
  for (size_t i = 0; i < meanings.size(); ++i) {
    const ErrorMeaning& m = *meanings[i];
    fmt::print("{}{}{}", i ? "\n" : "", wrap("  means    ", m.meaning, 100),
               common.out.painted(wrap("  try      ", m.first, 100)));
    if (!m.rules.empty())
      fmt::print("{}",
                 wrap("  rules    ",
                      fmt::format("{} (anemone check --explain {})", m.rules, m.rules.substr(0, 3)), 100));
    fmt::print("{}", wrap("  sources  ", m.sources, 100));
    if (const std::string keys = source_keys(m.sources); !keys.empty())
      fmt::print("{}", wrap("           ", keys, 100));
  }
  return 0;
}

int look(const Args& args, const Common& common) {
  DoctorOptions options;
  if (!args.bundle.empty()) options.bundle = args.bundle;
  options.hashes = !args.no_hash;
  const std::vector<Health> all = examine(options);
  const bool good = std::all_of(all.begin(), all.end(), [](const Health& h) { return h.good; });
  if (common.json) {
    Json out = Json::array();
    for (const Health& h : all)
      out.push_back({{"what", h.what}, {"found", h.found}, {"good", h.good}, {"advice", h.advice}});
    fmt::print("{}\n", json_text(out, 2));
    return good ? 0 : 1;
  }
  std::string text;
  for (const Health& h : all) {
    if (common.quiet && h.good) continue;
    text += wrap(fmt::format("  {:<4} {:<16} ", h.good ? "ok" : "bad", h.what), h.found, 100);
    if (!h.advice.empty()) text += wrap(std::string(24, ' '), h.advice, 100);
  }
  if (common.quiet && good) text = "  ok   everything\n";
  fmt::print("{}", common.out.painted(text));
  return good ? 0 : 1;
}

constexpr std::string_view kExamples =
    "  anemone doctor \"Failed to build the model execution plan, error code: -14\"\n"
    "  anemone doctor --bundle smollm2";

}  // namespace

extern const Command kDoctor{
    "doctor", "Explain an error message, or examine a bundle, the disk and the system", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positionals("TEXT", args->text, "the message, or a part of it", false);
      o.text("--bundle", "PATH", args->bundle, "a bundle or package to look at").takes(kBundle | kPackage);
      o.flag("--no-hash", args->no_hash, "do not compare its files with the hashes in bundle.json");
      return [args](const Common& common) {
        std::string text;
        for (const std::string& word : args->text) text += (text.empty() ? "" : " ") + word;
        if (!text.empty() && !args->bundle.empty()) throw errorf("a message or --bundle, one at a time");
        return text.empty() ? look(*args, common) : decode(text, common);
      };
    }};

}  // namespace anemone::cli
