// `anemone run`: a prompt goes in, text streams out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_problem.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/profile.h"
#include "cli/source.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "runtime/answer.h"
#include "runtime/prompt.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, prompt, system, schema_file, grammar_file;
  std::vector<std::string> files;
  int64_t warmup = 0;
  bool raw = false, lines = false;
  GenerationFlags flags;
  ProfileFlags profile;
};

// The argument, each file, each line of them, or standard input; an argument and a file together are one text, and so
// are an argument and what is piped into the program.
std::vector<std::string> prompts_of(const Args& args, const Common& common) {
  std::vector<std::string> texts;
  for (const std::string& file : args.files) texts.push_back(without_last_break(read_text(file)));
  if (args.files.empty() && (args.prompt.empty() || args.prompt == "-"))
    texts.push_back(without_last_break(read_text("-")));
  else if (args.files.empty())
    if (const std::optional<std::string> piped = piped_text(common); piped && !piped->empty())
      texts.push_back(without_last_break(*piped));
  const std::string before = args.prompt == "-" ? "" : args.prompt;
  std::vector<std::string> out;
  for (const std::string& text : texts)
    for (const std::string& part : args.lines ? lines_of(text) : std::vector{text})
      if (!args.lines || !part.empty()) out.push_back(joined_texts(before, part));
  if (texts.empty()) out.push_back(before);
  if (args.lines && texts.empty()) throw errorf("--lines is for prompts from files or standard input");
  for (const std::string& prompt : out)
    if (prompt.empty())
      throw errorf("the prompt is empty").hint("give it as an argument, with --file or on standard input");
  if (out.empty()) throw errorf("there are no prompts");
  return out;
}

// About how many tokens the first prompt has, before there is a tokenizer. A chat template alone has some tens.
int64_t expected_tokens(const Args& args) {
  constexpr int64_t kLong = 64;
  if (!args.raw || !args.files.empty() || args.prompt.empty() || args.prompt == "-") return kLong;
  return std::max<int64_t>(1, static_cast<int64_t>(args.prompt.size()) / 4);
}

std::vector<int32_t> ids_of(const Args& args, const std::string& prompt, const PromptFormat& format) {
  if (args.raw || !format.has_turns()) return format.plain(prompt);
  std::vector<Message> messages;
  if (!args.system.empty()) messages.push_back({"system", args.system});
  messages.push_back({"user", prompt});
  return format.conversation(messages);
}

// Positions are known here, so a model with two sets of rope factors takes the one for this length.
Session session_for(const OpenModel& model, const std::vector<int32_t>& ids, const GenerationFlags& flags) {
  const int64_t capacity = model.bundle->tiers().back();
  const auto prompt = static_cast<int64_t>(ids.size());
  const int64_t wanted = flags.slide || flags.max_new > capacity - prompt
                             ? capacity
                             : prompt + std::max<int64_t>(flags.max_new, 1);
  return Session(model.bundle, {.positions = wanted});
}

// What the answer must look like; null where nothing was asked for.
std::shared_ptr<TokenMasks> masks_of(const Args& args, const OpenModel& model) {
  const std::string& file = args.schema_file.empty() ? args.grammar_file : args.schema_file;
  if (file.empty()) return nullptr;
  if (!args.schema_file.empty() && !args.grammar_file.empty())
    throw errorf("--json-schema and --grammar both say what the answer looks like")
        .hint("leave one of them out");
  const std::string text = read_text(file);
  Grammar grammar;
  try {
    if (args.schema_file.empty())
      grammar = parse_gbnf(text);
    else
      grammar = schema_grammar(nlohmann::ordered_json::parse(text));
  } catch (const nlohmann::json::exception& e) {
    throw json_error(e, text, "is not a JSON schema").at(file);
  } catch (Error& e) {
    e.within(file);
    throw;
  }
  auto vocabulary = std::make_shared<const GrammarVocabulary>(
      *model.tokenizer, end_tokens(*model.bundle, model.tokenizer.get()));
  return std::make_shared<TokenMasks>(std::make_shared<const Grammar>(std::move(grammar)),
                                      std::move(vocabulary));
}

