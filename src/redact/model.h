// RedactModel: a token classifier as redact uses it: text to tokens with their bytes, tokens to scores of labels.
//     RedactModel model = RedactModel::open(bundle, cpu_backend({.threads = 1}));
//     model.tokens("Ask Ann Lee.", ids, bytes);
//     std::vector<float> scores = model.scores(ids, 0, ids.size());    // log probabilities, [tokens, labels]
// Immutable: any number of threads may share one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

  const LabelScheme& scheme() const { return scheme_; }
  const std::string& name() const { return name_; }
  // Tokens of `text`, which is valid UTF-8, and how many bytes each has. Appends.
  void tokens(std::string_view text, std::vector<int32_t>& ids, std::vector<uint32_t>& bytes) const;
  // Log probabilities of the labels of ids[from, from + count), where all the ids are seen.
  std::vector<float> scores(std::span<const int32_t> ids, size_t from, size_t count) const;

  // How many tokens to each side of one have a say in its label: all layers together. 0: the whole text has.
  int64_t sight() const { return sight_; }
  // The most tokens that one call takes.
  int64_t longest() const { return encoder_.longest(); }

 private:
  RedactModel(std::shared_ptr<const Bundle> bundle, std::shared_ptr<const Tokenizer> tokenizer);

  Encoder encoder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  LabelScheme scheme_;
  std::string name_;
  int64_t sight_ = 0;
  std::vector<uint32_t> bytes_;  // by token
};

}  // namespace anemone::redact
