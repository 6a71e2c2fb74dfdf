// Redactor: what all documents of a run share: the model and its threads, patterns, kinds, replacements.
//     Redactor redactor(settings, model);                     // model: nullptr for patterns alone
//     Document document(redactor, {.format = Format::text, .output = write});
//     document.feed(bytes); … document.finish(); while (document.step(true)) {}
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "redact/finder.h"
#include "redact/patterns.h"
#include "redact/replace.h"
#include "redact/viterbi.h"
#include "redact/window_pool.h"

namespace anemone::redact {

struct RedactSettings {
  std::vector<std::string> labels;  // kinds to look for, "private_person" or "person"; empty: all
  std::vector<std::string> also, keep;
  Policy policy = Policy::balanced;
  ReplaceOptions replace;
  int threads = 0;  // 0: one per core
};

// Something that was found, at its place in the source.
struct Finding {
  int kind = 0;
  float score = 0;
  SourceRange range;
  std::string_view text;         // as it was
  std::string_view replacement;  // ASCII
  uint64_t line = 0;             // of the source, from 1
};

class Redactor {
 public:
  // Error for a label that neither the model nor a pattern has, and for a bad expression.
  Redactor(const RedactSettings& settings, std::shared_ptr<const RedactModel> model);

  const std::vector<std::string>& kinds() const { return kinds_; }
  const RedactModel* model() const { return model_.get(); }
  WindowPool* pool() const { return pool_.get(); }
  Replacer& replacer() { return *replacer_; }
  std::unique_ptr<Finder> finder() const;
  // As many windows wait and run as are good for all cores; more would only take memory.
  bool busy() const { return pool_ && pool_->pending() > 4 + 4 * pool_->threads(); }

 private:
  std::shared_ptr<const RedactModel> model_;
  std::vector<std::string> kinds_;  // of the model, then those of patterns
  std::vector<bool> wanted_;
  Patterns patterns_;
  std::unique_ptr<Transitions> transitions_;
  std::unique_ptr<Replacer> replacer_;
  std::unique_ptr<WindowPool> pool_;
};

}  // namespace anemone::redact
