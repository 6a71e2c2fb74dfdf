// Personal data taken out of texts: by the model inside of the program, or by a classifier that is served.
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "redact/document.h"
#include "redact/redactor.h"
#include "redact/shipped.h"
#include "redact/windows.h"
#include "serve/app.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostTexts = 256;

// A text on its way. It is read piece by piece, so that few windows wait at any time.
class TextOnTheWay {
 public:
  TextOnTheWay(redact::Redactor& redactor, std::string_view text)
      : redactor_(redactor), text_(text), document_(redactor, settings()) {}
  TextOnTheWay(const TextOnTheWay&) = delete;
  TextOnTheWay& operator=(const TextOnTheWay&) = delete;

  bool read_all() const { return finished_; }
  void read_more() {
    const size_t size = std::min(text_.size(), kPiece);
    if (size > 0) document_.feed(text_.substr(0, size));
    text_.remove_prefix(size);
    if (!text_.empty()) return;
    document_.finish();
    finished_ = true;
  }
  // Takes what comes next; waits for it. False: there is nothing before more is read.
  bool step() { return document_.step(true); }
  bool done() const { return document_.done(); }
  Json answer() { return {{"text", out_}, {"findings", std::move(findings_)}}; }

 private:
  static constexpr size_t kPiece = 1 << 16;

  redact::DocumentSettings settings() {
    redact::DocumentSettings settings;
    settings.encoding = redact::Encoding::utf8;
    settings.write = [this](std::string_view bytes) { out_ += bytes; };
    settings.found = [this](const redact::Finding& f) {
      findings_.push_back({{"label", redactor_.kinds()[static_cast<size_t>(f.kind)]},
                           {"start", f.range.begin.character},
                           {"end", f.range.end.character},
                           {"replacement", f.replacement},
                           {"score", f.score}});
    };
    return settings;
  }

  redact::Redactor& redactor_;
  std::string_view text_;  // what is left of it
  bool finished_ = false;
  std::string out_;
  Json findings_ = Json::array();
  redact::Document document_;
};

// All texts, with the windows of several of them under way at once; they end in their order. Nothing when `wanted`
// says no.
std::optional<Json> redact_all(redact::Redactor& redactor, const std::vector<std::string>& texts,
                               const std::function<bool()>& wanted) {
  Json data = Json::array();
  std::deque<TextOnTheWay> under_way;  // all but the last are read
  size_t next = 0;
  while (data.size() < texts.size()) {
    if (!wanted()) return std::nullopt;
    while (!redactor.busy() && (next < texts.size() || !under_way.back().read_all())) {
      if (under_way.empty() || under_way.back().read_all()) under_way.emplace_back(redactor, texts[next++]);
      under_way.back().read_more();
    }
    TextOnTheWay& first = under_way.front();
    if (first.step() || !first.done()) continue;
    Json one = first.answer();
    one["index"] = data.size();
    data.push_back(std::move(one));
    under_way.pop_front();
  }
  return data;
}

// Of a request, the kinds of data alone can be wrong.
std::unique_ptr<redact::Redactor> redactor_of(const redact::RedactSettings& settings,
                                              const std::shared_ptr<const redact::RedactModel>& model) {
  try {
    return std::make_unique<redact::Redactor>(settings, model);
  } catch (const Error& e) {
    throw ApiError(400,
                   fmt::format("'labels' names a kind that the model does not have; found {}; expected {}",
                               e.found(), e.expected()),
                   "labels");
  }
}

}  // namespace

// The small model is converted when first asked for, and kept. With one bundle that is no classifier every name means
// the small one, as every name means that bundle elsewhere.
std::shared_ptr<const redact::RedactModel> App::redact_model(const Call& call, const Json& body,
                                                             std::string& name) {
  name = Fields(body).text("model").value_or("");
  const std::vector<ModelShelf::Listed> all = shelf_->list();
  const auto named =
      std::find_if(all.begin(), all.end(), [&](const ModelShelf::Listed& l) { return l.name == name; });
  const bool classifier = named != all.end() && named->kind == BundleKind::classify;
  if (all.size() > 1 && !name.empty() && name != redact::kShippedName && !classifier) {
    model_named(call, name);  // says that there is none
    throw ApiError(400, fmt::format("the model '{}' does not say what is personal", name), "model");
  }
  try {
    if (classifier) {
      // Whoever redacts holds on to the served model, too: it is not dropped meanwhile.
      struct Held {
        std::shared_ptr<ServedModel> served;
        std::shared_ptr<const redact::RedactModel> model;
      };
      const auto held = std::make_shared<Held>();
      held->served = model_named(call, name);
      if (held->served->info().pooling)
        throw ApiError(400, fmt::format("the model '{}' gives one label to a whole text", name), "model");
      held->model = held->served->redact_model(options_.shelf.backend_for(BundleKind::classify));
      return {held, held->model.get()};
    }
    name = redact::kShippedName;
    const std::lock_guard lock(redact_mutex_);
    if (!redact_) redact_ = redact::RedactModel::shipped(options_.shelf.backend_for(BundleKind::classify));
    return redact_;
  } catch (const std::exception& problem) {
    throw fault_of_server("the model cannot be loaded", problem);
  }
}

void App::redact_texts(const Call& call) {
  const Json body = body_of(call);
  const Fields f(body);
  const std::vector<std::string> texts = f.texts("input");
  if (texts.empty()) throw ApiError(400, "'input' must be a text or a list of texts", "input");
  if (texts.size() > kMostTexts)
    throw ApiError(400, fmt::format("'input' has more than {} texts", kMostTexts), "input");
  redact::RedactSettings settings;
  settings.labels = f.texts("labels");
  settings.threads = options_.shelf.backend_for(BundleKind::classify)->calls_at_once();
  if (const auto style = f.text("replace")) {
    try {
      settings.replace.style = redact::find_style(*style);
    } catch (const Error& e) {
      throw ApiError(400, as_api_error(e).what(), "replace");
    }
  }
  const std::string policy = f.text("policy").value_or("balanced");
  if (policy != "strict" && policy != "balanced" && policy != "quiet")
    throw ApiError(400, "'policy' must be strict, balanced or quiet", "policy");
  settings.policy = policy == "strict"  ? redact::Policy::strict
                    : policy == "quiet" ? redact::Policy::quiet
                                        : redact::Policy::balanced;
  std::string name;
  const auto model = redact_model(call, body, name);
  const std::unique_ptr<redact::Redactor> redactor = redactor_of(settings, model);
  std::optional<Json> data;
  try {
    data = redact_all(*redactor, texts, patience(call));
  } catch (const redact::TextTooLong& problem) {
    throw ApiError(400, as_api_error(problem).what(), "input");
  } catch (const std::exception& problem) {
    throw fault_of_server("the model could not go on", problem);
  }
  if (!data) return end_unfinished(call);
  {
    const std::lock_guard lock(mutex_);
    redacted_texts_ += texts.size();
    for (const std::string& text : texts) redacted_bytes_ += text.size();
  }
  Json out = {{"object", "list"}, {"model", name}, {"data", *data}};
  if (name == redact::kShippedName) out["note"] = redact::kShippedLimits;
  reply(call, out);
}

}  // namespace anemone::serve
