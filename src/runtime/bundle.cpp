#include "runtime/bundle.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/half.h"
#include "engine/cpu_predictor.h"
#include "kernels/convert.h"

namespace anemone {

std::shared_ptr<const Bundle> Bundle::open(const std::filesystem::path& path, const PredictOptions& options) {
  auto bundle = std::make_shared<Bundle>();
  bundle->path_ = path;
  bundle->info_ = BundleInfo::read(path);
  bundle->options_ = options;
  bundle->pool_ = std::make_shared<ThreadPool>(options.threads);
  const BundleInfo& info = bundle->info_;
  for (const BundleFile& f : info.files) {
    const std::filesystem::path inner = std::filesystem::path(f.path).lexically_normal();
    if (inner.is_absolute() || *inner.begin() == "..")
      throw errorf("'{}' leads out of the bundle", f.path).at(path.string());
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path / inner, error);
    if (error)
      throw errorf("the file '{}' is missing", f.path).at(path.string()).hint("copy the bundle again");
    if (bytes != f.bytes)
      throw errorf("the file '{}' has another size than when it was written", f.path)
          .at(path.string())
          .found(fmt::format("{} bytes", bytes))
          .expected(fmt::format("{}", f.bytes));
  }
  std::set<int64_t> tiers;
  for (const Stage& stage : info.stages) {
    bundle->packages_.push_back(open_package(path / stage.package));
    for (const StageFunction& f : stage.functions)
      if (stage.has_layers()) tiers.insert(f.context);
  }
  bundle->tiers_.assign(tiers.begin(), tiers.end());
  if (tiers.empty()) throw errorf("has no layers").at(path.string());
  bundle->embedding_ = MappedFile::open(path / info.embedding_file);
  const bool int8 = info.embedding_dtype == "int8";
  const uint64_t need = static_cast<uint64_t>(info.vocab * info.hidden) * (int8 ? 1 : 2);
  if (bundle->embedding_->size() != need)
    throw errorf("the embedding has the wrong size")
        .at(bundle->embedding_->path())
        .found(fmt::format("{} bytes", bundle->embedding_->size()))
        .expected(fmt::format("{}", need));
  if (int8) bundle->embedding_scales_ = MappedFile::open(path / info.embedding_scales);
  return bundle;
}

const Predictor& Bundle::predictor(size_t stage, const std::string& function) const {
  std::lock_guard lock(mutex_);
  auto& slot = predictors_[{stage, function}];
  if (!slot) slot = make_cpu_predictor(packages_[stage], function, options_, pool_);
  return *slot;
}

int64_t Bundle::most_tokens() const {
  int64_t most = 1;
  for (const StageFunction& f : info_.stages[0].functions) most = std::max(most, f.most_tokens);
  return most;
}

uint64_t Bundle::weight_bytes() const {
  uint64_t bytes = embedding_->size() + (embedding_scales_ ? embedding_scales_->size() : 0);
  for (const BundleFile& f : info_.files)
    if (f.path.ends_with("weight.bin")) bytes += f.bytes;
  return bytes;
}

uint64_t Bundle::arena_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [key, predictor] : predictors_) sum += anemone::arena_bytes(*predictor);
  return sum;
}

void Bundle::embed(int64_t id, float* out) const {
  if (id < 0 || id >= info_.vocab)
    throw errorf("the token {} is not in the vocabulary", id)
        .expected(fmt::format("0 to {}", info_.vocab - 1));
  const int64_t n = info_.hidden;
  if (!embedding_scales_) {
    halves_to_floats(embedding_->bytes().data() + id * n * 2, n, out);
  } else {
    float scale;
    std::memcpy(&scale, embedding_scales_->slice(static_cast<uint64_t>(id) * 4, 4, "a scale").data(), 4);
    const auto* row = reinterpret_cast<const int8_t*>(embedding_->bytes().data()) + id * n;
    for (int64_t i = 0; i < n; ++i) out[i] = scale * static_cast<float>(row[i]);
  }
  const auto factor = static_cast<float>(info_.embedding_scale);
  if (factor != 1)
    for (int64_t i = 0; i < n; ++i) out[i] *= factor;
}

}  // namespace anemone
