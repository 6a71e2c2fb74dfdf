#include "serve/served_model.h"

#include <sys/stat.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

#include "base/error.h"
#include "check/check.h"
#include "check/report.h"
#include "redact/model.h"
#include "runtime/prompt.h"
#include "serve/api_error.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostGrammars = 16;

}  // namespace

ServedModel::ServedModel(std::string name, const std::filesystem::path& path, const ShelfOptions& options)
    : name_(std::move(name)),
      bundle_(Bundle::open(path, options.backend_for(BundleInfo::read(path).kind))),
      tokenizer_(load_tokenizer(*bundle_)) {
  if (info().kind != BundleKind::generate) {
    encoder_ = std::make_unique<Encoder>(bundle_, EncoderOptions{});
    return;
  }
  const std::string source =
      options.chat_template.empty() ? tokenizer_->chat_template() : options.chat_template;
  if (!source.empty()) chat_.emplace(source);
  form_ = tool_form(source);
  thinks_ = source.find("</think>") != std::string::npos || source.find("<think>") != std::string::npos ||
            form_ == ToolForm::harmony;
  scheduler_ = std::make_unique<Scheduler>(bundle_, tokenizer_, options.scheduler);
}

std::shared_ptr<TokenMasks> ServedModel::masks(const std::string& key, const std::function<Grammar()>& make) {
  std::shared_ptr<const Grammar> grammar;
  {
    const std::lock_guard lock(grammar_mutex_);
    for (auto it = grammars_.begin(); it != grammars_.end(); ++it) {
      if (it->key != key) continue;
      if (!it->masks->full()) {
        grammars_.splice(grammars_.begin(), grammars_, it);
        return it->masks;
      }
      grammar = it->masks->grammar();  // answers that use the masks keep them
      grammars_.erase(it);
      break;
    }
  }
  if (!grammar)
    grammar = std::make_shared<const Grammar>(make());  // outside of the lock: it may take its time
  const std::lock_guard lock(grammar_mutex_);
  if (!vocabulary_)
    vocabulary_ =
        std::make_shared<const GrammarVocabulary>(*tokenizer_, end_tokens(*bundle_, tokenizer_.get()));
  grammars_.push_front({key, std::make_shared<TokenMasks>(std::move(grammar), vocabulary_)});
  if (grammars_.size() > kMostGrammars) grammars_.pop_back();
  return grammars_.front().masks;
}

SchedulerCounts ServedModel::counts() const {
  SchedulerCounts out;
  if (scheduler_) out = scheduler_->counts();
  out.prompt_tokens += encoded_tokens;
  out.rounds += encoded_texts;
  return out;
}

std::shared_ptr<const CheckReport> ServedModel::report() {
  const std::lock_guard lock(late_mutex_);
  if (!report_) report_ = std::make_shared<const CheckReport>(check(bundle_->path(), {}));
  return report_;
}

std::shared_ptr<const redact::RedactModel> ServedModel::redact_model(
    const std::shared_ptr<const Backend>& backend) {
  const std::lock_guard lock(late_mutex_);
  if (!redact_) redact_ = redact::RedactModel::open(bundle_->path(), backend);
  return redact_;
}

ModelShelf::ModelShelf(std::vector<Entry> entries, ShelfOptions options) : options_(std::move(options)) {
  for (Entry& entry : entries) {
    auto place = std::make_unique<Place>();
    place->info = BundleInfo::read(entry.path);
    struct stat status {};
    if (::stat((entry.path / kBundleFile).c_str(), &status) == 0) place->created = status.st_mtime;
    for (const auto& other : places_)
      if (other->entry.name == entry.name)
        throw errorf("two bundles have the name '{}'", entry.name).hint("give each a name with --alias");
    place->entry = std::move(entry);
    places_.push_back(std::move(place));
  }
}

// One model answers to every name: clients send the name that they were made with.
ModelShelf::Place& ModelShelf::find(const std::string& name) const {
  for (const auto& place : places_)
    if (place->entry.name == name) return *place;
  if (places_.size() == 1 || name.empty()) return *places_.front();
  ApiError error(404, fmt::format("there is no model '{}'", name.substr(0, 100)), "model");
  error.more["code"] = "model_not_found";
  throw error;
}

std::shared_ptr<ServedModel> ModelShelf::loaded(const std::string& name) {
  Place& place = find(name);
  const std::lock_guard lock(mutex_);
  place.used = Clock::now();
  return place.model;
}

std::shared_ptr<ServedModel> ModelShelf::get(const std::string& name) {
  if (auto model = loaded(name)) return model;
  Place& place = find(name);
  const std::lock_guard loading(place.loading);
  if (auto model = loaded(name)) return model;
  auto model = std::make_shared<ServedModel>(place.entry.name, place.entry.path, options_);
  const std::lock_guard lock(mutex_);
  place.model = model;
  place.used = Clock::now();
  return model;
}

std::vector<std::shared_ptr<ServedModel>> ModelShelf::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<ServedModel>> out;
  for (const auto& place : places_)
    if (place->model) out.push_back(place->model);
  return out;
}

SchedulerCounts ModelShelf::counts() const {
  const std::lock_guard lock(mutex_);
  SchedulerCounts out = past_;
  for (const auto& place : places_)
    if (place->model) out += place->model->counts();
  return out;
}

void ModelShelf::drop_idle() {
  if (options_.idle_seconds <= 0) return;
  for (const auto& place : places_) {
    // Who asks for it meanwhile waits until it has ended, and loads it again: it is never in memory twice.
    const std::unique_lock loading(place->loading, std::try_to_lock);
    if (loading) drop_if_idle(*place);
  }
}

void ModelShelf::drop_if_idle(Place& place) {
  std::shared_ptr<ServedModel> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (!place.model) return;
    const bool busy =
        place.model.use_count() > 1 || (place.model->scheduler() && !place.model->scheduler()->idle());
    if (busy) place.used = Clock::now();
    const double idle = std::chrono::duration<double>(Clock::now() - place.used).count();
    if (busy || idle < options_.idle_seconds) return;
    past_ += place.model->counts().totals();
    dropped = std::move(place.model);
  }
  dropped.reset();  // outside of mutex_: it may have texts to save
#ifdef __GLIBC__
  ::malloc_trim(0);  // the memory goes back to the system, not only to this process
#endif
}

void ModelShelf::stop_answers() {
  const auto models = loaded();
  for (const auto& model : models)
    if (model->scheduler()) model->scheduler()->begin_stop();  // each may have texts to save: all at once
  for (const auto& model : models)
    if (model->scheduler()) model->scheduler()->stop();
}

// Answers hold on to their model. So they end first: a scheduler cannot be destroyed by its own thread.
void ModelShelf::drop_all() {
  stop_answers();
  std::vector<std::shared_ptr<ServedModel>> dropped;
  const std::lock_guard lock(mutex_);
  for (const auto& place : places_)
    if (place->model) dropped.push_back(std::move(place->model));
}

std::vector<ModelShelf::Listed> ModelShelf::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listed> out;
  for (const auto& place : places_)
    out.push_back(
        {place->entry.name, place->info.kind, place->info, place->model != nullptr, place->created});
  return out;
}

}  // namespace anemone::serve
