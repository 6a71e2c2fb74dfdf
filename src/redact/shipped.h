// The model that comes with anemone (models/privacy-small), inside of the program, so that nothing must be fetched.
//     ShippedModel shipped(threads);
//     auto model = RedactModel::open(shipped.bundle(), backend);
// The checkpoint is converted to a bundle in a folder for temporary files, which goes with the object.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

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
  explicit ShippedModel(int threads);

  std::filesystem::path bundle() const { return folder_->path() / "bundle"; }

 private:
  std::unique_ptr<StagedOutput> folder_;
};

}  // namespace anemone::redact
