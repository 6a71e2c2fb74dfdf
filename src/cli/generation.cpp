#include "cli/generation.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/format.h"
#include "predict/arithmetic.h"
#include "runtime/prompt.h"

namespace anemone::cli {
namespace {

std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'n' || next == 't' || next == '\\') {
      out += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return static_cast<uint64_t>(usage.ru_maxrss);
#else
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

const char* arithmetic_of(const Session& session) {
  return arithmetic_name(session.bundle()->backend().arithmetic());
}

}  // namespace

void GenerationFlags::declare(Options& o) {
  o.integer("--max-new", "N", max_new, "most tokens to make (" + std::to_string(max_new) + ")");
  o.real("--temperature", "X", temperature, "0 takes the best token always (default)");
  o.integer("--top-k", "N", top_k, "sample among the N best");
  o.real("--top-p", "X", top_p, "sample among the best that together reach X");
  o.real("--min-p", "X", min_p, "sample among those at least X times as likely as the best");
  o.real("--repetition-penalty", "X", penalty, "make repeats less likely (1: off)");
  o.integer("--seed", "N", seed, "for sampling");
  o.texts("--stop", "TEXT", stops, "end before this text (\\n is a line break); may be given often");
  o.integer("--stop-ngram", "N", stop_ngram, "end when N tokens in a row come a second time");
  o.integer("--speculate", "N", speculate,
            "draft up to N tokens from the text so far: the same text, in fewer calls");
  o.flag("--slide", slide, "at the context's end forget the older half and go on");
  o.flag("--ignore-eos", ignore_eos, "go on where the model would end");
  o.text("--template", "FILE", template_file, "a chat template (Jinja) to use instead of the model's");
  backend.declare(o);
  o.flag("--stats", stats, "all figures at the end: speed, speculation, memory");
}

GenerateOptions GenerationFlags::options() const {
  GenerateOptions out;
  out.max_new = max_new;
  out.sampling = {.temperature = temperature,
                  .top_k = top_k,
                  .top_p = top_p,
                  .min_p = min_p,
                  .repetition_penalty = penalty,
                  .seed = static_cast<uint64_t>(seed)};
  for (const std::string& stop : stops) out.stops.push_back(unescaped(stop));
  out.ignore_eos = ignore_eos;
  out.stop_ngram = stop_ngram;
  out.speculate = speculate;
  out.slide = slide;
  return out;
}

OpenModel open_model(const std::string& path, const GenerationFlags& flags, const Common& common) {
  OpenModel out;
  out.bundle = Bundle::open(path, flags.backend.open(common));
  expect_kind(out.bundle->info(), path, {BundleKind::generate});
  out.tokenizer = load_tokenizer(*out.bundle);
  if (!flags.template_file.empty()) out.chat_template = read_text(flags.template_file);
  return out;
}

std::string read_text(const std::string& path) {
  if (path != "-") return std::string(MappedFile::open(path)->text());
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    out.push_back(line);
  }
  return out;
}

std::function<void(int64_t done, int64_t total)> prefill_progress(const Common& common) {
  if (common.quiet || common.json || !::isatty(STDERR_FILENO)) return nullptr;
  using Clock = std::chrono::steady_clock;
  struct Shown {
    Clock::time_point start = Clock::now();
    bool any = false;
  };
  auto shown = std::make_shared<Shown>();
  return [shown](int64_t done, int64_t total) {
    if (done == 0) *shown = {};
    if (done == total) {
      if (shown->any) fmt::print(stderr, "\r\x1b[K");
    } else if (Clock::now() - shown->start > std::chrono::seconds(1)) {
      fmt::print(stderr, "\r\x1b[Kreading the prompt: {} of {} tokens", done, total);
      shown->any = true;
    }
    std::fflush(stderr);
  };
}

