// Verifies a bundle quickly, and holds the report to what was expected.
//     check_broken(verify(bundle.path(), quick(demo_model(), kDemoPrompt)), 3, {"layer 1 drifts first", "q:"});
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/cpu_backend.h"
#include "support/data.h"
#include "verify/ladder.h"

namespace anemone::test {

inline std::filesystem::path demo_model() { return source_dir() / "examples" / "demo_model" / "demo.gguf"; }

// "One morning Mara went to the tide pool with her brother Carl." for the demo model
inline const std::vector<int32_t> kDemoPrompt = {0,   1098, 668, 1159, 531,  287,  262,
                                                 505, 644,  382, 343,  1032, 1095, 15};

inline VerifyOptions quick(const std::filesystem::path& source, const std::vector<int32_t>& ids = {}) {
  VerifyOptions o;
  o.backend = cpu_backend;
  o.source = source;
  o.ids = ids;
  o.steps = 5;
  o.arithmetics = {Arithmetic::fp32};
  return o;
}

inline std::string summary(const VerifyReport& r) {
  std::string out;
  for (const Rung& rung : r.rungs)
    out += fmt::format("{} {} {}: {}\n", rung.number, rung.name, verdict_name(rung.verdict), rung.summary);
  return out;
}

// It broke at that rung, and the reason has these words.
inline void check_broken(const VerifyReport& r, int rung, const std::vector<std::string>& words) {
  INFO(summary(r));
  CHECK_FALSE(r.passed());
  REQUIRE(r.rungs.back().number == rung);
  CHECK(r.rungs.back().verdict == Verdict::failed);
  for (const std::string& word : words)
    CHECK_MESSAGE(r.rungs.back().summary.find(word) != std::string::npos, word);
}

inline void check_green(const VerifyReport& r) {
  INFO(summary(r));
  CHECK(r.passed());
  CHECK(r.rungs.size() == 6);
}

}  // namespace anemone::test
