// `anemone completion`: completion of verbs and flags for bash and zsh.
#include <cstdio>
#include <sstream>

#include "cli/command.h"

namespace anemone::cli {
namespace {

std::vector<std::string> flags_of(const Command& command) {
  Options options;
  command.declare(options);
  std::vector<std::string> out;
  for (const Options::Item& item : options.items()) {
    std::istringstream names(item.name);
    for (std::string name; std::getline(names, name, ',');)
      if (name.starts_with("-")) out.push_back(name);
  }
  out.insert(out.end(), {"--json", "--quiet", "--verbose", "--threads", "--help"});
  return out;
}

// "    'predict --arith') values="fp32 fp16" ;;", for each flag that takes one of a few words.
std::string values_of(const Command& command) {
  Options options;
  command.declare(options);
  std::string out;
  for (const Options::Item& item : options.items()) {
    if (item.choices.empty() || !item.name.starts_with("-")) continue;
    std::string values;
    for (const std::string& choice : item.choices) values += (values.empty() ? "" : " ") + choice;
    out += "    '" + std::string(command.name) + " " + item.name.substr(item.name.rfind(',') + 1) +
           "') values=\"" + values + "\" ;;\n";
  }
  return out;
}

struct Args {
  std::string shell;
};

constexpr std::string_view kExamples =
    "  anemone completion bash > /etc/bash_completion.d/anemone\n"
    "  anemone completion zsh > ~/.zfunc/_anemone";

}  // namespace

std::string completion(std::string_view shell) {
  const bool zsh = shell == "zsh";
  std::string verbs, cases, values;
  for (const Command* command : commands()) {
    verbs += (verbs.empty() ? "" : " ") + std::string(command->name);
    std::string flags;
    for (const std::string& flag : flags_of(*command)) flags += (flags.empty() ? "" : " ") + flag;
    values += values_of(*command);
    cases += "    " + std::string(command->name) + ") flags=\"" + flags + "\" ;;\n";
  }
  std::string out = zsh ? "#compdef anemone\nautoload -U +X bashcompinit && bashcompinit\n" : "";
  out +=
      "_anemone() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" verb=\"${COMP_WORDS[1]}\" flags=\"\" values=\"\"\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"" +
      verbs +
      " --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$verb\" in\n" +
      cases +
      "  esac\n"
      "  case \"$verb ${COMP_WORDS[COMP_CWORD-1]}\" in\n" +
      values +
      "  esac\n"
      "  if [ -n \"$values\" ]; then\n"
      "    COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$word\" in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o filenames -F _anemone anemone\n";
  return out;
}

extern const Command kCompletion{
    "completion", "Print a completion script for a shell", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.text("SHELL", "", args->shell, "bash or zsh", {"bash", "zsh"});
      return [args](const Common&) {
        std::fputs(completion(args->shell.empty() ? "bash" : args->shell).c_str(), stdout);
        return 0;
      };
    }};

}  // namespace anemone::cli
