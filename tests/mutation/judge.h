// Judge: makes a mutant, asks the oracle whether it matters, then lets verify find it, and says how that went.
//     Judge judge(subject, folder);
//     Result r = judge.judge(mutation);        // r.outcome, r.rung, r.reason, r.named
#pragma once

#include <string>

#include "mutation/oracle.h"

namespace anemone::mutation {

// What a judge is at.
inline constexpr char kAtOracle = 'o', kAtVerify = 'v', kAtReport = 'r';

enum class Outcome {
  none,      // the change could not be made there
  equal,     // it changes nothing that matters
  caught,    // a rung failed
  refused,   // verify said that it cannot judge such a bundle
  survived,  // every rung held
  crashed,   // verify ended by a signal or did not end
};
std::string_view outcome_name(Outcome outcome);

struct Result {
  Outcome outcome = Outcome::none;
  double kl = 0;
  std::string where;   // where the difference shows
  int rung = 0;        // that failed
  std::string reason;  // what verify said
  bool named = false;  // the reason names the place, and the rung is early enough
  double seconds = 0;
};

class Judge {
 public:
  // `folder`: where mutants may be made.
  Judge(const Subject& subject, fs::path folder);

  // Without the oracle every mutant counts. `say` is told the phase before it begins.
  Result judge(const Mutation& mutation, bool oracle, const std::function<void(char phase)>& say);
  // The bundle as it is: "" where every rung holds, else why not.
  static std::string judge_clean(const Subject& subject);

 private:
  const Subject& subject_;
  Workspace workspace_;
  Oracle oracle_;
};

// Whether a reason has one of these words, as words of their own.
bool names_place(const std::string& reason, const std::vector<std::string>& places);

}  // namespace anemone::mutation
