#include "mutation/subject.h"

#include <algorithm>

#include "anemone/package.h"
#include "base/error.h"
#include "support/temp_folder.h"

namespace anemone::mutation {

const Stage& Subject::stage_of(const std::string& package) const {
  for (const Stage& stage : info.stages)
    if (stage.package == package) return stage;
  throw errorf("no stage has the package '{}'", package);
}

Subject open_subject(std::string family, std::string form, std::string storage, fs::path bundle,
                     fs::path source) {
  constexpr uint64_t kLarge = 20'000'000;  // bytes; the models of the tests have less than one million
  Subject s;
  s.family = std::move(family);
  s.form = std::move(form);
  s.storage = std::move(storage);
  s.bundle = std::move(bundle);
  s.source = std::move(source);
  s.info = BundleInfo::read(s.bundle);
  s.json = Json::parse(slurp(s.bundle / kBundleFile));
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(s.bundle)) {
    if (!entry.is_regular_file()) continue;
    s.files.push_back(fs::relative(entry.path(), s.bundle).generic_string());
    bytes += entry.file_size();
  }
  std::sort(s.files.begin(), s.files.end());
  s.large = bytes > kLarge;
  for (const std::string& name : s.info.packages()) s.packages[name] = open_package(s.bundle / name);
  return s;
}

}  // namespace anemone::mutation
