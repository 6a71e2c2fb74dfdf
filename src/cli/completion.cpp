// `anemone completion`: completion of verbs, flags, their values and files for bash, zsh and fish.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cli/command.h"

namespace anemone::cli {
namespace {

Options options_of(const Command& command) {
  Options options;
  command.declare(options);
  CommonFlags common;
  common.declare(options);
  return options;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<std::string> verb_names() {
  std::vector<std::string> out;
  for (const Command* command : commands()) out.emplace_back(command->name);
  return out;
}

// The words that may stand where the verb's argument does; empty: files.
std::vector<std::string> argument_words(const Command& command, const Options& options) {
  if (command.name == "help") return verb_names();
  for (const Options::Item& item : options.items())
    if (!item.is_flag() && !item.choices.empty()) return item.choices;
  return {};
}

// "    'predict --arith') values="fp32 fp16" ;;", for each flag that takes one of a few words.
std::string bash_values(const Command& command, const Options& options) {
  std::string out;
  for (const Options::Item& item : options.items())
    if (item.is_flag() && !item.choices.empty())
      out += fmt::format("    '{} {}') values=\"{}\" ;;\n", command.name, item.main_name(),
                         joined(item.choices));
  return out;
}

std::string bash_script() {
  std::string cases, values;
  for (const Command* command : commands()) {
    const Options options = options_of(*command);
    std::vector<std::string> flags = {"--help"};
    for (const Options::Item& item : options.items())
      for (const std::string& name : item.flag_names(false)) flags.push_back(name);
    cases += fmt::format("    {}) flags=\"{}\" words=\"{}\" ;;\n", command->name, joined(flags),
                         joined(argument_words(*command, options)));
    values += bash_values(*command, options);
  }
  return fmt::format(R"(_anemone() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="${{COMP_WORDS[1]}}" flags="" values="" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$word"))
    return
  fi
  case "$verb" in
{}  esac
  case "$verb ${{COMP_WORDS[COMP_CWORD-1]}}" in
{}  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
    return
  fi
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$word")) ;;
    *) if [ -n "$words" ]; then
         COMPREPLY=($(compgen -W "$words" -- "$word"))
       else
         COMPREPLY=($(compgen -f -- "$word"))
       fi ;;
  esac
}}
complete -o filenames -F _anemone anemone
)",
                     joined(verb_names()), cases, values);
}

// In single quotes, where fish knows two escapes.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out + "'";
}

std::string fish_flag(const Command& command, const Options::Item& item) {
  std::string names;
  for (const std::string& name : item.flag_names(false))
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  std::string value;
  if (!item.choices.empty())
    value = " -x -a " + fish_quoted(joined(item.choices));
  else if (item.path != Options::Item::Path::none)
    value = " -r -F";
  else if (item.takes_value())
    value = " -x";
  return fmt::format("complete -c anemone -n '__anemone_verb {}'{}{} -d {}\n", command.name, names, value,
                     fish_quoted(item.help));
}

std::string fish_script() {
  std::string out = R"(function __anemone_no_verb
  test (count (commandline -opc)) -eq 1
end
function __anemone_verb
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test $words[2] = $argv[1]
end
complete -c anemone -f
complete -c anemone -n __anemone_no_verb -l help -d 'print the help'
complete -c anemone -n __anemone_no_verb -l version -d 'print the version'
)";
  for (const Command* command : commands()) {
    const Options options = options_of(*command);
    out += fmt::format("complete -c anemone -n __anemone_no_verb -a {} -d {}\n", command->name,
                       fish_quoted(command->summary));
    const std::vector<std::string> words = argument_words(*command, options);
    out += fmt::format("complete -c anemone -n '__anemone_verb {}' {}\n", command->name,
                       words.empty() ? "-F" : "-a " + fish_quoted(joined(words)));
    for (const Options::Item& item : options.items())
      if (item.is_flag()) out += fish_flag(*command, item);
    out += fmt::format("complete -c anemone -n '__anemone_verb {}' -l help -d 'print the help'\n",
                       command->name);
  }
  return out;
}

std::string script_for(const std::string& shell) {
  if (shell == "fish") return fish_script();
  const std::string bash = bash_script();
  return shell == "zsh" ? "#compdef anemone\nautoload -U +X bashcompinit && bashcompinit\n" + bash : bash;
}

struct Args {
  std::string shell = "bash";
};

constexpr std::string_view kExamples =
    "  anemone completion bash > /etc/bash_completion.d/anemone\n"
    "  anemone completion fish > ~/.config/fish/completions/anemone.fish";

}  // namespace

extern const Command kCompletion{
    "completion", "Print a completion script for a shell", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("SHELL", args->shell, "bash (default), zsh or fish", false)
          .one_of({"bash", "zsh", "fish"});
      return [args](const Common& common) {
        const std::string script = script_for(args->shell);
        if (common.json)
          fmt::print("{}\n", json_text(nlohmann::ordered_json{{"shell", args->shell}, {"script", script}}));
        else
          fmt::print("{}", script);
        return 0;
      };
    }};

}  // namespace anemone::cli
