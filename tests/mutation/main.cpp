// mutation_tests: makes faulty bundles and counts how many of them verify finds.
//     mutation_tests --sample 300 --seed 1                                  small bundles of all kinds
//     mutation_tests --all --family llama-tiny --storage int8 --operator wiring
//     mutation_tests --sample 300 --bundle smollm2 --source SmolLM2.gguf
//     mutation_tests --clean 200                                            made-up models as they are
#define DOCTEST_CONFIG_IMPLEMENT  // the support library was written for its tests
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "base/error.h"
#include "mutation/campaign.h"
#include "mutation/self_check.h"

using namespace anemone;
using namespace anemone::mutation;

namespace {

struct Args {
  CampaignOptions campaign;
  fs::path json;
  double least_score = 0, least_named = 0;
  int64_t most_clean_failures = 0;
  bool verbose = false, clean_bar = false, self_check = false;
};

constexpr const char* kUsage =
    "usage: mutation_tests [--sample N | --all] [--clean N] [--clean-given N] [--seed S] [--subjects N] "
    "[--family NAME] [--form NAME]\n"
    "  [--storage NAME] [--operator GROUP[: KIND]] [--without GROUP] [--bundle DIR --source MODEL]\n"
    "  [--jobs N] [--limit SECONDS]\n"
    "  [--list] [--json FILE] [--verbose] [--accepted FILE] [--least-score X] [--least-named X]\n"
    "  [--most-clean-failures N] [--self-check]\n";

Args parse(int argc, char** argv) {
  Args a;
  CampaignOptions& c = a.campaign;
  const std::map<std::string, std::function<void(const std::string&)>> values = {
      {"--sample", [&](const std::string& v) { c.sample = std::stoull(v); }},
      {"--seed", [&](const std::string& v) { c.seed = std::stoull(v); }},
      {"--subjects", [&](const std::string& v) { c.subjects = std::stoull(v); }},
      {"--clean", [&](const std::string& v) { c.clean = std::stoull(v); }},
      {"--clean-given", [&](const std::string& v) { c.clean_given = std::stoull(v); }},
      {"--family", [&](const std::string& v) { c.filter.family = v; }},
      {"--form", [&](const std::string& v) { c.filter.form = v; }},
      {"--storage", [&](const std::string& v) { c.filter.storage = v; }},
      {"--operator", [&](const std::string& v) { c.which = v; }},
      {"--without", [&](const std::string& v) { c.without = v; }},
      {"--bundle", [&](const std::string& v) { c.bundle = v; }},
      {"--source", [&](const std::string& v) { c.source = v; }},
      {"--jobs", [&](const std::string& v) { c.jobs = std::stoi(v); }},
      {"--limit", [&](const std::string& v) { c.limit_seconds = std::stod(v); }},
      {"--accepted", [&](const std::string& v) { c.accepted = v; }},
      {"--json", [&](const std::string& v) { a.json = v; }},
      {"--least-score", [&](const std::string& v) { a.least_score = std::stod(v); }},
      {"--least-named", [&](const std::string& v) { a.least_named = std::stod(v); }},
      {"--most-clean-failures",
       [&](const std::string& v) {
         a.most_clean_failures = std::stoll(v);
         a.clean_bar = true;
       }},
  };
  const std::map<std::string, std::function<void()>> flags = {{"--all", [&] { c.all = true; }},
                                                              {"--list", [&] { c.list = true; }},
                                                              {"--verbose", [&] { a.verbose = true; }},
                                                              {"--self-check", [&] { a.self_check = true; }}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (const auto flag = flags.find(name); flag != flags.end()) {
      flag->second();
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end() || i + 1 == argc)
      throw errorf("unknown flag, or one without its value").found(name).hint(kUsage);
    try {
      value->second(argv[++i]);
    } catch (const std::logic_error&) {
      throw errorf("{} takes a number", name).found(argv[i]);
    }
  }
  if (c.bundle.empty() != c.source.empty()) throw errorf("--bundle and --source go together");
  if (!c.sample && !c.all && !c.clean && !c.clean_given && !c.list && !a.self_check)
    throw errorf("nothing to do").hint(kUsage);
  return a;
}

int check_harness() {
  const TempFolder folder;
  const std::vector<std::string> faults = self_check(folder.path());
  for (const std::string& fault : faults) fmt::print("FAILED: the harness: {}\n", fault);
  if (faults.empty()) fmt::print("the harness sees what it should\n");
  return faults.empty() ? 0 : 1;
}

int run(const Args& a) {
  if (a.self_check) return check_harness();
  Campaign campaign(a.campaign);
  const Report report = campaign.run();
  fmt::print("{}", report.text(a.verbose));
  if (!a.json.empty()) std::ofstream(a.json) << report.json().dump(1) << "\n";
  const Tally& total = report.total();
  int bad = 0;
  const auto fail = [&](const std::string& why) {
    fmt::print("FAILED: {}\n", why);
    bad = 1;
  };
  if (total.crashed) fail(fmt::format("verify crashed on {} mutants", total.crashed));
  if (total.score() < a.least_score)
    fail(fmt::format("the score is {:.2f}%, below {:.2f}%", 100 * total.score(), 100 * a.least_score));
  if (total.named_part() < a.least_named)
    fail(
        fmt::format("{:.2f}% are named right, below {:.2f}%", 100 * total.named_part(), 100 * a.least_named));
  if (a.clean_bar && report.clean_failures() > a.most_clean_failures)
    fail(fmt::format("{} clean bundles fail, more than {}", report.clean_failures(), a.most_clean_failures));
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
