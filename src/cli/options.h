// Options: what a verb takes: arguments and flags, each with its place to go, its text in --help and what it may be.
//     o.positional("BUNDLE", args->bundle, "what convert wrote").takes(kBundle);
//     o.text("-o,--output", "FILE", args->output, "where to write .npy").writes().must();
//     o.group("Sampling");                                  // heads the flags that follow in --help
//     o.real("--temperature", "X", args->temperature, "0 takes the best token always").also("--temp");
// Nobody else in cli/ keeps a list of flags: parsing, --help, completion and the checks of paths read this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anemone::cli {

// A whole number that nobody gave.
inline constexpr int64_t kNotSaid = INT64_MIN;

class Options {
 public:
  struct Item {
    enum class Kind { positional, positionals, flag, text, integer, real, texts };
    // A verb's outputs lie neither in its inputs nor around them.
    enum class Path { none, input, output };

    Kind kind = Kind::flag;
    std::string name;   // "PACKAGE", or "--function", or "-o,--output"
    std::string value;  // what stands for the value in --help: "NAME"
    std::string help;
    void* target = nullptr;
    std::string group;                 // its heading in --help; empty: those that matter most
    std::vector<std::string> choices;  // empty: any value
    std::string aliases;               // names that work too and are not in --help: "-n,--n-predict"
    std::string implied;               // the value of a flag that stands alone; empty: it needs one
    bool (*is_value)(const std::string& word) = nullptr;
    bool required = false;
    Path path = Path::none;
    bool stream = false;   // an input that "-" may stand for, which is standard input
    unsigned sources = 0;  // kinds of model (source.h) that stand at the path; 0: any file

    Item& must();
    Item& one_of(std::vector<std::string> values);
    // "--json=" is the name of one that is only meant where a value is behind it: --json=FILE.
    Item& also(std::string names);
    // ... and also where a word like this stands behind the flag: --json FILE.
    Item& behind_if(bool (*is_value)(const std::string& word));
    // The flag may stand without a value, and then means this one.
    Item& or_alone(std::string value);
    Item& reads();
    // A file that is read from front to back: - is standard input.
    Item& streams();
    Item& writes();
    // A path that is read, and what may stand there: kBundle | kPackage.
    Item& takes(unsigned kinds);

    bool is_flag() const { return name.starts_with('-'); }
    bool takes_value() const { return kind != Kind::flag; }
    // "-o", "--output" and the aliases; those of --help alone without them.
    std::vector<std::string> flag_names(bool with_aliases) const;
    // "--output": the one for messages. Of an argument its name.
    std::string main_name() const;
    // The paths that were given.
    std::vector<std::string> values() const;
  };

  // The flags that follow stand under this heading.
  void group(std::string heading) { group_ = std::move(heading); }

  // Arguments are required unless said otherwise.
  Item& positional(std::string name, std::string& target, std::string help, bool required = true);
  Item& positionals(std::string name, std::vector<std::string>& target, std::string help,
                    bool required = true);
  Item& flag(std::string name, bool& target, std::string help);
  Item& text(std::string name, std::string value, std::string& target, std::string help);
  Item& integer(std::string name, std::string value, int64_t& target, std::string help);
  Item& real(std::string name, std::string value, double& target, std::string help);
  // May be given several times.
  Item& texts(std::string name, std::string value, std::vector<std::string>& target, std::string help);

  const std::vector<Item>& items() const { return items_; }
  // The flag of that name or alias; nullptr when there is none.
  const Item* find_flag(const std::string& name) const;

 private:
  Item& add(Item::Kind kind, std::string name, std::string value, std::string help, void* target);

  std::vector<Item> items_;
  std::string group_;
};

}  // namespace anemone::cli
