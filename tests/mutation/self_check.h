// SelfCheck: does the harness itself see what it should? Run before its figures are believed.
//     std::vector<std::string> faults = self_check(folder);      // none where all is well
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace anemone::mutation {

std::vector<std::string> self_check(const std::filesystem::path& folder);

}  // namespace anemone::mutation
