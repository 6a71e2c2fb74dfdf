#include "cli/usage.h"

#include "base/error.h"
#include "base/nearest_name.h"
#include "cli/command.h"

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
     "nothing has to be offloaded: here the CPU runs the packages, and on a device Core ML chooses"},
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
};

}  // namespace

std::string help_hint(std::string_view verb) {
  return fmt::format("'anemone {}{}--help' shows what there is", verb, verb.empty() ? "" : " ");
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

Error unknown_flag(std::string_view verb, const Options& options, const std::string& name) {
  std::string hint = other_program_hint(verb, name);
  if (hint.empty()) {
    std::vector<std::string> names;
    for (const Options::Item& item : options.items())
      for (const std::string& known : item.flag_names(true))
        if (known.starts_with("--")) names.push_back(known);
    const std::string meant = nearest_name(name, names);
    hint = meant.empty() ? help_hint(verb) + "; a text that begins with - stands behind --"
                         : fmt::format("did you mean '{}'?", meant);
  }
  return errorf("there is no flag '{}'", name).hint(hint);
}

}  // namespace anemone::cli
