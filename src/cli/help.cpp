// Also `anemone help`: the same as --help.
#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "check/wrap.h"
#include "cli/usage.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 100, kTextColumn = 34;

std::string entry(std::string label, const std::string& text) {
  const size_t taken = columns(label);
  if (taken + 2 > kTextColumn) return label + "\n" + wrap(std::string(kTextColumn, ' '), text, kColumns);
  label.append(kTextColumn - taken, ' ');
  return wrap(label, text, kColumns);
}

// "  -o,--output FOLDER".
std::string label_of(const Options::Item& item) {
  if (!item.is_flag()) return "  " + item.name;
  std::string names;
  for (const std::string& name : item.flag_names(false)) names += (names.empty() ? "" : ", ") + name;
  return "  " + names + (item.value.empty() ? "" : " " + item.value);
}

std::string usage_line(const Command& command, const Options& options) {
  std::string out = fmt::format("Usage: anemone {}", command.name);
  for (const Options::Item& item : options.items())
    if (!item.is_flag()) {
      const std::string name = item.name + (item.kind == Options::Item::Kind::positionals ? "…" : "");
      out += item.required ? " " + name : " [" + name + "]";
    }
  for (const Options::Item& item : options.items())
    if (item.is_flag() && item.required)
      out += fmt::format(" {} {}", item.flag_names(false).front(), item.value);
  return out + " [flags]\n";
}

// Headings in the order in which they are first used: the flags that matter most, then by purpose.
std::vector<std::string> headings(const Options& options) {
  std::vector<std::string> out;
  for (const Options::Item& item : options.items())
    if (item.is_flag() && std::find(out.begin(), out.end(), item.group) == out.end())
      out.push_back(item.group);
  return out;
}

struct Args {
  std::string verb;
};

// A verb with all that it takes, for programs.
Json to_json(const Command& command) {
  Options options;
  command.declare(options);
  CommonFlags common;
  common.declare(options);
  Json out = {{"verb", command.name}, {"summary", command.summary}};
  for (const Options::Item& item : options.items()) {
    Json one;
    const std::vector<std::string> shown = item.flag_names(false), all = item.flag_names(true);
    if (item.is_flag()) one["names"] = shown;
    if (!item.is_flag()) one["name"] = item.name;
    if (all.size() > shown.size())
      one["aliases"] = std::vector(all.begin() + static_cast<ptrdiff_t>(shown.size()), all.end());
    if (item.path != Options::Item::Path::none)
      one["path"] = item.path == Options::Item::Path::input ? "input" : "output";
    if (!item.value.empty()) one["value"] = item.value;
    if (!item.choices.empty()) one["one_of"] = item.choices;
    one["help"] = item.help;
    one["required"] = item.required;
    out[item.is_flag() ? "flags" : "arguments"].push_back(std::move(one));
  }
  return out;
}

int print_help(const Args& args, const Common& common) {
  const Command* const command = find_command(args.verb);
  if (!args.verb.empty() && !command) throw unknown_verb(args.verb);
  if (common.json) {
    Json out = Json::array();
    for (const Command* one : commands())
      if (!command || one == command) out.push_back(to_json(*one));
    fmt::print("{}\n", json_text(command ? out.front() : out, 2));
  } else {
    fmt::print("{}", command ? help_text(*command, common.out) : help_text(common.out));
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone help convert\n"
    "  anemone help run --json";

}  // namespace

std::string help_text(const Inks& inks) {
  std::string out =
      "anemone: language models on the Apple Neural Engine, without a Mac and without Python.\n\n";
  out += "Usage: anemone VERB …\n";
  for (const CommandGroup& group : command_groups()) {
    out += "\n" + inks(Ink::heading, fmt::format("{}:", group.heading)) + "\n";
    for (const Command* command : group.commands)
      out += entry(fmt::format("  {}", command->name), std::string(command->summary));
  }
  out += "\n" + inks(Ink::heading, "Flags:") + "\n";
  out += entry("  -h, --help",
               "print this help; 'anemone help VERB' and 'anemone VERB --help' say more of a verb");
  out += entry("  --version", "print the version");
  out += "\n" + inks(Ink::heading, "Examples:") + "\n";
  return out +
         "  anemone convert SmolLM2-135M-Instruct.Q8_0.gguf -o smollm2\n"
         "  anemone run smollm2 \"What is a tide pool?\"\n";
}

std::string help_text(const Command& command, const Inks& inks) {
  Options options;
  command.declare(options);
  CommonFlags common;
  common.declare(options);
  std::string out = fmt::format("{}\n\n{}", command.summary, usage_line(command, options));
  for (const Options::Item& item : options.items())
    if (!item.is_flag()) out += (out.ends_with("[flags]\n") ? "\n" : "") + entry(label_of(item), item.help);
  for (const std::string& heading : headings(options)) {
    out += "\n" + inks(Ink::heading, fmt::format("{}:", heading.empty() ? "Flags" : heading)) + "\n";
    for (const Options::Item& item : options.items())
      if (item.is_flag() && item.group == heading) out += entry(label_of(item), item.help);
  }
  return out + "\n" + inks(Ink::heading, "Examples:") + "\n" + std::string(command.examples) + "\n";
}

extern const Command kHelp{
    "help", "List all verbs, or show what one of them takes", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("VERB", args->verb, "the verb; without it, all of them in a list", false);
      return [args](const Common& common) { return print_help(*args, common); };
    }};

}  // namespace anemone::cli
