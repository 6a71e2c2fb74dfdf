#include "cli/generation.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/pages.h"
#include "base/words.h"
#include "cli/input.h"
#include "cli/output.h"
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

// Of the process so far: each is a page that was mapped when it was first used.
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

const char* arithmetic_of(const Session& session) {
  return arithmetic_name(session.bundle()->backend().arithmetic());
}

// The process ends with the last use of a model; taking plans and programs of many layers down piece by piece would
// take a tenth of a short answer's time.
void keep_until_exit(std::shared_ptr<const void> kept) {
  static std::vector<std::shared_ptr<const void>>& all = *new std::vector<std::shared_ptr<const void>>;
  all.push_back(std::move(kept));
}

// "75% of 12 drafted tokens taken".
std::string drafts_text(const GenerateStats& s) {
  if (s.drafted == 0) return "nothing drafted";
  return fmt::format("{:.0f}% of {} taken", 100 * s.acceptance(), counted(s.drafted, "drafted token"));
}

}  // namespace

void GenerationFlags::declare(Options& o) {
  o.integer("--max-new", "N", max_new, "most tokens to generate (" + std::to_string(max_new) + ")")
      .also("-n,--n-predict,--predict,--max-tokens,--max-new-tokens");
  o.real("--temperature", "X", temperature, "0 always takes the best token (default); 0.7 gives varied text")
      .also("--temp");
  o.texts("--stop", "TEXT", stops, "end before this text (\\n is a line break); may be repeated")
      .also("-r,--reverse-prompt");
  o.flag("--stats", stats, "all figures at the end: speed, speculation, memory");
  o.group("Sampling, with a temperature above 0");
  o.integer("--seed", "N", seed, "makes the text repeatable; without it each run uses a new seed").also("-s");
  o.integer("--top-k", "N", top_k, "sample among the N best");
  o.real("--top-p", "X", top_p, "sample among the most likely tokens with a total probability of X");
  o.real("--min-p", "X", min_p, "drop tokens with less than X times the probability of the best one");
  o.group("Where it ends");
  o.integer("--stop-ngram", "N", stop_ngram, "end when the last N tokens already occurred in the answer");
  o.flag("--ignore-eos", ignore_eos, "continue where the model would end");
  o.flag("--slide", slide, "when the context is full, drop the older half and continue");
  o.group("How it is computed");
  o.real("--repetition-penalty", "X", penalty, "make repeats less likely (1: off)").also("--repeat-penalty");
  o.text("--template", "FILE", template_file, "a chat template (Jinja) to use instead of the model's")
      .streams();
  o.integer("--speculate", "N", speculate,
            "draft up to N tokens from the text so far: the same text, in fewer calls");
  backend.usual = "fast";
  backend.declare(o, ": the maths, rounded as on the device, or 8-bit activations");
}

void GenerationFlags::note_idle(const Common& common) const {
  if (temperature > 0 || common.json) return;
  const auto idle = [&](bool given, const char* flag) {
    if (given) note(common, fmt::format("{} does nothing at temperature 0: add --temperature 0.7", flag));
  };
  idle(top_k != 0, "--top-k");
  idle(top_p != 1, "--top-p");
  idle(min_p != 0, "--min-p");
  idle(seed != kNotSaid, "--seed");
}

GenerateOptions GenerationFlags::options() const {
  GenerateOptions out;
  // -1 is what llama.cpp's users write. Small enough to be typed again.
  const bool random = seed == kNotSaid || seed == -1;
  if (!random && seed < 0) throw errorf("--seed takes 0 or more").found(fmt::format("{}", seed));
  out.max_new = max_new;
  out.sampling = {.temperature = temperature,
                  .top_k = top_k,
                  .top_p = top_p,
                  .min_p = min_p,
                  .repetition_penalty = penalty,
                  .seed = random ? uint64_t{std::random_device()()} : static_cast<uint64_t>(seed)};
  for (const std::string& stop : stops) out.stops.push_back(unescaped(stop));
  out.ignore_eos = ignore_eos;
  out.stop_ngram = stop_ngram;
  out.speculate = speculate;
  out.slide = slide;
  return out;
}

OpenModel open_model(const std::string& path, const GenerationFlags& flags, const Common& common,
                     int64_t tokens) {
  use_large_heap();
  OpenModel out;
  out.bundle = Bundle::open(path, flags.backend.open(common));
  const BundleInfo& info = out.bundle->info();
  expect_kind(info, path, {BundleKind::generate});
  std::future<std::shared_ptr<const Tokenizer>> tokenizer = std::async(std::launch::async, [&] {
    auto loaded =
        info.tokenizer.empty() ? nullptr : Tokenizer::load(std::filesystem::path(path) / info.tokenizer);
    out.bundle->fetch_weights();
    return loaded;
  });
  Session(out.bundle).get_ready(tokens);
  out.bundle->fetch_weights();
  out.tokenizer = tokenizer.get();
  if (!out.tokenizer) out.tokenizer = load_tokenizer(*out.bundle);  // says what is missing
  keep_until_exit(out.bundle);
  if (!flags.template_file.empty()) out.chat_template = read_text(flags.template_file);
  return out;
}

