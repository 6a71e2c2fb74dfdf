#include "runtime/bundle.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/pages.h"
#include "bundle/check_ports.h"
#include "bundle/files.h"
#include "package/blob.h"
#include "package/package_file.h"
#include "predict/taps.h"

namespace anemone {
namespace {

void check_files(const BundleInfo& info, const std::filesystem::path& path) {
  for (const BundleFile& f : info.files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path_inside(path, path, f.path), error);
    if (error)
      throw errorf("the file '{}' is missing", f.path).at(path.string()).hint("copy the bundle again");
    if (bytes != f.bytes)
      throw errorf("the file '{}' has another size than when it was written", f.path)
          .at(path.string())
          .found(fmt::format("{} bytes", bytes))
          .expected(fmt::format("{}", f.bytes))
          .hint("copy the bundle again, or convert the model again");
  }
}

}  // namespace

std::shared_ptr<const Bundle> Bundle::open(const std::filesystem::path& path,
                                           std::shared_ptr<const Backend> backend, BundleWatch watch) {
  auto bundle = std::make_shared<Bundle>();
  bundle->path_ = path;
  bundle->info_ = BundleInfo::read(path);
  bundle->backend_ = std::move(backend);
  bundle->watch_ = std::move(watch);
  const BundleInfo& info = bundle->info_;
  check_files(info, path);
  bundle->tiers_ = info.tiers();
  if (bundle->tiers_.empty()) throw errorf("has no layers").at(path.string());
  PortCheck check(info);
  for (const Stage& stage : info.stages) {
    bundle->packages_.push_back(PackageFile::open(find_inside(path, stage.package)));
    try {
      check.stage(stage, bundle->packages_.back()->signatures());
    } catch (Error& e) {
      e.within(path.string());
      throw;
    }
  }
  bundle->embedding_ = std::make_unique<EmbeddingReader>(path, info);
  return bundle;
}

const Predictor& Bundle::predictor(size_t stage, const std::string& function) const {
  std::lock_guard lock(mutex_);
  auto& slot = predictors_[{stage, function}];
  if (slot) return *slot;
  const auto taps = watch_.taps ? watch_.taps(stage, function) : std::vector<std::string>();
  const PackageFile& file = *packages_[stage];
  // A backend that cannot tap is given a changed copy, which needs all of it.
  slot = open_tapped(*backend_, taps.empty() ? file.function(function) : file.whole(), function, taps);
  return *slot;
}

void Bundle::saw(size_t stage, const std::string& function, const Call& call, int64_t tokens) const {
  if (watch_.seen) watch_.seen(stage, function, call, tokens);
}

const StageFunction& Bundle::function(size_t stage, int64_t width, int64_t context) const {
  const Stage& s = info_.stages.at(stage);
  const auto it = std::find_if(s.functions.begin(), s.functions.end(), [&](const StageFunction& f) {
    return f.least_tokens <= width && width <= f.most_tokens && (f.context == 0 || f.context == context);
  });
  if (it == s.functions.end())
    throw errorf("'{}' has no function for {} tokens", s.package, width).at(path_.string());
  return *it;
}

int64_t Bundle::most_tokens() const {
  int64_t most = 1;
  for (const StageFunction& f : functions()) most = std::max(most, f.most_tokens);
  return most;
}

void Bundle::fetch_weights() const {
  if (!backend_->maps_weights()) return;
  const uint64_t memory =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  try {
    for (size_t s = 0; s < packages_.size(); ++s) {
      if (info_.stages[s].kind == StageKind::experts) continue;
      for (const auto& file : packages_[s]->weight_files())
        if (fetched_ + file->size() <= memory / 2 && map_pages(file->bytes())) fetched_ += file->size();
    }
  } catch (const Error&) {  // whoever reads it says what is wrong
  }
}

uint64_t Bundle::weight_bytes() const {
  uint64_t bytes = embedding_->bytes();
  for (const BundleFile& f : info_.files)
    if (f.path.ends_with("weight.bin")) bytes += f.bytes;
  return bytes;
}

uint64_t Bundle::working_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, predictor] : predictors_) bytes += predictor->memory_bytes();
  return bytes;
}

}  // namespace anemone
