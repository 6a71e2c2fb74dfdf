// RedactModel: a token classifier as redact uses it: text to tokens with their bytes, tokens to scores of labels.
//     auto model = RedactModel::open(bundle, cpu_backend({.threads = 1}));
//     model->tokens("Ask Ann Lee.", ids, bytes);
//     std::vector<float> scores = model->scores(ids, 0, ids.size());    // log probabilities, [tokens, labels]
// Any number of threads may share one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redact/labels.h"
#include "runtime/encoder.h"
#include "text/tokenizer.h"

namespace anemone::redact {

class RedactModel {
 public:
  // Error for a bundle that does not label tokens, or whose tokenizer changes texts.
  static std::shared_ptr<const RedactModel> open(const std::filesystem::path& bundle,
                                                 std::shared_ptr<const Backend> backend);
  // The one that comes with anemone. What computes texts of a length is made when the first such text comes: one short
  // text must not wait for functions that it does not use.
  static std::shared_ptr<const RedactModel> shipped(std::shared_ptr<const Backend> backend);

  const LabelScheme& scheme() const { return scheme_; }
  const std::string& name() const { return name_; }
  // Tokens of `text`, which is valid UTF-8, and how many bytes each has. Appends.
  void tokens(std::string_view text, std::vector<int32_t>& ids, std::vector<uint32_t>& bytes) const;
  // Log probabilities of the labels of ids[from, from + count), where all the ids are seen.
  std::vector<float> scores(std::span<const int32_t> ids, size_t from, size_t count) const;

  // How many tokens to each side of one have a say in its label: all layers together. 0: the whole text has.
  int64_t sight() const { return sight_; }
  // The most tokens that one call takes.
  int64_t longest() const { return lengths_.back(); }

 private:
  RedactModel(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<std::string>& labels);
  const Encoder& encoder_for(int64_t tokens) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  LabelScheme scheme_;
  std::string name_, place_;
  int64_t sight_ = 0;
  std::vector<int64_t> lengths_;  // of functions, ascending
  std::function<std::shared_ptr<const Bundle>(int64_t length)> bundle_for_;
  std::vector<uint32_t> bytes_;  // by token
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::unique_ptr<const Encoder>> encoders_;  // by length
};

}  // namespace anemone::redact
