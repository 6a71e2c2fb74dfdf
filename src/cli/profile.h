// ProfileFlags: where the time goes, for verbs that run packages: --profile prints a table of the steps, --trace writes
// what ran when for Perfetto. Without them nothing is measured.
//     ProfileFlags profile;
//     profile.declare(options);
//     profile.start(backend_flags);      // before the backend is opened
//     …run…
//     profile.finish(common);
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/backend.h"
#include "predict/timeline.h"

namespace anemone::cli {

struct ProfileFlags {
  bool table = false;
  std::string trace;
  std::shared_ptr<Timeline> timeline;  // empty: not asked for

  void declare(Options& o);
  void start(BackendFlags& backend);
  // What ran so far was for warmth.
  void forget() const;
  // Writes the file, and prints the table on stderr unless it goes out as JSON.
  void finish(const Common& common) const;
  // [{kind, name, count, ms, share}], the longest first.
  nlohmann::ordered_json json() const;
};

// By kind of step, then the longest single steps.
std::string profile_table(const Timeline& timeline);

}  // namespace anemone::cli
