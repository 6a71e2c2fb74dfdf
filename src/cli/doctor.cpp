// `anemone doctor`: what an error message means; or a look at a bundle, the disk and the system.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "check/doctor.h"
#include "check/rule.h"
#include "check/wrap.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/source.h"
#include "coreml/compiled_cache.h"
#include "coreml/coreml_backend.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::vector<std::string> text;
  std::string bundle, file;
  bool no_hash = false;
  bool cache = false, clean = false, everything = false;
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

// The compiled packages of Core ML: where they are, how large, and of which build of the system.
int look_at_cache(const Args& args, const Common& common) {
  const std::string build = core_ml_device().build;
  const CompiledCache cache(CompiledCache::default_folder(), build);
  if (std::error_code none;
      std::filesystem::exists(cache.folder(), none) && !std::filesystem::is_directory(cache.folder(), none))
    throw errorf("the cache of compiled packages is no folder").at(cache.folder().string());
  const uint64_t freed = args.clean ? cache.clean(args.everything) : 0;
  const std::vector<CompiledEntry> entries = cache.entries();
  uint64_t bytes = 0;
  for (const CompiledEntry& e : entries) bytes += e.bytes;
  if (common.json) {
    Json out = {
        {"folder", cache.folder().string()}, {"bytes", bytes}, {"freed", freed}, {"packages", Json::array()}};
    for (const CompiledEntry& e : entries)
      out["packages"].push_back({{"path", e.path.string()},
                                 {"package", e.package},
                                 {"build", e.build},
                                 {"bytes", e.bytes},
                                 {"current", e.build == build}});
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  if (args.clean) fmt::print("{} removed\n", size_text(freed));
  for (const CompiledEntry& e : entries)
    fmt::print("  {:>9}  {}  {}{}\n", size_text(e.bytes), e.path.filename().string(), e.package,
               e.build == build ? "" : fmt::format(" (system build {}, not in use)", e.build));
  fmt::print("{}: {}, {}\n", cache.folder().string(),
             counted(static_cast<int64_t>(entries.size()), "compiled package"), size_text(bytes));
  return 0;
}

// The message: arguments, a file, and what is piped in; several of them are one text. Empty: there is none.
std::string message_of(const Args& args, const Common& common) {
  std::string words;
  bool stream = false;
  for (const std::string& word : args.text)
    if (word == "-")
      stream = true;
    else
      words += (words.empty() ? "" : " ") + word;
  if (stream && args.file == "-") throw errorf("standard input can be read once").found("- twice");
  if (!args.file.empty()) words = joined_texts(words, read_text(args.file));
  if (stream) return joined_texts(words, read_text("-"));
  if (args.file.empty() && args.bundle.empty()) words = joined_texts(words, piped_text(common).value_or(""));
  return words;
}

constexpr std::string_view kExamples =
    "  anemone doctor \"Failed to build the model execution plan, error code: -14\"\n"
    "  anemone doctor --bundle smollm2";

}  // namespace

extern const Command kDoctor{
    "doctor", "Explain an error message, or examine a bundle, the disk and the system", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positionals(
          "TEXT", args->text,
          "the message, a part of it, or a whole log. - is standard input; piped text is read without it",
          false);
      o.text("--file", "FILE", args->file, "read the message from a file").also("-f").streams();
      o.text("--bundle", "PATH", args->bundle, "a bundle or package to look at").takes(kBundle | kPackage);
      o.flag("--no-hash", args->no_hash, "do not compare its files with the hashes in bundle.json");
      o.flag("--cache", args->cache, "show the packages that Core ML compiled, and their sizes");
      o.flag("--clean", args->clean, "with --cache: remove those of other builds of the system");
      o.flag("--all", args->everything, "with --clean: remove all of them");
      return [args](const Common& common) {
        if ((args->clean && !args->cache) || (args->everything && !args->clean))
          throw errorf("--clean goes with --cache, and --all with --clean");
        if (args->cache && (!args->text.empty() || !args->file.empty() || !args->bundle.empty()))
          throw errorf("--cache goes without a message and without --bundle");
        if (args->cache) return look_at_cache(*args, common);
        const std::string text = message_of(*args, common);
        const bool asked = !args->text.empty() || !args->file.empty();
        if (asked && !args->bundle.empty()) throw errorf("a message or --bundle, one at a time");
        if (text.find_first_not_of(" \t\r\n") != std::string::npos) return decode(text, common);
        if (asked) throw errorf("the message is empty");
        return look(*args, common);
      };
    }};

}  // namespace anemone::cli
