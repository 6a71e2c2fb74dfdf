// `anemone translate`: text in one language goes in, text in another comes out.
#include "runtime/translate.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, text, file, to, from;
  bool lines = false;
  GenerationFlags flags;
};

std::vector<std::string> texts_of(const Args& args) {
  if (!args.text.empty() && !args.file.empty()) throw errorf("give a text or --file, not both");
  const std::string text = !args.text.empty() && args.text != "-" ? args.text
                           : !args.file.empty()                   ? read_text(args.file)
                                                                  : read_text("-");
  std::vector<std::string> out = args.lines ? lines_of(text) : std::vector{text};
  for (std::string& t : out)
    while (t.ends_with('\n') || t.ends_with('\r')) t.pop_back();
  const bool any = std::any_of(out.begin(), out.end(), [](const std::string& t) { return !t.empty(); });
  if (!any) throw errorf("there is no text to translate");
  return out;
}

int run_translate(const Args& args, const Common& common) {
  const Language& to = find_language(args.to);
  const Language* from = args.from.empty() ? nullptr : &find_language(args.from);
  const OpenModel model = open_model(args.bundle, args.flags, common);
  const Translator translator(*model.bundle, model.tokenizer, model.chat_template);
  const std::vector<std::string> texts = texts_of(args);
  if (!translator.trained() && !common.json)
    note(common, fmt::format("family {} is no translation model; it is asked in plain words",
                             model.bundle->info().family));
  GenerateOptions options = args.flags.options();
  options.on_prefill = prefill_progress(common);
  if (!common.json) options.on_text = show_text;
  const Generator generator(model.tokenizer, options);
  args.flags.note_idle(common);
  uint64_t seed = options.sampling.seed;  // each text has its own, which the figures say
  for (const std::string& text : texts) {
    if (text.empty()) {  // a line answers a line
      if (!common.json) fmt::print("\n");
      continue;
    }
    Session session(model.bundle);
    const Generation g = generator.run(session, translator.prompt(text, to, from), seed++);
    if (common.json) {
      nlohmann::ordered_json out = {{"to", to.code}, {"source", text}};
      out.update(figures_json(g, session));
      fmt::print("{}\n", json_text(out, texts.size() > 1 ? -1 : 2));
      continue;
    }
    show_text("\n");
    // A file of lines is for programs: its figures would stand between the lines.
    if (texts.size() == 1 || args.flags.stats) print_figures(g, session, args.flags, common);
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone translate hy-mt --to fr \"The tide comes in twice a day.\"\n"
    "  anemone translate hy-mt --from en --to zh --file letter.txt";

}  // namespace

extern const Command kTranslate{
    "translate", "Translate a text with a translation model's bundle", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      args->flags.max_new = 1024;
      o.positional("BUNDLE", args->bundle, "what convert wrote").also("-m,--model").takes(kBundle);
      o.positional("TEXT", args->text, "the text; without it and --file, standard input", false);
      o.text("--to", "LANGUAGE", args->to, "a code such as fr, or a name such as French").must();
      o.text("--from", "LANGUAGE", args->from, "the language of the text; without it the model finds out");
      o.text("--file", "FILE", args->file, "the text from a file").also("-f").streams();
      o.flag("--lines", args->lines, "translate each line on its own");
      args->flags.declare(o);
      return [args](const Common& common) { return run_translate(*args, common); };
    }};

}  // namespace anemone::cli
