#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/paths.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/source.h"
#include "cli/usage.h"
#include "cli/version.h"

namespace anemone::cli {
namespace {

using Item = Options::Item;

int fail(const std::string& line, const Inks& inks, size_t advice = 0) {
  std::fflush(stdout);
  const std::string said = line.substr(0, line.size() - advice);
  fmt::print(stderr, "{} {}{}\n", inks(Ink::bad, "error:"), said,
             inks(Ink::advice, line.substr(said.size())));
  return 2;
}

// The advice stands at the end of an error's line, and is colored as such.
int fail(const Error& e, const Common& common) {
  fail(e.what(), common.err, e.hint().size());
  if (common.verbose)
    fmt::print(stderr, "  what: {}\n  where: {}\n  found: {}\n  expected: {}\n  hint: {}\n", e.message(),
               e.where(), e.found(), e.expected(), e.hint());
  return 2;
}

void check_input(std::string_view verb, const Item& item, const std::string& path, bool& stdin_used) {
  if (path != "-") return item.sources ? expect_source(verb, path, item.sources) : expect_path(path);
  if (!item.stream) throw errorf("{} takes a file: it cannot be read from standard input", item.main_name());
  if (std::exchange(stdin_used, true))
    throw errorf("standard input can be read once, and two files are to come from it").found("- twice");
}

void check_output_place(const Item& item, const std::string& path) {
  if (path == "-")
    throw errorf("{} takes the name of a file: standard output is for the answer", item.main_name());
  std::error_code ignored;
  std::filesystem::path named = std::filesystem::absolute(path, ignored).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "bundle/" is "bundle"
  const std::filesystem::path folder = named.parent_path();
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error("cannot be written: its folder does not exist").at(path);
}

// Before anything is read or written: inputs are there and of a kind that the verb takes, and no output would change
// one of them.
void check_paths(std::string_view verb, const Options& options, bool json) {
  std::vector<std::string> inputs, outputs;
  bool stdin_used = false;
  for (const Item& item : options.items())
    for (const std::string& path :
         item.path == Item::Path::input ? item.values() : std::vector<std::string>{}) {
      // Elsewhere --json takes the name of a file, and here what follows it is an input.
      if (json && path.ends_with(".json") && options.find_flag("--json=") && !std::filesystem::exists(path))
        throw missing_path(path).hint(fmt::format("--json={} writes the report there", path));
      check_input(verb, item, path, stdin_used);
      if (path != "-") inputs.push_back(path);
    }
  for (const Item& item : options.items())
    for (const std::string& path :
         item.path == Item::Path::output ? item.values() : std::vector<std::string>{}) {
      check_output_place(item, path);
      for (const std::string& input : inputs) expect_apart(input, path);
      for (const std::string& other : outputs)
        if (std::filesystem::weakly_canonical(path) == std::filesystem::weakly_canonical(other))
          throw errorf("two outputs have the same name").at(path).hint("give each its own");
      outputs.push_back(path);
    }
}

int run_verb(const Command& command, std::span<const std::string> arguments) {
  Common common;
  common.out = choose_inks("auto", STDOUT_FILENO);
  common.err = choose_inks("auto", STDERR_FILENO);
  try {
    if (asks_for_help(arguments)) {
      fmt::print("{}", help_text(command, common.out));
      return 0;
    }
    Options options;
    CommonFlags flags;
    const Action action = command.declare(options);
    flags.declare(options);
    parse_arguments(command.name, options, arguments);
    common = flags.chosen();
    flags.download.resolve_names(command.name, options, common);
    check_paths(command.name, options, common.json);
    return action(common);
  } catch (const OutputError&) {
    throw;  // run() says it, once
  } catch (const Error& e) {
    return fail(e, common);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", common.err);
  } catch (const std::system_error& e) {
    if (output_failed()) throw;  // fmt could not print
    return fail(e.what(), common.err);
  } catch (const std::exception& e) {
    return fail(e.what(), common.err);
  }
}

int run_line(const std::vector<std::string>& arguments) {
  const Inks err = choose_inks("auto", STDERR_FILENO);
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (first == "--version") {
    fmt::print("anemone {}\n", kVersion);
    return 0;
  }
  if (first == "-h" || first == "--help") {
    fmt::print("{}", help_text(choose_inks("auto", STDOUT_FILENO)));
    return 0;
  }
  if (const Command* command = find_command(first))
    return run_verb(*command, std::span(arguments).subspan(1));
  if (arguments.empty()) {  // a newcomer's first call: the help, and still no success
    fmt::print(stderr, "{}", help_text(err));
    return 2;
  }
  return fail(first.starts_with('-') ? flag_before_verb(arguments) : unknown_verb(first), {.err = err});
}

}  // namespace

void CommonFlags::declare(Options& o) {
  download.declare(o);
  o.group("Common");
  o.flag("--json", common.json, "answer in JSON, for programs");
  o.flag("--quiet", common.quiet, "no notes and no progress; reports print only their result");
  o.flag("--verbose", common.verbose, "more detail");
  o.integer("--threads", "N", threads, "threads to use; one per core by default").also("-t");
  o.text("--color", "WHEN", color, "auto (on terminals, unless NO_COLOR is set; default), always or never")
      .one_of({"auto", "always", "never"})
      .or_alone("always")
      .also("--colour");
}

Common CommonFlags::chosen() const {
  Common out = common;
  // More threads than that only wait for each other, for minutes.
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency()),
                most = std::max<int64_t>(16, 4 * cores);
  if (threads != kNotSaid && (threads < 1 || threads > most))
    throw errorf("--threads takes 1 to {} on this machine of {} core{}", most, cores, cores == 1 ? "" : "s")
        .found(fmt::format("{}", threads))
        .hint("leave it out for one per core");
  out.threads = threads == kNotSaid ? 0 : static_cast<int>(threads);
  out.out = choose_inks(color, STDOUT_FILENO);
  out.err = choose_inks(color, STDERR_FILENO);
  return out;
}

int run(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  try {
    const int status = run_line(arguments);
    flush_output();
    return status;
  } catch (const OutputError& e) {
    if (e.broken_pipe()) return kBrokenPipeStatus;
    return fail(e, {.err = choose_inks("auto", STDERR_FILENO)});
  } catch (const std::system_error& e) {
    if (e.code().value() == EPIPE) return kBrokenPipeStatus;
    return fail(OutputError(e.code().value()), {.err = choose_inks("auto", STDERR_FILENO)});
  }
}

void note(const Common& common, std::string_view text) {
  if (!common.quiet) fmt::print(stderr, "{} {}\n", common.err(Ink::doubtful, "note:"), text);
}

}  // namespace anemone::cli
