// Personal data taken out of texts: by the model inside of the program, or by a classifier that is served.
#include <fmt/format.h>

#include "redact/document.h"
#include "redact/redactor.h"
#include "redact/shipped.h"
#include "serve/app.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostTexts = 256;

Json redacted(redact::Redactor& redactor, const std::string& text) {
  std::string out;
  Json findings = Json::array();
  redact::DocumentSettings settings;
  settings.encoding = redact::Encoding::utf8;
  settings.write = [&](std::string_view bytes) { out += bytes; };
  settings.found = [&](const redact::Finding& f) {
    findings.push_back({{"label", redactor.kinds()[static_cast<size_t>(f.kind)]},
                        {"start", f.range.begin.character},
                        {"end", f.range.end.character},
                        {"replacement", f.replacement},
                        {"score", f.score}});
  };
  redact::Document document(redactor, std::move(settings));
  document.feed(text);
  document.finish();
  while (document.step(true)) {
  }
  return {{"text", out}, {"findings", findings}};
}

}  // namespace

// The small model is converted when first asked for, and kept.
std::shared_ptr<const redact::RedactModel> App::redact_model(const Json& body, std::string& name) {
  name = Fields(body).text("model").value_or("");
  for (const ModelShelf::Listed& listed : shelf_->list())
    if (listed.name == name && listed.kind == BundleKind::classify)
      return shelf_->get(name)->redact_model(options_.shelf.backend());
  name = redact::kShippedName;
  const std::lock_guard lock(redact_mutex_);
  if (!redact_) {
    redact_ = redact::RedactModel::shipped(options_.shelf.backend());
  }
  return redact_;
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
  settings.threads = 1;
  if (const auto style = f.text("replace")) settings.replace.style = redact::find_style(*style);
  const std::string policy = f.text("policy").value_or("balanced");
  if (policy != "strict" && policy != "balanced" && policy != "quiet")
    throw ApiError(400, "'policy' must be strict, balanced or quiet", "policy");
  settings.policy = policy == "strict"  ? redact::Policy::strict
                    : policy == "quiet" ? redact::Policy::quiet
                                        : redact::Policy::balanced;
  std::string name;
  redact::Redactor redactor(settings, redact_model(body, name));
  Json data = Json::array();
  for (const std::string& text : texts) {
    if (call.exchange->gone()) return;
    Json one = redacted(redactor, text);
    one["index"] = data.size();
    data.push_back(std::move(one));
  }
  Json out = {{"object", "list"}, {"model", name}, {"data", data}};
  if (name == redact::kShippedName) out["note"] = redact::kShippedLimits;
  reply(call, out);
}

}  // namespace anemone::serve
