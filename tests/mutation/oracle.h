// Oracle: whether a mutant matters: it runs the clean bundle and the mutant wherever the contract allows to go, and
// compares what comes out. It knows nothing of verify.
//     Oracle oracle(subject);
//     Difference d = oracle.compare(mutant_folder, mutation);      // d.counts, d.kl, d.where
// Probes go through every function and tier: positions from the start to the last, chunks full and padded with zeros,
// with the last token and with rubbish, a change of the tier, going back, both tables of longrope. A large bundle gets
// fewer of them, over memories that are filled with the same numbers on both sides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mutation/host.h"
#include "mutation/mutation.h"

namespace anemone::mutation {

// The next token's distribution against the clean one's, above which a mutant counts.
inline constexpr double kCountsKl = 1e-3;

struct Difference {
  bool counts = false;
  double kl = 0;      // the largest that was seen; infinite where the mutant does not run
  std::string where;  // "t8 at 64, padded with zeros"

  // Takes the larger one.
  void take(double other, const std::string& place);
};

// One call of a probe.
struct ProbeStep {
  HostCall how;
  int64_t count = 1, position = 0;
  int64_t move_to = 0;  // go to this tier first
};

struct Probe {
  std::string name;
  Arithmetic arithmetic = Arithmetic::fp32;
  HostTextOptions text;
  bool seeded = false;
  std::vector<ProbeStep> steps;
};

// The probes for a bundle, those first that show most.
std::vector<Probe> probes_for(const Subject& subject);

class Oracle {
 public:
  explicit Oracle(const Subject& subject);

  // Stops at the first probe that shows it, or with `all` looks for the largest difference.
  Difference compare(const fs::path& mutant, const Mutation& mutation, bool all = false);

 private:
  using Results = std::vector<Columns>;

  Results run(const Host& host, const Probe& probe, std::span<const int32_t> ids) const;
  void compare_results(const Results& clean, const Results& mutant, const Probe& probe, bool any_bit,
                       Difference& out) const;
  void compare_probe(const fs::path& mutant, const Probe& probe, std::span<const int32_t> ids,
                     std::optional<Results>& clean, bool any_bit, Difference& out);
  Host& clean_host(Arithmetic arithmetic);

  const Subject& subject_;
  std::vector<int32_t> ids_;
  std::vector<Probe> probes_;
  std::vector<std::optional<Results>> clean_;  // by probe
  std::string text_;
  std::optional<Host> hosts_[2], mutant_hosts_[2];
};

// All that a bundle says about text: what its tokenizer makes of texts and ids, its template, the ids that end a text,
// names of classes. Equal for bundles that treat text alike; starts with "error" where it cannot be read.
std::string text_view(const fs::path& bundle);

// KL divergence of the second distribution from the first, of logits; infinite where a number is not finite.
double kl_of_logits(std::span<const float> clean, std::span<const float> mutant);

}  // namespace anemone::mutation
