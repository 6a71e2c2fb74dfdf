// ServedModel: a bundle that is loaded and ready for requests. ModelShelf: the bundles of a server, by name; loaded
// when first asked for, dropped when nobody has asked for a while.
//     ModelShelf shelf({{"smollm2", "path/to/bundle"}}, options);
//     std::shared_ptr<ServedModel> model = shelf.get("smollm2");
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "grammar/token_masks.h"
#include "runtime/bundle.h"
#include "runtime/encoder.h"
#include "serve/answer_parts.h"
#include "serve/scheduler.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace anemone {
struct CheckReport;
}
namespace anemone::redact {
class RedactModel;
}

namespace anemone::serve {

struct ShelfOptions {
  SchedulerOptions scheduler;
  std::function<std::shared_ptr<const Backend>(BundleKind kind)> backend_for;
  std::string chat_template;  // instead of the models' own
  double idle_seconds = 0;    // a model that nobody used for so long is dropped; 0: never
};

class ServedModel {
 public:
  ServedModel(std::string name, const std::filesystem::path& path, const ShelfOptions& options);

  const std::string& name() const { return name_; }
  const Bundle& bundle() const { return *bundle_; }
  const BundleInfo& info() const { return bundle_->info(); }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::optional<ChatTemplate>& chat() const { return chat_; }
  int64_t context() const { return bundle_->tiers().back(); }
  // Of bundles that generate text; null for others.
  Scheduler* scheduler() const { return scheduler_.get(); }
  const Encoder* encoder() const { return encoder_.get(); }
  ToolForm form() const { return form_; }
  bool thinks() const { return thinks_; }  // its template knows <think>
  // The masks of a grammar, kept for the next request with the same one. For the scheduler's thread.
  std::shared_ptr<TokenMasks> masks(const std::string& key, const std::function<Grammar()>& make);
  // Where Core ML is predicted to run it; found out when first asked for.
  std::shared_ptr<const CheckReport> report();
  // Of a bundle of kind `classify`, to redact with; opened when first asked for.
  std::shared_ptr<const redact::RedactModel> redact_model(const std::shared_ptr<const Backend>& backend);

  std::atomic<uint64_t> encoded_tokens = 0, encoded_texts = 0;
  // What it did so far, and what is under way.
  SchedulerCounts counts() const;

 private:
  struct KnownMasks {
    std::string key;
    std::shared_ptr<TokenMasks> masks;
  };

  std::string name_;
  std::shared_ptr<const Bundle> bundle_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_;
  ToolForm form_ = ToolForm::generic;
  bool thinks_ = false;
  std::mutex grammar_mutex_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::list<KnownMasks> grammars_;  // the latest first
  std::mutex late_mutex_;
  std::shared_ptr<const CheckReport> report_;
  std::shared_ptr<const redact::RedactModel> redact_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Scheduler> scheduler_;  // last: its thread ends first
};

class ModelShelf {
 public:
  struct Entry {
    std::string name;
    std::filesystem::path path;
  };

  // Reads every bundle.json; Error for two bundles of one name.
  ModelShelf(std::vector<Entry> entries, ShelfOptions options);

  // Of that name; the first one for an empty name, the only one for every name. ApiError 404 otherwise.
  std::shared_ptr<ServedModel> get(const std::string& name);
  // The same, without waiting: null where it is not in memory.
  std::shared_ptr<ServedModel> loaded(const std::string& name);
  // What is loaded now.
  std::vector<std::shared_ptr<ServedModel>> loaded() const;
  // Of all models, also of those that were dropped.
  SchedulerCounts counts() const;
  void drop_idle();
  // Ends all answers; clients hear that the server stops.
  void stop_answers();
  void drop_all();  // for the end, when nobody asks any more

  struct Listed {
    std::string name;
    BundleKind kind;
    BundleInfo info;
    bool loaded = false;
    int64_t created = 0;
  };
  std::vector<Listed> list() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Place {
    Entry entry;
    BundleInfo info;
    int64_t created = 0;
    std::mutex loading;
    std::shared_ptr<ServedModel> model;  // under mutex_
    Clock::time_point used{};
  };

  Place& find(const std::string& name) const;
  void drop_if_idle(Place& place);

  ShelfOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Place>> places_;
  SchedulerCounts past_;  // of models that were dropped; under mutex_
};

}  // namespace anemone::serve
