#include "runtime/bundle.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/half.h"
#include "engine/cpu_backend.h"
#include "kernels/convert.h"
#include "package/blob.h"

namespace anemone {
namespace {

// Tells of every predict().
class WatchedPredictor : public Predictor {
 public:
  using Seen = std::function<void(const std::map<std::string, Array>&, const Prediction&)>;
  WatchedPredictor(std::unique_ptr<Predictor> inner, Seen seen)
      : inner_(std::move(inner)), seen_(std::move(seen)) {}

  const Signature& signature() const override { return inner_->signature(); }
  std::unique_ptr<State> make_state() const override { return inner_->make_state(); }
  std::unique_ptr<Call> make_call(const InputShapes& shapes) const override {
    return inner_->make_call(shapes);
  }
  uint64_t memory_bytes() const override { return inner_->memory_bytes(); }
  Prediction predict(const std::map<std::string, Array>& inputs, State* state) const override {
    Prediction result = inner_->predict(inputs, state);
    seen_(inputs, result);
    return result;
  }

 private:
  std::unique_ptr<Predictor> inner_;
  Seen seen_;
};

}  // namespace

std::shared_ptr<const Bundle> Bundle::open(const std::filesystem::path& path, const PredictOptions& options,
                                           BundleWatch watch) {
  auto bundle = std::make_shared<Bundle>();
  bundle->path_ = path;
  bundle->info_ = BundleInfo::read(path);
  bundle->watch_ = std::move(watch);
  bundle->backend_ = cpu_backend(options);
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
  if (info.embedding_parts.empty())
    bundle->open_embedding();
  else
    bundle->open_parts();
  return bundle;
}

void Bundle::open_embedding() {
  embedding_ = MappedFile::open(path_ / info_.embedding_file);
  const bool int8 = info_.embedding_dtype == "int8";
  const uint64_t need = static_cast<uint64_t>(info_.vocab * info_.hidden) * (int8 ? 1 : 2);
  if (embedding_->size() != need)
    throw errorf("the embedding has the wrong size")
        .at(embedding_->path())
        .found(fmt::format("{} bytes", embedding_->size()))
        .expected(fmt::format("{}", need));
  if (int8) embedding_scales_ = MappedFile::open(path_ / info_.embedding_scales);
}

// The records in front of the rows tell whether they are still what bundle.json says.
void Bundle::open_parts() {
  const bool int8 = info_.embedding_dtype == "int8";
  int64_t next = 0;
  for (const EmbeddingPart& p : info_.embedding_parts) {
    try {
      if (p.first_row != next || p.rows < 1 || p.rows > info_.vocab - next)
        throw errorf("rows {} to {} do not follow on {}", p.first_row, p.first_row + p.rows, next);
      next += p.rows;
      const BlobFile file(path_inside(path_, path_, p.file));
      const Type rows = Type::tensor(int8 ? DType::int8 : DType::fp16, {p.rows, info_.hidden});
      Rows part{file.blob(p.file, p.offset - kBlobAlignment, rows), {}, p.first_row, p.rows};
      if (int8)
        part.scales = file.blob(p.file, p.scales - kBlobAlignment, Type::tensor(DType::fp16, {p.rows}));
      parts_.push_back(std::move(part));
    } catch (Error& e) {
      throw errorf("the embedding is not where bundle.json says: {}", e.what())
          .at(path_.string())
          .hint("a head that was changed no longer holds it: convert with --embedding fp16");
    }
  }
  if (next != info_.vocab)
    throw errorf("the embedding has {} of {} rows", next, info_.vocab).at(path_.string());
}

void Bundle::read_part(int64_t id, float* out) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), id,
                                      [](int64_t row, const Rows& part) { return row < part.first; });
  const Rows& part = *(after - 1);
  const int64_t n = info_.hidden, row = id - part.first;
  if (info_.embedding_dtype != "int8") {
    halves_to_floats(part.data.bytes().data() + row * n * 2, n, out);
    return;
  }
  uint16_t bits;
  std::memcpy(&bits, part.scales.bytes().data() + row * 2, 2);
  const float scale = half_to_float(bits);
  const auto* integers = reinterpret_cast<const int8_t*>(part.data.bytes().data()) + row * n;
  for (int64_t i = 0; i < n; ++i) out[i] = scale * static_cast<float>(integers[i]);
}

const Predictor& Bundle::predictor(size_t stage, const std::string& function) const {
  std::lock_guard lock(mutex_);
  auto& slot = predictors_[{stage, function}];
  if (slot) return *slot;
  slot = backend_->open(packages_[stage], function,
                        watch_.taps ? watch_.taps(stage, function) : std::vector<std::string>{});
  if (watch_.seen)
    slot = std::make_unique<WatchedPredictor>(
        std::move(slot),
        [this, stage, function](const std::map<std::string, Array>& inputs, const Prediction& result) {
          watch_.seen(stage, function, inputs, result);
        });
  return *slot;
}

int64_t Bundle::most_tokens() const {
  int64_t most = 1;
  for (const StageFunction& f : info_.stages[0].functions) most = std::max(most, f.most_tokens);
  return most;
}

uint64_t Bundle::weight_bytes() const {
  uint64_t bytes =
      (embedding_ ? embedding_->size() : 0) + (embedding_scales_ ? embedding_scales_->size() : 0);
  for (const BundleFile& f : info_.files)
    if (f.path.ends_with("weight.bin")) bytes += f.bytes;
  return bytes;
}

uint64_t Bundle::arena_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, predictor] : predictors_) bytes += predictor->memory_bytes();
  return bytes;
}

void Bundle::embed(int64_t id, float* out) const {
  if (id < 0 || id >= info_.vocab)
    throw errorf("the token {} is not in the vocabulary", id)
        .expected(fmt::format("0 to {}", info_.vocab - 1));
  const int64_t n = info_.hidden;
  if (!parts_.empty()) {
    read_part(id, out);
  } else if (!embedding_scales_) {
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
