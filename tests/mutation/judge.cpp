#include "mutation/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "verify/ladder.h"

namespace anemone::mutation {
namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

VerifyOptions options_for(const Subject& subject) {
  VerifyOptions o;
  o.source = subject.source;
  o.threads = 1;
  o.backend = cpu_backend;
  return o;
}

// The rung that failed with all that it says, or nothing.
bool find_failure(const VerifyReport& report, Result& out) {
  for (const Rung& rung : report.rungs) {
    if (rung.verdict != Verdict::failed) continue;
    out.rung = rung.number;
    out.reason = rung.summary;
    for (const std::string& note : rung.notes) out.reason += "; " + note;
    return true;
  }
  return false;
}

void run_verify(const Subject& subject, const fs::path& mutant, Result& out) {
  try {
    const VerifyReport report = verify(mutant, options_for(subject));
    out.outcome = find_failure(report, out) ? Outcome::caught : Outcome::survived;
  } catch (const Error& e) {
    out.outcome = Outcome::refused;
    out.reason = e.what();
  } catch (const std::exception& e) {  // refused, but nobody can tell why
    out.outcome = Outcome::refused;
    out.reason = fmt::format("an exception that is no Error: {}", e.what());
  }
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::none: return "not applicable";
    case Outcome::equal: return "equal";
    case Outcome::caught: return "caught";
    case Outcome::refused: return "refused";
    case Outcome::survived: return "survived";
    case Outcome::crashed: return "crashed";
  }
  return "";
}

bool names_place(const std::string& reason, const std::vector<std::string>& places) {
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) {
    if (place.empty()) return false;
    for (size_t at = reason.find(place); at != std::string::npos; at = reason.find(place, at + 1)) {
      const size_t end = at + place.size();
      if ((at == 0 || !is_word_char(reason[at - 1])) && (end == reason.size() || !is_word_char(reason[end])))
        return true;
    }
    return false;
  });
}

Judge::Judge(const Subject& subject, fs::path folder)
    : subject_(subject), workspace_(subject, std::move(folder)), oracle_(subject) {}

Result Judge::judge(const Mutation& mutation, bool oracle, const std::function<void(char phase)>& say) {
  const auto start = std::chrono::steady_clock::now();
  Result out;
  try {
    workspace_.restore();
    mutation.apply(workspace_);
    workspace_.finish(mutation.rehash);
    Difference difference{true, INFINITY, "the oracle ended with it"};
    say(kAtOracle);
    if (oracle) difference = oracle_.compare(workspace_.path(), mutation);
    if (!difference.counts) {
      out.outcome = Outcome::equal;
    } else {
      say(kAtVerify);
      run_verify(subject_, workspace_.path(), out);
      say(kAtReport);
      out.named = (out.outcome == Outcome::caught || out.outcome == Outcome::refused) &&
                  out.rung <= mutation.expected.last_rung &&
                  names_place(out.reason, mutation.expected.places);
      if (out.outcome == Outcome::survived && oracle)
        difference = oracle_.compare(workspace_.path(), mutation, true);
    }
    out.kl = difference.kl;
    out.where = difference.where;
  } catch (const NotApplicable& e) {
    out.outcome = Outcome::none;
    out.reason = e.why;
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

std::string Judge::judge_clean(const Subject& subject) {
  Result out;
  run_verify(subject, subject.bundle, out);
  if (out.outcome == Outcome::survived) return "";
  return out.rung ? fmt::format("rung {}: {}", out.rung, out.reason) : out.reason;
}

}  // namespace anemone::mutation