std::string figures_line(const Generation& g, const Session& session) {
  const GenerateStats& s = g.stats;
  std::string reused = s.reused_tokens ? fmt::format(" ({} known)", s.reused_tokens) : "";
  std::string drafts =
      s.speculated ? fmt::format(", {:.0f}% of {} drafted tokens taken", 100 * s.acceptance(), s.drafted)
                   : "";
  return fmt::format(
      "[{}{} + {} tokens, {}; first token {:.2f} s, prefill {:.1f} tok/s, decode {:.1f} tok/s{}; {}, {}, "
      "peak memory {}]",
      s.prompt_tokens, reused, s.new_tokens, stop_reason_text(g.why), s.first_seconds, s.prefill_speed(),
      s.decode_speed(), drafts, session.bundle()->backend().name(), arithmetic_of(session),
      size_text(peak_memory()));
}

std::string figures_table(const Generation& g, const Session& session) {
  const GenerateStats& s = g.stats;
  const MemoryUse m = session.memory();
  std::string out = fmt::format("prompt       {} tokens, {} of them known already; {:.1f} tok/s\n",
                                s.prompt_tokens, s.reused_tokens, s.prefill_speed());
  out += fmt::format("first token  {:.3f} s\n", s.first_seconds);
  out += fmt::format("answer       {} tokens in {:.2f} s, {:.1f} tok/s; ended by: {}\n", s.new_tokens,
                     s.first_seconds + s.decode_seconds, s.decode_speed(), stop_reason_text(g.why));
  if (s.speculated)
    out += fmt::format(
        "speculation  {} of {} drafted tokens taken ({:.0f}%); {} calls; {} tokens computed again\n",
        s.accepted, s.drafted, 100 * s.acceptance(), s.calls, s.replayed);
  out += fmt::format("context      {} of {} positions{}\n", session.position(), session.capacity(),
                     s.slides ? fmt::format(", slid {} times", s.slides) : "");
  out += fmt::format("memory       weights {} (mapped), cache {}{}; peak of the process {}\n",
                     size_text(m.weights), size_text(m.cache), m.arena ? ", arena " + size_text(m.arena) : "",
                     size_text(peak_memory()));
  out += fmt::format("backend      {}, {} arithmetic\n", session.bundle()->backend().name(),
                     arithmetic_of(session));
  return out;
}

nlohmann::ordered_json figures_json(const Generation& g, const Session& session) {
  const GenerateStats& s = g.stats;
  const MemoryUse m = session.memory();
  nlohmann::ordered_json out = {{"text", g.text},
                                {"ids", g.ids},
                                {"prompt_tokens", s.prompt_tokens},
                                {"reused_tokens", s.reused_tokens},
                                {"new_tokens", s.new_tokens},
                                {"stopped", stop_reason_text(g.why)},
                                {"first_token_s", s.first_seconds},
                                {"prefill_tokens_per_s", s.prefill_speed()},
                                {"decode_tokens_per_s", s.decode_speed()},
                                {"backend", session.bundle()->backend().name()},
                                {"arithmetic", arithmetic_of(session)},
                                {"peak_bytes", peak_memory()},
                                {"weight_bytes", m.weights},
                                {"cache_bytes", m.cache},
                                {"arena_bytes", m.arena}};
  if (!g.stop.empty()) out["stop"] = g.stop;
  if (s.slides) out["slides"] = s.slides;
  if (s.speculated)
    out["speculation"] = {{"drafted", s.drafted},
                          {"accepted", s.accepted},
                          {"acceptance", s.acceptance()},
                          {"replayed", s.replayed},
                          {"calls", s.calls}};
  return out;
}

void print_figures(const Generation& g, const Session& session, const GenerationFlags& flags,
                   const Common& common) {
  if (common.quiet) return;
  print_fault(session.fault(), common);
  if (flags.stats)
    fmt::print(stderr, "{}", figures_table(g, session));
  else
    fmt::print(stderr, "{}\n", figures_line(g, session));
}

}  // namespace anemone::cli
