#include "mutation/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "mutation/made_model.h"
#include "mutation/workers.h"

namespace anemone::mutation {
namespace {

constexpr size_t kMutantsPerSubject = 20, kMostSubjects = 200;

bool chosen(const std::string& which, const Mutation& m) {
  return which.empty() || (m.group + ": " + m.kind).find(which) != std::string::npos;
}

bool group_chosen(const std::string& which, std::string_view group) {
  const size_t cut = which.find(':');
  return which.empty() || cut == std::string::npos || which.substr(0, cut) == group;
}

}  // namespace

Report Campaign::run() {
  if (options_.jobs == 0) options_.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  Report report(options_.accepted.empty() ? std::vector<Accepted>() : read_accepted(options_.accepted));
  if (options_.sample || options_.all || options_.list) {
    make_subjects();
    if (!options_.list) verify_clean(report);
    choose();
    if (options_.list)
      for (const Job& job : jobs_)
        fmt::print("{} | {}: {} | {}\n", subjects_[job.subject].name(), job.mutation.group, job.mutation.kind,
                   job.mutation.place);
    else
      judge(report);
  }
  verify_plans(made_up_plans(), report);
  verify_plans(given_plans(), report);
  return report;
}

void Campaign::make_subjects() {
  if (!options_.bundle.empty()) {
    subjects_.push_back(open_subject(options_.bundle.filename().string(), "given", "given", options_.bundle,
                                     options_.source));
    return;
  }
  const size_t by_sample = options_.all ? kMostSubjects : options_.sample / kMutantsPerSubject;
  const size_t wanted =
      options_.subjects ? options_.subjects : std::clamp<size_t>(by_sample, 4, kMostSubjects);
  size_t number = 0;
  for (const SubjectPlan& plan : plan_subjects(2 * wanted, options_.seed, options_.filter)) {
    if (subjects_.size() == wanted) break;
    const fs::path folder = folder_ / ("subject_" + std::to_string(number++));
    fs::create_directories(folder);
    try {
      if (auto subject = make_subject(plan, folder)) subjects_.push_back(std::move(*subject));
    } catch (Error& e) {
      e.within(plan.name());
      throw;
    }
  }
}

// A bundle that fails as it is says nothing about its mutants.
void Campaign::verify_clean(Report& report) {
  std::vector<std::string> problems(subjects_.size());
  run_jobs(
      subjects_.size(), options_.jobs, options_.limit_seconds, folder_.path(),
      [&](size_t job, const JobPlace&) { return Judge::judge_clean(subjects_[job]); },
      [&](size_t job, const std::string& answer, const std::string& failure) {
        problems[job] = failure.empty() ? answer : failure;
      });
  std::vector<Subject> passing;
  for (size_t i = 0; i < subjects_.size(); ++i) {
    report.add_clean(subjects_[i].name(), problems[i]);
    if (problems[i].empty()) passing.push_back(std::move(subjects_[i]));
  }
  subjects_ = std::move(passing);
}

std::vector<SubjectPlan> Campaign::made_up_plans() const {
  std::vector<SubjectPlan> plans;
  const std::vector<std::string> families = made_families();
  const std::vector<Storage> storages = all_storages();
  Rng rng(options_.seed, "clean");
  for (size_t i = 0; i < options_.clean; ++i) {
    const std::string& family = families[i % families.size()];
    const bool encoder = made_is_encoder(family);
    plans.push_back({{"made " + family, {}, family, options_.seed * 1000 + i, encoder},
                     rng.pick(encoder ? encoder_forms() : decoder_forms()),
                     rng.pick(storages)});
  }
  return plans;
}

std::vector<SubjectPlan> Campaign::given_plans() const {
  PlanFilter filter = options_.filter;
  filter.given_only = true;
  return plan_subjects(options_.clean_given, options_.seed, filter);
}

void Campaign::verify_plans(const std::vector<SubjectPlan>& plans, Report& report) {
  run_jobs(
      plans.size(), options_.jobs, options_.limit_seconds, folder_.path(),
      [&](size_t job, const JobPlace& place) -> std::string {
        const fs::path& folder = place.folder;
        fs::create_directories(folder);
        SubjectPlan plan = plans[job];
        // Where the model does not take a form, the plainest one.
        std::optional<Subject> subject = make_subject(plan, folder);
        if (!subject) {
          plan.form = plan.source.encoder ? encoder_forms().front() : decoder_forms().front();
          subject = make_subject(plan, folder);
        }
        const std::string problem = Judge::judge_clean(subject.value());
        subject.reset();
        fs::remove_all(folder);
        return problem;
      },
      [&](size_t job, const std::string& answer, const std::string& failure) {
        const SubjectPlan& plan = plans[job];
        report.add_clean(plan.name() + (plan.source.seed ? fmt::format(", seed {}", plan.source.seed) : ""),
                         failure.empty() ? answer : failure);
      });
}

const std::vector<Mutation>& Campaign::sites(size_t subject, size_t group) {
  auto [it, fresh] = sites_.try_emplace({subject, group});
  if (fresh) {
    const Group& g = all_groups()[group];
    Rng rng(options_.seed, subjects_[subject].name() + std::string(g.name));
    if (group_chosen(options_.which, g.name) && g.name != options_.without)
      it->second = g.sites(subjects_[subject], rng);
    std::erase_if(it->second, [&](const Mutation& m) { return !chosen(options_.which, m); });
  }
  return it->second;
}

void Campaign::choose() {
  if (options_.all)
    choose_all();
  else
    choose_sample();
  sites_.clear();
  std::stable_sort(jobs_.begin(), jobs_.end(),
                   [](const Job& a, const Job& b) { return a.subject < b.subject; });
}

void Campaign::choose_all() {
  for (size_t s = 0; s < subjects_.size(); ++s)
    for (size_t g = 0; g < all_groups().size(); ++g)
      for (const Mutation& m : sites(s, g)) jobs_.push_back({s, m});
}

// Groups take turns, and so do subjects; then every kind of change is as likely as another, then every place.
void Campaign::choose_sample() {
  Rng rng(options_.seed, "sample");
  std::set<std::string> taken;
  size_t idle = 0;
  for (size_t i = 0; jobs_.size() < options_.sample && !subjects_.empty() && idle < 50 * all_groups().size();
       ++i) {
    const size_t group = i % all_groups().size();
    const size_t subject = static_cast<size_t>(rng.below(static_cast<int64_t>(subjects_.size())));
    std::map<std::string, std::vector<const Mutation*>> kinds;
    for (const Mutation& m : sites(subject, group)) kinds[m.kind].push_back(&m);
    ++idle;
    if (kinds.empty()) continue;
    const auto kind = std::next(kinds.begin(), rng.below(static_cast<int64_t>(kinds.size())));
    const Mutation& m = *rng.pick(kind->second);
    if (!taken.insert(fmt::format("{} {} {} {}", subject, m.group, m.kind, m.place)).second) continue;
    jobs_.push_back({subject, m});
    idle = 0;
  }
}

void Campaign::judge(Report& report) {
  std::vector<Result> results(jobs_.size());
  size_t done = 0;
  std::optional<Judge> judge;  // of the subject at hand; lives in a child
  size_t at = SIZE_MAX;
  run_jobs(
      jobs_.size(), options_.jobs, options_.limit_seconds, folder_.path(),
      [&](size_t job, const JobPlace& place) {
        if (at != jobs_[job].subject) {
          at = jobs_[job].subject;
          judge.emplace(subjects_[at], place.folder / "mutant");
        }
        return to_text(judge->judge(jobs_[job].mutation, place.tries == 0, place.say));
      },
      [&](size_t job, const std::string& answer, const std::string& failure) {
        Result& r = results[job];
        if (failure.empty()) {
          r = result_from(answer);
        } else {
          r.outcome = Outcome::crashed;
          r.reason = failure;
        }
        if (++done % 50 == 0 && jobs_.size() > 200)
          fmt::print(stderr, "{} of {} mutants\n", done, jobs_.size());
      },
      // A mutant that breaks the oracle counts; verify is asked all the same.
      [](char phase) { return phase != kAtVerify; });
  for (size_t i = 0; i < jobs_.size(); ++i)
    report.add(subjects_[jobs_[i].subject], jobs_[i].mutation, results[i]);
}

}  // namespace anemone::mutation
