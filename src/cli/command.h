// Command: one verb of the command line: what it takes, what it does, two examples. One file a verb in this
// folder.
//     const Command kInspect{"inspect", "Show what is inside a package", kExamples, [](Options& o) {
//       auto args = std::make_shared<Args>();
//       o.positional("PACKAGE", args->path, "an .mlpackage, .mlmodelc or .mlmodel").takes(kPackage);
//       return [args](const Common& common) { return inspect(*args, common); };
//     }};
// A verb returns 0 (done) or 1 (it ran and the answer is no); an Error that leaves it is printed and
// becomes 2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/download.h"
#include "cli/ink.h"
#include "cli/options.h"

namespace anemone::cli {

// Flags that every verb takes.
struct Common {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  int threads = 0;
  Inks out, err;  // of standard output and of the stream for notes and errors
};

using Action = std::function<int(const Common&)>;

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  // two real ones, a line each
  std::function<Action(Options&)> declare;
};

// Verbs with one purpose.
struct CommandGroup {
  std::string_view heading;
  std::vector<const Command*> commands;
};

// The verbs, in the order of --help.
const std::vector<CommandGroup>& command_groups();
std::vector<const Command*> commands();
const Command* find_command(std::string_view name);

// The flags of Common, as every verb has them.
struct CommonFlags {
  Common common;
  DownloadFlags download;  // of verbs that take a model
  std::string color = "auto";
  int64_t threads = kNotSaid;

  void declare(Options& o);
  // What they say together. Error for a number of threads that this machine cannot use.
  Common chosen() const;
};

// Reads the command line, runs the verb, prints what an Error says; the exit code.
int run(int argc, const char* const* argv);

// "note: text" on stderr; nothing with --quiet.
void note(const Common& common, std::string_view text);

}  // namespace anemone::cli
