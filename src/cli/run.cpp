// `anemone run`: a prompt goes in, text streams out.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/format.h"
#include "runtime/sampler.h"
#include "runtime/session.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace anemone::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Args {
  std::string bundle, prompt, arith = "fp32";
  int64_t max_new = 128, top_k = 0, seed = 1;
  double temperature = 0, top_p = 1, min_p = 0, penalty = 1;
  bool raw = false;
};

std::string prompt_text(const Args& args, const Tokenizer& tokenizer) {
  std::string prompt = args.prompt;
  if (prompt.empty()) prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (prompt.empty()) throw errorf("the prompt is empty").hint("give it as an argument or on standard input");
  if (args.raw || tokenizer.chat_template().empty()) return prompt;
  ChatInput in;
  nlohmann::ordered_json messages = {{{"role", "user"}, {"content", prompt}}};
  in.messages = jinja::from_json(messages);
  in.add_generation_prompt = true;
  in.bos_token = std::string(tokenizer.piece(tokenizer.bos()));
  in.eos_token = std::string(tokenizer.piece(tokenizer.eos()));
  return ChatTemplate(tokenizer.chat_template()).render(in);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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

int run_text(const Args& args, const Common& common) {
  PredictOptions options;
  options.arithmetic = args.arith == "fp16" ? Arithmetic::fp16 : Arithmetic::fp32;
  options.threads = common.threads;
  const auto bundle = Bundle::open(args.bundle, options);
  const BundleInfo& info = bundle->info();
  if (info.tokenizer.empty())
    throw errorf("has no tokenizer").at(args.bundle).hint("convert a checkpoint that comes with one");
  if (info.argmax && args.temperature > 0)
    throw errorf("the bundle gives only the best token, so nothing can be sampled")
        .hint("convert without --argmax-output");
  const auto tokenizer = Tokenizer::load(bundle->path() / info.tokenizer);
  const std::string text = prompt_text(args, *tokenizer);
  const bool templated = !args.raw && !tokenizer->chat_template().empty();
  std::vector<int32_t> ids = tokenizer->encode(text, {.add_special = !templated});
  if (ids.empty()) throw errorf("the prompt has no tokens");
  const auto prompt_tokens = static_cast<int64_t>(ids.size());
  Session session(bundle);
  if (prompt_tokens >= session.capacity())
    throw errorf("the prompt has {} tokens, and the context holds {}", prompt_tokens, session.capacity())
        .hint("convert with a larger --context");
  std::vector<int32_t> stops(info.eos.begin(), info.eos.end());
  stops.insert(stops.end(), tokenizer->end_of_generation().begin(), tokenizer->end_of_generation().end());

  Sampler sampler({.temperature = args.temperature,
                   .top_k = args.top_k,
                   .top_p = args.top_p,
                   .min_p = args.min_p,
                   .repetition_penalty = args.penalty,
                   .seed = static_cast<uint64_t>(args.seed)});
  const auto next = [&](std::span<const int32_t> fresh) {
    if (info.argmax) return static_cast<int32_t>(session.forward_best(fresh));
    return sampler.pick(session.forward(fresh, true), ids);
  };
  Tokenizer::Stream stream(tokenizer, true);
  std::string out;
  const auto start = Clock::now();
  int32_t token = next(ids);
  const double first = seconds_since(start);
  const auto decode_start = Clock::now();
  int64_t made = 0;
  std::string why = "length";
  while (made < args.max_new) {
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) {
      why = "end of text";
      break;
    }
    ids.push_back(token);
    ++made;
    const std::string piece = stream.feed(token);
    out += piece;
    if (!common.json) {
      fmt::print("{}", piece);
      std::fflush(stdout);
    }
    if (session.position() == session.capacity()) {
      why = "context full";
      break;
    }
    if (made < args.max_new) token = next(std::span(&ids.back(), 1));
  }
  out += stream.finish();
  const double decoding = seconds_since(decode_start);
  const double prefill_speed = static_cast<double>(prompt_tokens) / first;
  const double decode_speed = made > 1 && decoding > 0 ? static_cast<double>(made - 1) / decoding : 0;
  if (common.json) {
    nlohmann::ordered_json j = {{"text", out},
                                {"prompt_tokens", prompt_tokens},
                                {"new_tokens", made},
                                {"stopped", why},
                                {"first_token_s", first},
                                {"prefill_tokens_per_s", prefill_speed},
                                {"decode_tokens_per_s", decode_speed},
                                {"backend", "cpu"},
                                {"arithmetic", args.arith},
                                {"peak_bytes", peak_memory()}};
    fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  fmt::print("\n");
  if (!common.quiet)
    fmt::print(stderr,
               "[{} + {} tokens, {}; first token {:.2f} s, prefill {:.1f} tok/s, decode {:.1f} tok/s; cpu, "
               "{}, peak memory {}]\n",
               prompt_tokens, made, why, first, prefill_speed, decode_speed, args.arith,
               size_text(peak_memory()));
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone run smollm2 \"What is a tide pool?\"\n"
    "  anemone run demo \"Once upon a time\" --raw --max-new 60 --temperature 0.8 --seed 7";

}  // namespace

extern const Command kRun{
    "run", "Continue a prompt with a bundle", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote");
      o.positional("PROMPT", args->prompt, "the prompt; without it, standard input", false);
      o.integer("--max-new", "N", args->max_new, "most tokens to make (128)");
      o.flag("--raw", args->raw, "no chat template: continue the text as it is");
      o.real("--temperature", "X", args->temperature, "0 takes the best token always (default)");
      o.integer("--top-k", "N", args->top_k, "sample among the N best");
      o.real("--top-p", "X", args->top_p, "sample among the best that together reach X");
      o.real("--min-p", "X", args->min_p, "sample among those at least X times as likely as the best");
      o.real("--repetition-penalty", "X", args->penalty, "make repeats less likely (1: off)");
      o.integer("--seed", "N", args->seed, "for sampling");
      o.text("--arith", "MODE", args->arith, "fp32 (default) or fp16", {"fp32", "fp16"});
      return [args](const Common& common) { return run_text(*args, common); };
    }};

}  // namespace anemone::cli
