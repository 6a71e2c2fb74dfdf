#include "cli/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

namespace anemone::cli {
namespace {

// Letters to insert, delete or change.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

std::string help_hint(const CLI::App& verb) {
  return fmt::format("'anemone {} --help' shows what there is", verb.get_name());
}

std::string unknown_argument(const CLI::App& verb, const std::string& given) {
  if (!given.starts_with("-"))
    return fmt::format("'{}' is one argument too many; {}", given, help_hint(verb));
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string flag = given.substr(0, given.find('='));
  const std::string meant = nearest_name(flag, names);
  return fmt::format("there is no flag '{}'; {}", flag,
                     meant.empty() ? help_hint(verb) : fmt::format("did you mean '{}'?", meant));
}

// CLI11's own message put plainly. It is all that an exception of its carries.
std::string plain(const CLI::ParseError& error) {
  const std::string said = error.what();
  const std::string name = said.substr(0, said.find(':'));
  if (said.find(": At Most 1 required but received") != std::string::npos)
    return fmt::format("{} is given more than once", name);
  if (const size_t at = said.find(": 1 required "); at != std::string::npos && said.ends_with(" missing")) {
    const std::string value = said.substr(at + 13, said.size() - at - 13 - 8);
    return fmt::format("{} takes a value: {}", name,
                       value.substr(0, value.find(":INT in ")));  // without CLI11's range
  }
  constexpr std::string_view kConvert = "Could not convert: ";
  if (const size_t equals = said.find(" = "); said.starts_with(kConvert) && equals != std::string::npos)
    return fmt::format("{} takes a number; found '{}'",
                       said.substr(kConvert.size(), equals - kConvert.size()), said.substr(equals + 3));
  if (const size_t at = said.find(" not in {"); at != std::string::npos && said.ends_with("}")) {
    std::string choices = said.substr(at + 9, said.size() - at - 10);
    for (size_t comma = 0; (comma = choices.find(',', comma)) != std::string::npos; comma += 2)
      choices.replace(comma, 1, ", ");
    return fmt::format("{} takes one of {}; found '{}'", name, choices,
                       said.substr(name.size() + 2, at - name.size() - 2));
  }
  if (const size_t at = said.find(" not in range "), value = said.find(": Value ");
      at != std::string::npos && value != std::string::npos)
    return fmt::format("{} takes {}; found {}", name, said.substr(at + 14),
                       said.substr(value + 8, at - value - 8));
  if (said.starts_with("A subcommand is required")) return "a verb is missing";
  return said.substr(0, said.find_last_not_of('\n') + 1);
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& names) {
  const auto closer = [&](const std::string& a, const std::string& b) {
    return distance(given, a) < distance(given, b);
  };
  const auto best = std::min_element(names.begin(), names.end(), closer);
  return best != names.end() && distance(given, *best) * 3 <= best->size() ? *best : "";
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> verbs =
      app.get_subcommands([](const CLI::App* verb) { return verb->parsed(); });
  if (verbs.empty()) return plain(error) + "; 'anemone --help' shows what there is";
  const CLI::App& verb = *verbs.front();
  // A misspelt flag may be why something else is missing.
  const std::vector<std::string> left = verb.remaining();
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) ||
                       (dynamic_cast<const CLI::RequiredError*>(&error) && !left.empty());
  if (unknown && !left.empty()) return unknown_argument(verb, left.front());
  return fmt::format("{}; {}", plain(error), help_hint(verb));
}

}  // namespace anemone::cli
