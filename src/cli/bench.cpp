// `anemone bench`: how fast a bundle is on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/parse.h"
#include "cli/source.h"
#include "measure/bench.h"
#include "page/page.h"
#include "target/chips.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, fills, power, chip, html;
  int64_t tokens = 32;
  BackendFlags backend;
};

std::vector<int64_t> fills_of(const std::string& text) {
  std::vector<int64_t> out;
  size_t begin = 0;
  while (!text.empty() && begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string one = text.substr(begin, end - begin);
    if (one.empty() || one.size() > 9 || one.find_first_not_of("0123456789") != std::string::npos)
      throw errorf("--fill takes numbers of tokens, separated by commas").found(text);
    out.push_back(std::stoll(one));
    begin = end + 1;
  }
  return out;
}

// What the system calls "Apple M4" is "m4" in the table. Empty for a chip that is not there: nothing is predicted then.
std::string chip_of(std::string name) {
  if (name.starts_with("Apple ")) name.erase(0, 6);
  try {
    find_target(name);
  } catch (const Error&) {
    return "";
  }
  return name;
}

int run_bench(const Args& args, const Common& common) {
  BenchOptions options;
  options.fills = fills_of(args.fills);
  options.tokens = args.tokens;
  options.chip = args.chip;
  if (options.chip.empty() && args.backend.core_ml()) options.chip = chip_of(core_ml_device().chip);
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO))
    options.progress = [](const std::string& what) {
      fmt::print(stderr, "\r\x1b[K{} …", what);
      std::fflush(stderr);
      return true;
    };
  const BenchReport report = bench(args.bundle, [&] { return args.backend.open(common); }, options);
  if (options.progress) fmt::print(stderr, "\r\x1b[K");
  const std::vector<PowerUse> power =
      args.power.empty() ? std::vector<PowerUse>() : read_power(read_text(args.power));
  if (!args.power.empty() && power.empty())
    throw errorf("has no line like 'ANE Power: 812 mW'").at(args.power).hint("sudo powermetrics > FILE");
  if (!args.html.empty()) write_page(args.html, bench_page(report, power));
  fmt::print("{}", common.json ? bench_json(report, power) : bench_text(report, power));
  if (!args.html.empty() && !common.json && !common.quiet) fmt::print("  the page is {}\n", args.html);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone bench smollm2\n"
    "  anemone bench smollm2 --backend coreml --fill 16,1024 --tokens 64 --html bench.html";

}  // namespace

extern const Command kBench{
    "bench", "Measure a bundle on this machine: loading, prompts, tokens, stages", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote").takes(kBundle);
      o.text("--fill", "N,N", args->fills,
             "tokens in the context before the measured ones (16, a quarter, a half and most of it)");
      o.integer("--tokens", "N", args->tokens, "tokens to write at each fill (32)");
      o.text("--chip", "CHIP", args->chip,
             "whose prediction to show beside it (with Core ML: this machine's)");
      o.text("--powermetrics", "FILE", args->power,
             "what macOS's powermetrics printed meanwhile: energy of a token")
          .streams();
      o.text("--html", "FILE", args->html, "write a page with plots").writes();
      o.group("How it is computed");
      args->backend.declare(o);
      return [args](const Common& common) { return run_bench(*args, common); };
    }};

}  // namespace anemone::cli