std::function<void(int64_t done, int64_t total)> prefill_progress(const Common& common) {
  if (common.quiet || common.json || !::isatty(STDERR_FILENO)) return nullptr;
  using Clock = std::chrono::steady_clock;
  struct Shown {
    std::optional<Clock::time_point> start;  // of this prompt
    int64_t last = 0;
    bool any = false;
  };
  auto shown = std::make_shared<Shown>();
  return [shown](int64_t done, int64_t total) {
    if (!shown->start || done < shown->last) *shown = {Clock::now()};
    shown->last = done;
    if (done == total) {
      if (shown->any) fmt::print(stderr, "\r\x1b[K");
      *shown = {};
    } else if (Clock::now() - *shown->start > std::chrono::milliseconds(300)) {
      fmt::print(stderr, "\r\x1b[Kreading the prompt: {} of {} tokens", done, total);
      shown->any = true;
    }
    std::fflush(stderr);
  };
}

void clear_progress(const Common& common) {
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\x1b[K");
}

void show_text(std::string_view piece) {
  fmt::print("{}", piece);
  flush_output();
}

std::string figures_line(const Generation& g, const Session& session) {
  const GenerateStats& s = g.stats;
  const std::string reused = s.reused_tokens ? fmt::format(" ({} from the cache)", s.reused_tokens) : "",
                    seed = g.seed ? fmt::format("; seed {}", *g.seed) : "";
  std::string out =
      fmt::format("[prompt {}{}, answer {}, ended by: {}{}; first token {:.2f} s, prefill {:.1f} tok/s",
                  counted(s.prompt_tokens, "token"), reused, counted(s.new_tokens, "token"),
                  stop_reason_text(g.why), seed, s.first_seconds, s.prefill_speed());
  if (s.decode_speed() > 0) out += fmt::format(", decode {:.1f} tok/s", s.decode_speed());
  if (s.speculated) out += ", " + drafts_text(s);
  return out + fmt::format("; {}, {}, peak memory {}]", session.bundle()->backend().name(),
                           arithmetic_of(session), size_text(peak_memory()));
}

std::string figures_table(const Generation& g, const Session& session, const std::string& seed) {
  const GenerateStats& s = g.stats;
  const MemoryUse m = session.memory();
  std::string out = fmt::format("prompt       {}, {} reused from the cache; {:.1f} tok/s\n",
                                counted(s.prompt_tokens, "token"), s.reused_tokens, s.prefill_speed());
  out += fmt::format("first token  {:.3f} s\n", s.first_seconds);
  out += fmt::format("answer       {} in {:.2f} s{}; ended by: {}\n", counted(s.new_tokens, "token"),
                     s.first_seconds + s.decode_seconds,
                     s.decode_speed() > 0 ? fmt::format(", {:.1f} tok/s", s.decode_speed()) : "",
                     stop_reason_text(g.why));
  if (g.seed) out += fmt::format("sampling     {}\n", seed.empty() ? fmt::format("seed {}", *g.seed) : seed);
  if (s.speculated)
    out += fmt::format("speculation  {}; {}; {} computed again\n",
                       s.drafted ? fmt::format("{} of {} drafted tokens taken ({:.0f}%)", s.accepted,
                                               s.drafted, 100 * s.acceptance())
                                 : "nothing drafted",
                       counted(s.calls, "call"), counted(s.replayed, "token"));
  out += fmt::format("context      {} of {} positions{}\n", session.position(), session.capacity(),
                     s.slides ? fmt::format(", slid {}", counted(s.slides, "time")) : "");
  out += fmt::format("memory       weights {} (mapped), cache {}{}; peak of the process {}\n",
                     size_text(m.weights), size_text(m.cache), m.arena ? ", arena " + size_text(m.arena) : "",
                     size_text(peak_memory()));
  if (const uint64_t fetched = session.bundle()->fetched_bytes())
    out += fmt::format("pages        {} of weights mapped before their use; {} faults\n", size_text(fetched),
                       page_faults());
  out += fmt::format("backend      {}, {} arithmetic\n", session.bundle()->backend().name(),
                     arithmetic_of(session));
  for (const Variant& v : session.bundle()->info().variants)
    out += fmt::format("             variant {}: the cache is written by {}\n", v.name, v.kv_write);
  for (const std::string& remark : session.bundle()->backend().remarks())
    out += fmt::format("             {}\n", remark);
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
  for (const Variant& v : session.bundle()->info().variants) out["variant"] = v.name;
  if (const auto remarks = session.bundle()->backend().remarks(); !remarks.empty())
    out["backend_remarks"] = remarks;
  if (!g.stop.empty()) out["stop"] = g.stop;
  if (g.seed) out["seed"] = *g.seed;
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
