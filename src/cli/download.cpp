#include "cli/download.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/staged.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Item = Options::Item;

constexpr unsigned kModels = kCheckpoint | kTokenizer | kConfig;

// "12 s", "3 min 20 s", "1 h 5 min".
std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  return s < 3600 ? fmt::format("{} min {} s", s / 60, s % 60)
                  : fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

// Called while a signal ends the process.
void say_interrupted() {
  constexpr std::string_view kText =
      "\rdownload stopped: what came so far is kept, and the same command goes on from there\x1b[K\n";
  constexpr std::string_view kPlain =
      "download stopped: what came so far is kept, and the same command goes on from there\n";
  const std::string_view text = ::isatty(STDERR_FILENO) ? kText : kPlain;
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

// One line that is drawn over itself: the file, how much of all files, rate, time left.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) { call_before_signal_exit(say_interrupted); }
  ~ProgressLine() {
    clear();
    call_before_signal_exit(nullptr);
  }

  void show(const hub::Progress& p) {
    if (!shown_) return;
    const Clock::time_point now = Clock::now();
    if (drawn_ && now - last_ < std::chrono::milliseconds(100)) return;
    if (!drawn_ && start_bytes_ == 0) {
      start_bytes_ = p.done;
      start_ = now;
    }
    last_ = now;
    drawn_ = true;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate =
        seconds > 0.5 ? static_cast<double>(p.done - std::min(p.done, start_bytes_)) / seconds : 0;
    std::string text =
        fmt::format("{}  {} of {}", one_line(std::filesystem::path(p.file).filename().string(), 40),
                    size_text(p.done), size_text(p.total));
    if (rate > 0)
      text += fmt::format("  {}/s  {} left", size_text(static_cast<uint64_t>(rate)),
                          duration_text(static_cast<double>(p.total - p.done) / rate));
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
  }
  void clear() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    drawn_ = false;
  }

 private:
  bool shown_, drawn_ = false;
  Clock::time_point start_, last_;
  uint64_t start_bytes_ = 0;
};

hub::Need need_of(unsigned sources) {
  if (sources & kConfig) return hub::Need::config;
  return sources & kTokenizer ? hub::Need::tokenizer : hub::Need::everything;
}

// The texts that an item holds, to be changed.
std::vector<std::string*> texts_of(const Item& item) {
  std::vector<std::string*> out;
  if (item.kind == Item::Kind::positional || item.kind == Item::Kind::text)
    out.push_back(static_cast<std::string*>(item.target));
  else if (item.kind == Item::Kind::positionals || item.kind == Item::Kind::texts)
    for (std::string& text : *static_cast<std::vector<std::string>*>(item.target)) out.push_back(&text);
  return out;
}

}  // namespace

void DownloadFlags::declare(Options& o) {
  const auto& items = o.items();
  if (std::any_of(items.begin(), items.end(), [](const Item& i) { return (i.sources & kModels) != 0; }))
    declare_always(o);
}

void DownloadFlags::declare_always(Options& o) {
  o.group("Models of the hub");
  o.text("--revision", "NAME", revision, "branch, tag or commit of OWNER/REPO (main)");
  o.flag("--offline", offline, "download nothing: what is not in the cache is an error");
}

void DownloadFlags::resolve_names(std::string_view verb, const Options& options, const Common& common) const {
  bool used = revision.empty();
  const hub::Settings settings = hub::Settings::from_environment();
  for (const Item& item : options.items()) {
    if (item.sources == 0) continue;
    for (std::string* const text : texts_of(item)) {
      if (text->empty() || !hub::is_remote_name(*text, settings)) continue;
      if (!(item.sources & kModels))
        throw errorf("this is the name of a model, and {} takes what convert writes", verb)
            .at(*text)
            .hint(fmt::format("convert it first: anemone convert {} -o {}", shell_word(*text),
                              shell_word(free_bundle_name(*text))));
      *text = resolve(*text, need_of(item.sources), common).path.string();
      used = true;
    }
  }
  if (!used) throw Error("--revision is for models of the hub, and none is named").found(revision);
}

hub::Resolved DownloadFlags::resolve(const std::string& name, hub::Need need, const Common& common) const {
  ProgressLine line(!common.quiet && !common.json && ::isatty(STDERR_FILENO));
  hub::ResolveOptions o;
  o.settings.offline = o.settings.offline || offline;
  o.need = need;
  o.revision = revision;
  o.progress = [&](const hub::Progress& p) { line.show(p); };
  o.note = [&](const std::string& text) {
    line.clear();
    note(common, text);
  };
  return hub::resolve(name, o);
}

}  // namespace anemone::cli
