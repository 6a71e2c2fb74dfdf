#include "cli/usage.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "cli/command.h"
#include "cli/format.h"

namespace anemone::cli {
namespace {

// Words of a list that is separated by spaces.
bool has_word(std::string_view list, std::string_view word) {
  for (size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

struct OtherFlag {
  std::string_view names;
  std::string_view verbs;  // where the hint fits; empty: everywhere
  std::string_view hint;
};

constexpr std::string_view kGenerate = "run chat translate";
constexpr OtherFlag kOthers[] = {
    {"-c --ctx-size --context --max-seq-len -ctx", kGenerate,
     "a bundle's context is fixed when it is made: anemone convert MODEL -o BUNDLE --context N"},
    {"-ngl --gpu-layers --n-gpu-layers -dev --device --device-map", "",
     "it is not needed: anemone runs on the CPU, and on an Apple device Core ML chooses the compute unit"},
    {"--compute-units --compute-unit --compute_units", "",
     "an app says that when it loads a package: MLModelConfiguration.computeUnits"},
    {"-cnv --conversation -i --interactive -if --interactive-first", "run",
     "anemone chat BUNDLE talks with a bundle"},
    {"-no-cnv --no-conversation", "run", "--raw continues the text as it is"},
    {"--jinja --chat-template --chat-template-file", kGenerate,
     "the model's own chat template is used; --template FILE gives another one, run --raw none"},
    {"-b --batch-size -ub --ubatch-size", "",
     "a bundle's tokens at once are fixed when it is made: anemone convert MODEL -o BUNDLE --tokens 1,64"},
    {"--draft --draft-max --draft-n --speculative", kGenerate, "--speculate N drafts from the text so far"},
    {"--ignore-eos-token", kGenerate, "it is called --ignore-eos"},
    {"--outtype --quantization -q --qtype --dtype --torch-dtype --compute-precision", "convert",
     "--precision int8, fp16, lut4, lut4-g16 …"},
    {"--bits --nbits", "convert compress", "--palettize BITS"},
    {"--minimum-deployment-target --deployment-target --os", "convert",
     "--target ios18, macos15, \"iPhone 15 Pro\" …"},
    {"--out --out-dir --output-dir", "", "-o, --output"},
    {"-hf -hfr --hf-repo -hff --hf-file -mu --model-url", "convert plan fetch tokenize template",
     "name the model without a flag: OWNER/REPO, OWNER/REPO/FILE.gguf or https://HOST/FILE.gguf"},
    {"-hf -hfr --hf-repo -hff --hf-file -mu --model-url", "",
     "convert the model first: anemone convert OWNER/REPO -o BUNDLE"},
    {"-fa --flash-attn --no-flash-attn", "",
     "it is not needed: the packages hold attention in the form that the Neural Engine computes"},
    {"--mlock --no-mmap --mmap -nommap", "",
     "it is not needed: weights are mapped from their files, and the system keeps what is in use in memory"},
    {"-st --single-turn", "", "anemone run BUNDLE PROMPT answers one prompt and ends"},
    {"-tb --threads-batch", "", "--threads N holds for the prompt and for the answer"},
    {"-np --parallel", "",
     "texts are answered one after the other: run --lines --file FILE answers every line"},
    {"-v --log-verbose -lv --verbosity", "",
     "--verbose gives more detail; anemone --version prints the version"},
    {"-q -s --silent --log-disable", "", "--quiet prints no notes and no progress"},
    {"--no-display-prompt --display-prompt --simple-io -e --escape --no-warmup", "",
     "it is not needed: only the answer goes to standard output, and nothing is computed before it"},
    {"-ctk --cache-type-k -ctv --cache-type-v", "", "the cache of a bundle is fp16"},
    {"--lora --control-vector -md --model-draft", "",
     "it is not supported: merge adapters into the checkpoint first, or draft with --speculate N"},
};

// The flag near a name that is not known, as --help shows it: an alias stands for its flag.
std::string meant_flag(const Options& options, const std::string& name) {
  std::vector<std::string> names;
  for (const Options::Item& item : options.items())
    for (const std::string& known : item.flag_names(true))
      if (known.starts_with("--")) names.push_back(known);
  std::string plain = name;
  std::replace(plain.begin(), plain.end(), '_', '-');
  const std::string near = nearest_name(plain, names);
  const Options::Item* const item = near.empty() ? nullptr : options.find_flag(near);
  return item && item->is_flag() ? item->main_name() : near;
}

}  // namespace

std::string help_hint(std::string_view verb) {
  return fmt::format("'anemone {}{}--help' lists the {}", verb, verb.empty() ? "" : " ",
                     verb.empty() ? "verbs" : "flags");
}

std::string other_program_hint(std::string_view verb, std::string_view flag) {
  for (const OtherFlag& other : kOthers)
    if (has_word(other.names, flag) && (other.verbs.empty() || has_word(other.verbs, verb)))
      return std::string(other.hint);
  return "";
}

Error unknown_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : commands()) names.emplace_back(command->name);
  const std::string meant = nearest_name(name, names);
  return errorf("there is no verb '{}'", name)
      .hint(meant.empty() ? help_hint("") : fmt::format("did you mean '{}'?", meant));
}

Error flag_before_verb(const std::vector<std::string>& arguments) {
  const std::string& first = arguments.front();
  const std::string name = first.substr(0, first.find('='));
  Error error = errorf("there is no flag '{}' before a verb", name);
  if (name == "-v" || name == "-V" || name == "-version") return error.hint("did you mean '--version'?");
  Options options;
  find_command("run")->declare(options);
  if (!options.find_flag(name)) return error.hint(help_hint(""));
  std::string rest;
  for (const std::string& word : arguments) rest += " " + shell_word(word);
  return error.hint("did you mean: anemone run" + rest);
}

Error unknown_flag(std::string_view verb, const Options& options, const std::string& name) {
  std::string hint = other_program_hint(verb, name);
  if (hint.empty()) {
    const std::string meant = meant_flag(options, name);
    hint = meant.empty() ? help_hint(verb) + "; if it is text, put -- before it"
                         : fmt::format("did you mean '{}'?", meant);
  }
  return errorf("there is no flag '{}'", name).hint(hint);
}

}  // namespace anemone::cli
