// Campaign: which mutants are made of which bundles, and the run over all of them.
//     Campaign campaign(options);
//     Report report = campaign.run();
#pragma once

#include <set>

#include "mutation/catalogue.h"
#include "mutation/report.h"
#include "support/temp_folder.h"

namespace anemone::mutation {

struct CampaignOptions {
  size_t sample = 0;  // mutants; 0: none
  bool all = false;   // every site of every subject
  uint64_t seed = 1;
  size_t subjects = 0;     // clean bundles; 0: by the sample
  size_t clean = 0;        // made-up models that are verified as they are
  size_t clean_given = 0;  // the same of the given models, in all forms and storages by turns
  PlanFilter filter;
  std::string which;        // groups or kinds: a part of "group: kind"; empty: all
  std::string without;      // a group that is left out
  fs::path bundle, source;  // a given bundle instead of the catalogue's
  int jobs = 0;             // child processes; 0: one a core
  double limit_seconds = 120;
  bool list = false;  // say what would be made, and make nothing
  fs::path accepted;
};

class Campaign {
 public:
  explicit Campaign(CampaignOptions options) : options_(std::move(options)) {}

  Report run();

 private:
  struct Job {
    size_t subject;
    Mutation mutation;
  };

  void make_subjects();
  void verify_clean(Report& report);
  void verify_plans(const std::vector<SubjectPlan>& plans, Report& report);
  std::vector<SubjectPlan> made_up_plans() const;
  std::vector<SubjectPlan> given_plans() const;
  void choose();
  void choose_sample();
  void choose_all();
  const std::vector<Mutation>& sites(size_t subject, size_t group);
  void judge(Report& report);

  CampaignOptions options_;
  TempFolder folder_;
  std::vector<Subject> subjects_;
  std::map<std::pair<size_t, size_t>, std::vector<Mutation>> sites_;
  std::vector<Job> jobs_;
};

}  // namespace anemone::mutation
