#include "redact/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "families/family.h"
#include "lower/functions.h"
#include "redact/shipped.h"
#include "text/unicode.h"

namespace anemone::redact {
namespace {

void to_log_probabilities(float* x, size_t n) {
  const float most = *std::max_element(x, x + n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i] - most));
  const auto log_sum = static_cast<float>(std::log(sum));
  for (size_t i = 0; i < n; ++i) x[i] -= most + log_sum;
}

// How many bytes of a text each token stands for, as byte-level BPE writes them.
std::vector<uint32_t> bytes_of_tokens(const Tokenizer& tokenizer) {
  std::vector<uint32_t> out(static_cast<size_t>(tokenizer.vocabulary_size()));
  for (size_t id = 0; id < out.size(); ++id) {
    const std::string_view piece = tokenizer.piece(static_cast<int32_t>(id));
    std::string bytes;
    const bool printable = !tokenizer.is_added(static_cast<int32_t>(id)) && printable_to_bytes(piece, bytes);
    out[id] = static_cast<uint32_t>(printable ? bytes.size() : piece.size());
  }
  return out;
}

}  // namespace

std::shared_ptr<const RedactModel> RedactModel::open(const std::filesystem::path& path,
                                                     std::shared_ptr<const Backend> backend) {
  auto bundle = Bundle::open(path, std::move(backend));
  const BundleInfo& info = bundle->info();
  expect_kind(info, path, {BundleKind::classify});
  if (info.pooling)
    throw errorf("the model gives one label to a whole text")
        .at(path.string())
        .expected("a label for each token");
  if (info.tokenizer.empty()) throw errorf("the bundle has no tokenizer").at(path.string());
  auto tokenizer = Tokenizer::load(path / info.tokenizer);
  if (!tokenizer->encode("", {.add_special = true}).empty())
    throw errorf("the tokenizer puts tokens of its own around a text")
        .at(path.string())
        .expected("a tokenizer that adds none, as that of OpenAI's privacy filter");
  std::shared_ptr<RedactModel> model(new RedactModel(std::move(tokenizer), info.labels));
  model->name_ = info.name.empty() ? path.filename().string() : info.name;
  model->place_ = path.string();
  model->sight_ = lower::sight_of(info.masks, info.layers);
  model->lengths_ = bundle->tiers();
  model->bundle_for_ = [bundle](int64_t) { return bundle; };
  return model;
}

std::shared_ptr<const RedactModel> RedactModel::shipped(std::shared_ptr<const Backend> backend) {
  const auto files = std::make_shared<ShippedModel>();
  const Model described = describe(Checkpoint::open(files->checkpoint()));
  std::shared_ptr<RedactModel> model(
      new RedactModel(Tokenizer::load(files->checkpoint()), std::get<ClassHead>(described.head).labels));
  model->name_ = kShippedName;
  model->place_ = kShippedName;
  model->sight_ = lower::sight_of(lower::masks_of(described), static_cast<int64_t>(described.layers.size()));
  model->lengths_ = ShippedModel::lengths();
  model->bundle_for_ = [files, backend = std::move(backend)](int64_t length) {
    return Bundle::open(files->bundle(length), backend);
  };
  return model;
}

RedactModel::RedactModel(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<std::string>& labels)
    : tokenizer_(std::move(tokenizer)), scheme_(labels), bytes_(bytes_of_tokens(*tokenizer_)) {}

const Encoder& RedactModel::encoder_for(int64_t tokens) const {
  const auto fits = std::lower_bound(lengths_.begin(), lengths_.end(), tokens);
  const int64_t length = fits == lengths_.end() ? lengths_.back() : *fits;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<const Encoder>& known = encoders_[length];
  if (!known)
    known = std::make_unique<const Encoder>(bundle_for_(length), EncoderOptions{.classes_only = true});
  return *known;
}

void RedactModel::tokens(std::string_view text, std::vector<int32_t>& ids,
                         std::vector<uint32_t>& bytes) const {
  const std::vector<int32_t> found = tokenizer_->encode(text, {.parse_special = false});
  uint64_t sum = 0;
  for (const int32_t id : found) {
    ids.push_back(id);
    bytes.push_back(bytes_[static_cast<size_t>(id)]);
    sum += bytes.back();
  }
  if (sum != text.size())
    throw errorf("the tokenizer of the model changes texts, so tokens cannot be found in them again")
        .at(place_)
        .expected("byte-level BPE, as that of OpenAI's privacy filter");
}

std::vector<float> RedactModel::scores(std::span<const int32_t> ids, size_t from, size_t count) const {
  const EncodedText encoded = encoder_for(static_cast<int64_t>(ids.size())).encode({.ids = ids});
  const size_t labels = scheme_.size();
  std::vector<float> out(encoded.classes.begin() + static_cast<ptrdiff_t>(from * labels),
                         encoded.classes.begin() + static_cast<ptrdiff_t>((from + count) * labels));
  for (size_t t = 0; t < count; ++t) to_log_probabilities(out.data() + t * labels, labels);
  return out;
}

}  // namespace anemone::redact
