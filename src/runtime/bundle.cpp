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

std::vector<std::filesystem::path> package_paths(const BundleInfo& info, const std::filesystem::path& path) {
  std::vector<std::filesystem::path> out;
  for (const std::string& package : info.packages()) out.push_back(find_inside(path, package));
  return out;
}

}  // namespace

std::shared_ptr<const Bundle> Bundle::open(const std::filesystem::path& path,
                                           std::shared_ptr<const Backend> backend, BundleWatch watch,
                                           const std::string& variant) {
  auto bundle = std::make_shared<Bundle>();
  bundle->path_ = path;
  bundle->all_ = BundleInfo::read(path);
  const BundleInfo& all = bundle->all_;
  bundle->backend_ = std::move(backend);
  bundle->watch_ = std::move(watch);
  check_files(all, path);
  std::optional<Remembered> found;
  if (all.kind == BundleKind::generate) found = bundle->backend_->remembered(package_paths(all, path));
  const bool known = found && all.find_variant(found->variant);
  bundle->info_ = all.chosen(variant.empty() && known ? found->variant : variant);
  const BundleInfo& info = bundle->info_;
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
  if (found) bundle->take_remembered(*found);
  return bundle;
}

// Nothing unless all functions were timed: figures and the rule of thumb cannot be compared.
void Bundle::take_remembered(const Remembered& known) {
  std::map<std::string, double> cost;
  for (const StageFunction& f : functions()) {
    if (f.least_tokens != f.most_tokens) return;
    for (size_t s = 0; s < info_.stages.size(); ++s) {
      if (info_.stages[s].kind != StageKind::run)
        return;  // experts: their number differs from token to token
      if (!info_.stages[s].has_layers()) continue;
      const std::string& name = function(s, f.most_tokens, f.context).name;
      const auto it = std::ranges::find_if(known.functions, [&](const Remembered::Function& one) {
        return one.package == info_.stages[s].package && one.name == name;
      });
      if (it == known.functions.end() || !(it->ms > 0)) return;
      cost[f.name] += it->ms;
    }
  }
  cost_ = std::move(cost);
}

double Bundle::cost(const StageFunction& function, int64_t width) const {
  if (const auto it = cost_.find(function.name); it != cost_.end()) return it->second;
  return 1 + static_cast<double>(width) / 8;
}

const Predictor& Bundle::predictor(size_t stage, const std::string& function) const {
  Slot* slot = nullptr;
  {
    const std::lock_guard lock(mutex_);
    slot = &slots_[{stage, function}];
  }
  if (const Predictor* made = slot->made) return *made;
  const std::lock_guard lock(slot->opening);
  if (slot->predictor) return *slot->predictor;
  const auto taps = watch_.taps ? watch_.taps(stage, function) : std::vector<std::string>();
  const PackageFile& file = *packages_[stage];
  // A backend that cannot tap is given a changed copy, which needs all of it.
  slot->predictor =
      open_tapped(*backend_, taps.empty() ? file.function(function) : file.whole(), function, taps);
  slot->made = slot->predictor.get();
  return *slot->predictor;
}

void Bundle::load_all() const {
  for (size_t s = 0; s < info_.stages.size(); ++s)
    for (const StageFunction& f : info_.stages[s].functions) predictor(s, f.name);
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
  constexpr uint64_t kPiece = uint64_t{8} << 20;
  uint64_t piece = 0,
           mine = fetching_++;  // of all files, one behind the other; the next that is this thread's
  try {
    for (size_t s = 0; s < packages_.size(); ++s) {
      if (info_.stages[s].kind == StageKind::experts) continue;
      for (const auto& file : packages_[s]->weight_files()) {
        for (uint64_t begin = 0; begin < file->size() && fetched_ < memory / 2; begin += kPiece, ++piece) {
          if (piece != mine) continue;
          mine = fetching_++;
          const auto bytes = file->bytes().subspan(begin, std::min(kPiece, file->size() - begin));
          if (map_pages(bytes)) fetched_ += bytes.size();
        }
      }
    }
  } catch (const std::exception&) {  // whoever reads it says what is wrong
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
  for (const auto& [key, slot] : slots_)
    if (const Predictor* made = slot.made) bytes += made->memory_bytes();
  return bytes;
}

}  // namespace anemone
