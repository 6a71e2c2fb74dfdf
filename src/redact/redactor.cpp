#include "redact/redactor.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace anemone::redact {
namespace {

std::string small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool names(const std::string& label, const std::string& kind) {
  return label == kind || small(label) == small(short_name(kind));
}

}  // namespace

Redactor::Redactor(const RedactSettings& settings, std::shared_ptr<const RedactModel> model)
    : model_(std::move(model)) {
  if (model_) {
    kinds_ = model_->scheme().kinds();
    transitions_ = std::make_unique<Transitions>(model_->scheme(), biases_of(settings.policy));
  }
  for (const std::string& pattern : settings.also) patterns_.add(pattern, kinds_);
  for (const std::string& pattern : settings.keep) patterns_.keep(pattern);
  const size_t of_model = model_ ? model_->scheme().kinds().size() : 0;
  wanted_.assign(kinds_.size(), settings.labels.empty());
  for (size_t i = of_model; i < kinds_.size(); ++i) wanted_[i] = true;
  for (const std::string& label : settings.labels) {
    bool found = false;
    for (size_t i = 0; i < kinds_.size(); ++i)
      if (names(label, kinds_[i])) wanted_[i] = found = true;
    if (!found)
      throw errorf("--labels names a kind that the model does not have")
          .found(label)
          .expected(fmt::format("some of {}", fmt::join(kinds_, ", ")));
  }
  replacer_ = std::make_unique<Replacer>(settings.replace, kinds_);
  if (model_) pool_ = std::make_unique<WindowPool>(model_, settings.threads);
}

std::unique_ptr<Finder> Redactor::finder() const {
  return std::make_unique<Finder>(pool_.get(), transitions_.get(), patterns_, wanted_);
}

}  // namespace anemone::redact
