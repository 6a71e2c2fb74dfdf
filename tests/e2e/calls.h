// Calls: a call that works of every verb, on models that are made for it. Tests that must hold for all verbs walk
// them: a verb without one fails the test until it has one here.
//     for (const auto& [verb, arguments] : Calls().all()) …
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace anemone::e2e {

// The verbs, as the command itself lists them.
std::vector<std::string> verbs();

class Calls {
 public:
  Calls();

  const TempFolder& folder() const { return folder_; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // Of every verb; their outputs go to new places below folder(). Only what is piped in is not in the list: chat reads
  // standard input, which ends at once.
  const std::map<std::string, std::vector<std::string>>& all() const { return all_; }

 private:
  TempFolder folder_;
  std::map<std::string, std::vector<std::string>> all_;
};

}  // namespace anemone::e2e
