// Trial: every function of a bundle on this machine, and its variants side by side: how long a call takes, how long a
// token, and whether all variants compute the same. `anemone warm` remembers the best.
//     Trial t = try_bundle("smollm2", backend, {});
//     t.best;                                                // "slice"; empty: the bundle has no variants
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "predict/backend.h"

namespace anemone {

struct FunctionTrial {
  std::string package, name;
  double load_s = 0;
  double call_ms = 0;   // on zeros, the median
  std::string problem;  // why it cannot be loaded or run; only with variants, whose others may do without it
};

struct VariantTrial {
  std::string name;
  double token_ms = 0;    // the median, in the longest context
  double difference = 0;  // of its logits from those of the first that is good, as a part of the largest
  bool choices =
      false;          // the bundle gives only the best tokens: `difference` is the part of them that differs
  bool equal = true;  // as far as the backend's arithmetic lets them be
  std::string problem;  // why it cannot be used: it does not run, or gives what are no numbers
  // Operations of its functions, and how many of them the device's own plan puts on the Neural Engine. Filled by who
  // can ask it.
  int64_t operations = 0, on_ane = 0;
};

struct Trial {
  std::vector<FunctionTrial> functions;
  std::vector<VariantTrial> variants;
  std::string
      best;  // the fastest of those that run and are equal; the first, unless another is faster by a margin

  Remembered remembered() const;
};

// How much faster than the first a variant must be to be taken: less may be noise.
inline constexpr double kTrialMargin = 0.03;
// The part of best tokens that may differ: where two score the same, rounding decides.
inline constexpr double kTrialTies = 0.125;

// One function after the other, and none is kept: all at once would need the memory of all compilations. Error where a
// function fails that every variant needs, or no variant is good.
Trial try_bundle(const std::filesystem::path& path, const std::shared_ptr<const Backend>& backend,
                 const std::function<void(const std::string& what)>& progress);

}  // namespace anemone
