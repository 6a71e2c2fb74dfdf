#include "cli/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "cli/usage.h"

namespace anemone::cli {
namespace {

using Item = Options::Item;
using Kind = Item::Kind;

// "-o", "--output", "--output=x": a dash or two and a name.
bool looks_like_flag(std::string_view text) {
  text = text.substr(0, text.find('='));
  const size_t dashes = text.starts_with("--") ? 2 : text.starts_with('-') ? 1 : 0;
  if (dashes == 0 || text.size() == dashes) return false;
  if (!std::isalpha(static_cast<unsigned char>(text[dashes]))) return false;
  return std::all_of(text.begin() + static_cast<ptrdiff_t>(dashes), text.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_number(const std::string& text) {
  char* stop = nullptr;
  std::strtod(text.c_str(), &stop);
  return !text.empty() && *stop == '\0';
}

void set_integer(const Item& item, const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [stop, problem] = std::from_chars(begin, end, value);
  if (problem == std::errc::result_out_of_range)
    throw errorf("{} takes no number as large as that", item.main_name()).found(text);
  if (problem != std::errc() || stop != end)
    throw errorf("{} takes a whole number", item.main_name()).found("'" + text + "'");
  *static_cast<int64_t*>(item.target) = value;
}

void set_real(const Item& item, const std::string& text) {
  char* stop = nullptr;
  const double value = std::strtod(text.c_str(), &stop);
  if (text.empty() || *stop != '\0')
    throw errorf("{} takes a number", item.main_name()).found("'" + text + "'");
  *static_cast<double*>(item.target) = value;
}

void check_choice(const Item& item, const std::string& text) {
  if (item.choices.empty() || std::count(item.choices.begin(), item.choices.end(), text)) return;
  std::string all;
  for (const std::string& choice : item.choices) all += (all.empty() ? "" : ", ") + choice;
  throw errorf("{} takes one of {}", item.main_name(), all).found("'" + text + "'");
}

void set(const Item& item, const std::string& text) {
  check_choice(item, text);
  switch (item.kind) {
    case Kind::flag: *static_cast<bool*>(item.target) = true; break;
    case Kind::positional:
    case Kind::text: *static_cast<std::string*>(item.target) = text; break;
    case Kind::positionals:
    case Kind::texts: static_cast<std::vector<std::string>*>(item.target)->push_back(text); break;
    case Kind::integer: set_integer(item, text); break;
    case Kind::real: set_real(item, text); break;
  }
}

class Parser {
 public:
  Parser(std::string_view verb, const Options& options, std::span<const std::string> arguments)
      : verb_(verb), options_(options), arguments_(arguments) {}

  void run() {
    bool flags_ended = false;
    while (at_ < arguments_.size()) {
      const std::string& argument = arguments_[at_++];
      if (!flags_ended && argument == "--")
        flags_ended = true;
      else if (!flags_ended && looks_like_flag(argument))
        take_flag(argument);
      else
        take_argument(argument);
    }
    for (const Item& item : options_.items())
      if (item.required && !given_.contains(&item))
        throw errorf("{} is missing", item.main_name()).hint(help_hint(verb_));
  }

 private:
  bool several(const Item& item) const { return item.kind == Kind::positionals || item.kind == Kind::texts; }

  void give(const Item& item, const std::string& text) {
    if (!given_.insert(&item).second && !several(item))
      throw errorf("{} is given more than once", item.main_name());
    set(item, text);
  }

  void take_flag(const std::string& argument) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    // "--json=FILE" may be another flag than "--json".
    const Item* with_value = options_.find_flag(name + "=");
    if (with_value && equals == std::string::npos && !value_follows(*with_value)) with_value = nullptr;
    if (const Item* item = with_value ? with_value : options_.find_flag(name)) {
      if (!item->takes_value()) {
        if (equals != std::string::npos) throw errorf("{} takes no value", name).found(argument);
        give(*item, "");
      } else if (equals == std::string::npos && stands_alone(*item)) {
        give(*item, item->implied);
      } else {
        give(*item, equals != std::string::npos ? argument.substr(equals + 1) : next_value(*item, name));
      }
      return;
    }
    // "-n20". Only a number is read so: "-fa" and "-st" are flags of other programs, not values of -f and -s.
    const Item* item = name.starts_with("--") ? nullptr : options_.find_flag(name.substr(0, 2));
    if (!item || !item->takes_value() || !is_number(argument.substr(2)))
      throw unknown_flag(verb_, options_, name);
    give(*item, argument.substr(2));
  }

  bool value_follows(const Item& item) const {
    return item.is_value && at_ < arguments_.size() && item.is_value(arguments_[at_]);
  }

  // A flag that has a value to stand alone with, where another flag follows or nothing.
  bool stands_alone(const Item& item) const {
    return !item.implied.empty() && (at_ == arguments_.size() || looks_like_flag(arguments_[at_]));
  }

  // What follows a flag is its value, unless it is a flag itself: then the value was forgotten.
  std::string next_value(const Item& item, const std::string& name) {
    if (at_ == arguments_.size())
      throw errorf("{} takes a value: {}", name, item.value).hint(help_hint(verb_));
    const std::string& value = arguments_[at_++];
    if (value.starts_with("--") && options_.find_flag(value.substr(0, value.find('='))))
      throw errorf("{} takes a value: {}", name, item.value)
          .found("the flag " + value)
          .hint(fmt::format("{}={} where that is the value", name, value));
    return value;
  }

  void take_argument(const std::string& argument) {
    for (const Item& item : options_.items()) {
      if (item.is_flag() || (given_.contains(&item) && !several(item))) continue;
      return give(item, argument);
    }
    throw errorf("'{}' is one argument too many", argument)
        .hint("a text with spaces stands in quotes; " + help_hint(verb_));
  }

  std::string_view verb_;
  const Options& options_;
  std::span<const std::string> arguments_;
  size_t at_ = 0;
  std::set<const Item*> given_;
};

}  // namespace

void parse_arguments(std::string_view verb, const Options& options, std::span<const std::string> arguments) {
  Parser(verb, options, arguments).run();
}

bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "-h" || a == "--help"; });
}

}  // namespace anemone::cli
