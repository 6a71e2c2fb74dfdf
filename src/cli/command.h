// Command: one verb of the command line: what it takes, what it does, two examples. One file a verb in this
// folder.
//     const Command kInspect{"inspect", "Show what is inside a package", kExamples, [](Options& o) {
//       auto args = std::make_shared<Args>();
//       o.positional("PACKAGE", args->path, "an .mlpackage, .mlmodelc or .mlmodel");
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

namespace anemone::cli {

// Flags that every verb takes.
struct Common {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  int threads = 0;
};

// What a verb takes. The targets must outlive parsing.
class Options {
 public:
  struct Item {
    enum class Kind { positional, flag, text, integer, real, texts } kind;
    std::string name;   // "PACKAGE" or "--function" or "-o,--output"
    std::string value;  // what stands for the value in --help: "NAME"
    std::string help;
    void* target;
    bool required;
    std::vector<std::string> choices;
  };

  void positional(std::string name, std::string& target, std::string help, bool required = true);
  void positionals(std::string name, std::vector<std::string>& target, std::string help,
                   bool required = true);
  void flag(std::string name, bool& target, std::string help);
  void text(std::string name, std::string value, std::string& target, std::string help,
            std::vector<std::string> choices = {});
  void required_text(std::string name, std::string value, std::string& target, std::string help);
  void integer(std::string name, std::string value, int64_t& target, std::string help);
  void real(std::string name, std::string value, double& target, std::string help);
  // May be given several times.
  void texts(std::string name, std::string value, std::vector<std::string>& target, std::string help);

  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

using Action = std::function<int(const Common&)>;

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  // two real ones, a line each
  std::function<Action(Options&)> declare;
};

// The verbs, in the order of --help.
const std::vector<const Command*>& commands();

// Parses the command line, runs the verb, prints what an Error says; the exit code.
int run(int argc, const char* const* argv);

// A script that completes verbs and flags in bash or zsh.
std::string completion(std::string_view shell);

}  // namespace anemone::cli
