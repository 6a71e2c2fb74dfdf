#include "runtime/session.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {
Session::Session(std::shared_ptr<const Bundle> bundle, SessionOptions options)
    : bundle_(std::move(bundle)), options_(std::move(options)), tier_(bundle_->tiers().front()) {
  expect_kind(bundle_->info(), bundle_->path(), {BundleKind::generate});
  states_.resize(bundle_->info().stages.size());
  kept_.resize(bundle_->info().stages.size());
  if (options_.function.empty()) return;
  std::string names;
  for (const StageFunction& f : bundle_->functions()) {
    names += (names.empty() ? "" : ", ") + f.name;
    if (f.name == options_.function) {
      tier_ = f.context;
      return;
    }
  }
  throw errorf("the bundle has no function '{}'", options_.function).expected(names);
}

std::vector<float> Session::forward(std::span<const int32_t> ids, bool last_only) {
  forward_view(ids, last_only);
  return std::move(logits_);
}

std::span<const float> Session::forward_view(std::span<const int32_t> ids, bool last_only) {
  make_room(last_only ? std::min<size_t>(ids.size(), 1) : ids.size());
  advance(ids, last_only ? Want::last_logits : Want::logits);
  return logits_;
}

void Session::make_room(size_t rows) {
  const BundleInfo& info = bundle_->info();
  if (info.argmax)
    throw errorf("the bundle gives only the best token, not logits")
        .at(bundle_->path().string())
        .hint("convert without --argmax-output");
  logits_.resize(static_cast<size_t>(info.vocab) * rows);
}

int64_t Session::forward_best(std::span<const int32_t> ids) {
  if (!bundle_->info().argmax) {
    const std::span<const float> logits = forward_view(ids, true);
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  best_ = -1;
  advance(ids, Want::best);
  return best_;
}

}  // namespace anemone
