#include "cli/command.h"

namespace anemone::cli {

extern const Command kFetch, kPlan, kConvert, kCompress, kCheck, kDoctor, kVerify, kGolden, kPerplexity,
    kLogits, kBench, kWarm, kRun, kChat, kServe, kTranslate, kEmbed, kClassify, kRedact, kTokenize, kTemplate,
    kInspect, kPredict, kCompletion, kHelp;

const std::vector<CommandGroup>& command_groups() {
  static const std::vector<CommandGroup> all = {
      {"Make", {&kFetch, &kPlan, &kConvert, &kCompress}},
      {"Judge", {&kCheck, &kVerify, &kPerplexity, &kGolden, &kLogits, &kBench, &kDoctor}},
      {"Use", {&kWarm, &kRun, &kChat, &kServe, &kTranslate, &kEmbed, &kClassify, &kRedact}},
      {"Look inside", {&kInspect, &kPredict, &kTokenize, &kTemplate}},
      {"About the command", {&kHelp, &kCompletion}}};
  return all;
}

std::vector<const Command*> commands() {
  std::vector<const Command*> out;
  for (const CommandGroup& group : command_groups())
    out.insert(out.end(), group.commands.begin(), group.commands.end());
  return out;
}

const Command* find_command(std::string_view name) {
  for (const Command* command : commands())
    if (command->name == name) return command;
  return nullptr;
}

}  // namespace anemone::cli
