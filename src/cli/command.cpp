#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>

#include "anemone/error.h"
#include "check/wrap.h"
#include "cli/usage.h"
#include "cli/version.h"

namespace anemone::cli {

using Kind = Options::Item::Kind;

void Options::positional(std::string name, std::string& target, std::string help, bool required) {
  items_.push_back({Kind::positional, std::move(name), "", std::move(help), &target, required, {}});
}
void Options::positionals(std::string name, std::vector<std::string>& target, std::string help,
                          bool required) {
  items_.push_back({Kind::texts, std::move(name), "", std::move(help), &target, required, {}});
}
void Options::flag(std::string name, bool& target, std::string help) {
  items_.push_back({Kind::flag, std::move(name), "", std::move(help), &target, false, {}});
}
void Options::text(std::string name, std::string value, std::string& target, std::string help,
                   std::vector<std::string> choices) {
  items_.push_back(
      {Kind::text, std::move(name), std::move(value), std::move(help), &target, false, std::move(choices)});
}
void Options::required_text(std::string name, std::string value, std::string& target, std::string help) {
  items_.push_back({Kind::text, std::move(name), std::move(value), std::move(help), &target, true, {}});
}
void Options::integer(std::string name, std::string value, int64_t& target, std::string help) {
  items_.push_back({Kind::integer, std::move(name), std::move(value), std::move(help), &target, false, {}});
}
void Options::real(std::string name, std::string value, double& target, std::string help) {
  items_.push_back({Kind::real, std::move(name), std::move(value), std::move(help), &target, false, {}});
}
void Options::texts(std::string name, std::string value, std::vector<std::string>& target, std::string help) {
  items_.push_back({Kind::texts, std::move(name), std::move(value), std::move(help), &target, false, {}});
}

namespace {

constexpr size_t kHelpColumns = 100;

void add(CLI::App& app, const Options::Item& item) {
  CLI::Option* option = nullptr;
  switch (item.kind) {
    case Kind::positional:
    case Kind::text:
      option = app.add_option(item.name, *static_cast<std::string*>(item.target), item.help);
      break;
    case Kind::flag: option = app.add_flag(item.name, *static_cast<bool*>(item.target), item.help); break;
    case Kind::integer:
      option = app.add_option(item.name, *static_cast<int64_t*>(item.target), item.help);
      option->check(CLI::Validator(
          [](const std::string& text) {
            errno = 0;
            std::strtoll(text.c_str(), nullptr, 0);
            return errno == ERANGE ? "the number is too large: " + text : std::string();
          },
          ""));
      break;
    case Kind::real: option = app.add_option(item.name, *static_cast<double*>(item.target), item.help); break;
    case Kind::texts: {
      auto* target = static_cast<std::vector<std::string>*>(item.target);
      option = app.add_option(item.name, *target, item.help);
      // A flag takes one value each time it is given, so that what follows it is not swallowed.
      if (item.name.starts_with("-")) option->allow_extra_args(false)->expected(1)->take_all();
      break;
    }
  }
  if (item.kind == Kind::positional || !item.name.starts_with("-")) option->type_name("");
  // What the help shows: the value's name, without the choices or the range that CLI11 would add.
  if (!item.value.empty())
    option->type_name(item.value)->option_text(item.value + (item.required ? " REQUIRED" : ""));
  if (item.required) option->required();
  if (!item.choices.empty()) option->check(CLI::IsMember(item.choices));
}

// --help without CLI11's decorations: what it does, how it is called, what it takes, examples; in lines of at most
// 100 columns, counted as characters and not as bytes.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string value = make_option_opts(option);
    if (positional) value.erase(std::min(value.find(" :{"), value.size()));  // choices stand in the text
    return entry("  " + make_option_name(option, positional) + value, make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return entry("  " + verb->get_display_name(true), verb->get_description());
  }
  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : "Examples:\n" + footer + "\n";
  }

 private:
  std::string entry(std::string label, const std::string& text) const {
    const size_t taken = columns(label), column = get_column_width();
    if (taken + 2 > column) return label + "\n" + wrap(std::string(column, ' '), text, kHelpColumns);
    label.append(column - taken, ' ');
    return wrap(label, text, kHelpColumns);
  }
};

void add_common(CLI::App& app, Common& common) {
  app.add_flag("--json", common.json, "answer in JSON, for programs");
  app.add_flag("--quiet", common.quiet, "no notes and no progress");
  app.add_flag("--verbose", common.verbose, "more detail");
  app.add_option("--threads", common.threads, "threads to use; one per core by default")
      ->type_name("N")
      ->option_text("N")
      ->check(CLI::Range(1, 1024));
}

}  // namespace

int run(int argc, const char* const* argv) {
  Common common;
  CLI::App app("anemone: language models on the Apple Neural Engine, without a Mac and without Python.",
               "anemone");
  app.formatter(std::make_shared<Help>());
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", std::string("anemone ") + kVersion, "print the version");
  app.set_help_flag("-h,--help", "print this help; every verb has its own");
  app.require_subcommand(1);
  app.footer(
      "  anemone convert SmolLM2-135M-Instruct.Q8_0.gguf -o smollm2\n"
      "  anemone run smollm2 \"What is a tide pool?\"");
  std::vector<std::unique_ptr<Options>> held;
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command* command : commands()) {
    CLI::App* sub = app.add_subcommand(std::string(command->name), std::string(command->summary));
    sub->footer(std::string(command->examples));
    held.push_back(std::make_unique<Options>());
    actions.push_back({sub, command->declare(*held.back())});
    for (const Options::Item& item : held.back()->items()) add(*sub, item);
    add_common(*sub, common);
  }
  // CLI11 would say that a subcommand is missing.
  const auto is_first = [&](const Command* command) { return command->name == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(commands().begin(), commands().end(), is_first)) {
    std::vector<std::string> names;
    for (const Command* command : commands()) names.emplace_back(command->name);
    const std::string meant = nearest_name(argv[1], names);
    std::fprintf(
        stderr, "error: there is no verb '%s'; %s\n", argv[1],
        meant.empty() ? "'anemone --help' shows what there is" : ("did you mean '" + meant + "'?").c_str());
    return 2;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    std::fprintf(stderr, "error: %s\n", usage_error(app, e).c_str());
    return 2;
  }
  try {
    for (const auto& [sub, action] : actions)
      if (sub->parsed()) return action(common);
  } catch (const Error& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", e.what());
    if (common.verbose)
      std::fprintf(stderr, "  what: %s\n  where: %s\n  found: %s\n  expected: %s\n  hint: %s\n",
                   e.message().c_str(), e.where().c_str(), e.found().c_str(), e.expected().c_str(),
                   e.hint().c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: not enough memory\n");
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  }
  return 2;
}

}  // namespace anemone::cli
