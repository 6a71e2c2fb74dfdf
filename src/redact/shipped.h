// The model that comes with anemone (models/privacy-small), inside of the program, so that nothing must be fetched.
//     ShippedModel shipped;
//     auto bundle = Bundle::open(shipped.bundle(256), backend);       // for texts of up to 256 tokens
// The checkpoint is converted in a folder for temporary files, which goes with the object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/staged.h"

namespace anemone::redact {

inline constexpr std::string_view kShippedName = "privacy-small";
// What everybody should know before he relies on it.
inline constexpr std::string_view kShippedLimits =
    "The model that comes with anemone is small. It misses names in free text one time in three, and it "
    "marks some words that are not personal. It is not enough for compliance by itself.";

class ShippedModel {
 public:
  // Error where no temporary files can be written.
  ShippedModel();

  std::filesystem::path checkpoint() const { return folder_->path() / "checkpoint"; }
  // The lengths that texts are padded to, ascending.
  static std::vector<int64_t> lengths();
  // A bundle for one of these lengths, made anew.
  std::filesystem::path bundle(int64_t length) const;

 private:
  std::unique_ptr<StagedOutput> folder_;
};

}  // namespace anemone::redact