void warm_up(const Args& args, const OpenModel& model, const std::vector<int32_t>& ids) {
  GenerateOptions options = args.flags.options();
  options.max_new = args.warmup;
  options.ignore_eos = true;
  Session session = session_for(model, ids, args.flags);
  Generator(model.tokenizer, options).run(session, ids);
  args.profile.forget();
}

int run_text(Args& args, const Common& common) {
  args.profile.start(args.flags.backend);
  const OpenModel model = open_model(args.bundle, args.flags, common, expected_tokens(args));
  const PromptFormat format(model.tokenizer, model.chat_template);
  if (!args.system.empty() && (args.raw || !format.has_turns()))
    throw errorf("--system needs a chat template")
        .hint(args.raw ? "leave out --raw" : "the model has none: put the words into the prompt");
  GenerateOptions options = args.flags.options();
  options.grammar = masks_of(args, model);
  options.on_prefill = prefill_progress(common);
  if (!common.json) options.on_text = show_text;
  const Generator generator(model.tokenizer, options);
  args.flags.note_idle(common);
  const std::vector<std::string> prompts = prompts_of(args, common);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> ids = ids_of(args, prompts[i], format);
    if (prompts.size() > 1 && !common.quiet && !common.json)
      fmt::print(stderr, "{}── {} of {}: {}\n", i ? "\n" : "", i + 1, prompts.size(),
                 one_line(prompts[i], 60));
    if (args.warmup > 0 && i == 0) warm_up(args, model, ids);
    Session session = session_for(model, ids, args.flags);
    // Each prompt has a seed of its own, which the figures say: alone with that one it gives the same text.
    const Generation g = generator.run(session, ids, options.sampling.seed + i);
    if (common.json) {
      // Several answers are a line each.
      nlohmann::ordered_json figures = figures_json(g, session);
      if (args.profile.table && i + 1 == prompts.size()) figures["profile"] = args.profile.json();
      fmt::print("{}\n", json_text(figures, prompts.size() > 1 ? -1 : 2));
    } else {
      show_text("\n");
      print_figures(g, session, args.flags, common);
    }
  }
  args.profile.finish(common);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone run smollm2 \"What is a tide pool?\"\n"
    "  anemone run demo \"Once upon a time\" --raw --max-new 60 --temperature 0.8 --seed 7";

}  // namespace

extern const Command kRun{
    "run", "Answer a prompt with a bundle, or continue it", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote").also("-m,--model").takes(kBundle);
      o.positional("PROMPT", args->prompt,
                   "the prompt. Piped text is added after it. Without PROMPT and --file, standard input is "
                   "the prompt",
                   false)
          .also("-p,--prompt");
      o.texts("--file", "FILE", args->files,
              "a prompt from a file; may be repeated; PROMPT, if given, comes before it")
          .also("-f")
          .streams();
      o.flag("--lines", args->lines, "each line of the files or of standard input is a prompt");
      o.text("--system", "TEXT", args->system, "instructions for the model, before the prompt")
          .also("-sys,--system-prompt");
      o.flag("--raw", args->raw, "no chat template: continue the text as it is");
      o.text("--json-schema", "FILE", args->schema_file, "the answer is JSON that this JSON Schema accepts")
          .streams();
      o.text("--grammar", "FILE", args->grammar_file, "the answer is a text of this grammar (GBNF)")
          .streams();
      args->flags.declare(o);
      o.integer("--warmup", "N", args->warmup,
                "first generate N tokens that are not shown, for steady figures");
      args->profile.declare(o);
      return [args](const Common& common) { return run_text(*args, common); };
    }};

}  // namespace anemone::cli
