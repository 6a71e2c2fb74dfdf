// The requests that are answered at once: what there is, how it goes, tokens, vectors.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/json_text.h"
#include "runtime/session.h"
#include "serve/app.h"
#include "serve/chat_prompt.h"
#include "text/unicode.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostInputs = 2048;

// One counter or gauge in Prometheus' text form.
void add_metric(std::string& out, std::string_view name, std::string_view kind, std::string_view help,
                double value) {
  out += fmt::format("# HELP llamacpp:{0} {2}.\n# TYPE llamacpp:{0} {1}\nllamacpp:{0} {3}\n", name, kind,
                     help, value);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kSigns = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
    };
    const unsigned three = at(0) << 16 | at(1) << 8 | at(2);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kSigns[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// A vector as OpenAI gives it: of length 1, as numbers or as the bytes of its floats.
Json vector_json(std::vector<float> vector, const std::string& format) {
  normalize(vector);
  if (format != "base64") return vector;
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return base64(bytes);
}

// One text: as it is, as {"prompt_string": …}, as {"content": [parts]}, or as a list of tokens and texts.
std::vector<int32_t> input_ids(const Json& one, const ServedModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer();
  const auto encode = [&](const std::string& text, bool first) {
    return tokenizer.encode(text, {.add_special = first});
  };
  if (one.is_string()) return encode(one.get<std::string>(), true);
  if (one.is_object() && one.value("prompt_string", Json()).is_string())
    return encode(one["prompt_string"].get<std::string>(), true);
  if (one.is_object() && one.value("content", Json()).is_array()) {
    std::string text;
    for (const Json& part : one["content"]) {
      if (!part.is_object() || part.value("type", Json()) != Json("text") ||
          !part.value("text", Json()).is_string())
        throw ApiError(400, "'input' has a part that is no text", "input");
      text += part["text"].get<std::string>();
    }
    return encode(text, true);
  }
  if (!one.is_array()) throw ApiError(400, "'input' must be a text, a list of texts or of tokens", "input");
  std::vector<int32_t> out;
  for (const Json& part : one) {
    if (part.is_string()) {
      const std::vector<int32_t> ids = encode(part.get<std::string>(), out.empty());
      out.insert(out.end(), ids.begin(), ids.end());
      continue;
    }
    if (!part.is_number_integer() || part < 0 || part >= model.info().vocab)
      throw ApiError(400, "'input' has a token that is not in the vocabulary", "input");
    out.push_back(part.get<int32_t>());
  }
  return out;
}

// The texts or token lists of an embeddings request.
std::vector<std::vector<int32_t>> inputs_of(const Json& body, const ServedModel& model) {
  const Json* input = Fields(body).find("input");
  if (!input) input = Fields(body).find("content");
  if (!input) throw ApiError(400, "'input' is missing", "input");
  std::vector<std::vector<int32_t>> out;
  const auto add = [&](const Json& one) {
    out.push_back(input_ids(one, model));
    const int64_t longest = model.encoder()->longest();
    if (out.back().empty()) throw ApiError(400, "a text of 'input' is empty", "input");
    if (static_cast<int64_t>(out.back().size()) <= longest) return;
    ApiError error(400,
                   fmt::format("a text is too large: it has {} tokens, and the model takes {}",
                               out.back().size(), longest),
                   "input");
    error.more = {
        {"type", "exceed_context_size_error"}, {"n_prompt_tokens", out.back().size()}, {"n_ctx", longest}};
    throw error;
  };
  // A list with a number in it is one text of tokens.
  const bool list =
      input->is_array() && !input->empty() &&
      std::none_of(input->begin(), input->end(), [](const Json& part) { return part.is_number(); });
  if (!list)
    add(*input);
  else if (input->size() > kMostInputs)
    throw ApiError(400, fmt::format("'input' has more than {} texts", kMostInputs), "input");
  else
    for (const Json& one : *input) add(one);
  return out;
}

}  // namespace

void App::health(const Call& call) { reply(call, {{"status", "ok"}}); }

void App::models(const Call& call) {
  Json data = Json::array();
  for (const ModelShelf::Listed& m : shelf_->list()) {
    int64_t context = 0;
    for (const Stage& stage : m.info.stages)
      for (const StageFunction& f : stage.functions)
        context = std::max(context, f.context ? f.context : f.most_tokens);
    uint64_t bytes = 0;
    for (const BundleFile& file : m.info.files) bytes += file.bytes;
    data.push_back({{"id", m.name},
                    {"object", "model"},
                    {"created", m.created},
                    {"owned_by", "anemone"},
                    {"meta",
                     {{"kind", kind_name(m.kind)},
                      {"family", m.info.family},
                      {"n_vocab", m.info.vocab},
                      {"n_ctx", context},
                      {"n_ctx_train", m.info.model_context},
                      {"n_embd", m.info.hidden},
                      {"precision", m.info.precision},
                      {"size", bytes},
                      {"loaded", m.loaded}}}});
  }
  reply(call, {{"object", "list"}, {"data", data}});
}

void App::embeddings(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = model_of(call, body);
  if (!model->encoder() || model->info().kind != BundleKind::embed)
    throw ApiError(400, fmt::format("the model '{}' gives no vectors", model->name()), "model");
  const Fields f(body);
  const std::string format = f.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw ApiError(400, "'encoding_format' must be float or base64", "encoding_format");
  if (const auto size = f.integer("dimensions", 1, 1 << 20); size && *size != model->info().hidden)
    throw ApiError(400, fmt::format("'dimensions' must be {}, as the model has it", model->info().hidden),
                   "dimensions");
  const std::vector<std::vector<int32_t>> ids = inputs_of(body, *model);
  std::vector<EncoderText> texts;
  for (const std::vector<int32_t>& one : ids) texts.push_back({.ids = one});
  std::vector<Json> data(ids.size());
  int64_t tokens = 0;
  const auto take = [&](size_t i, EncodedText encoded) {
    tokens += encoded.tokens;
    data[i] = {{"object", "embedding"}, {"index", i}, {"embedding", vector_json(encoded.pooled, format)}};
    model->encoded_texts += 1;
    model->encoded_tokens += static_cast<uint64_t>(encoded.tokens);
  };
  try {
    model->encoder()->each(texts, model->bundle().backend().calls_at_once(), take, patience(call));
  } catch (const Cancelled&) {
    return end_unfinished(call);
  } catch (const std::exception& problem) {  // the texts were looked at before
    throw fault_of_server("the model could not go on", problem);
  }
  reply(call, {{"object", "list"},
               {"data", data},
               {"model", model->name()},
               {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

void App::tokenize(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = model_of(call, body);
  const Fields f(body);
  const std::string content = f.text("content").value_or("");
  const std::vector<int32_t> ids =
      model->tokenizer()->encode(content, {.add_special = f.flag("add_special").value_or(false),
                                           .parse_special = f.flag("parse_special").value_or(true)});
  Json tokens = Json::array();
  const bool pieces = f.flag("with_pieces").value_or(false);
  for (const int32_t id : ids) {
    if (!pieces) {
      tokens.push_back(id);
      continue;
    }
    const std::string bytes = model->tokenizer()->bytes(id);
    Json piece = bytes;
    if (!is_valid_utf8(bytes)) {
      piece = Json::array();
      for (const char c : bytes) piece.push_back(static_cast<unsigned char>(c));
    }
    tokens.push_back({{"id", id}, {"piece", piece}});
  }
  reply(call, {{"tokens", tokens}});
}

void App::detokenize(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = model_of(call, body);
  const Json* tokens = Fields(body).find("tokens");
  if (!tokens || !tokens->is_array()) throw ApiError(400, "'tokens' must be a list of numbers", "tokens");
  std::vector<int32_t> ids;
  for (const Json& id : *tokens) {
    if (!id.is_number_integer() || id < 0 || id >= model->info().vocab)
      throw ApiError(400, "'tokens' must be a list of numbers of the vocabulary", "tokens");
    ids.push_back(id.get<int32_t>());
  }
  reply(call, {{"content", model->tokenizer()->decode(ids)}});
}

void App::apply_template(const Call& call) {
  const Json body = body_of(call);
  reply(call, {{"prompt", chat_prompt(body, *text_model(call, body)).text}});
}

void App::props(const Call& call) {
  const std::shared_ptr<ServedModel> model = model_named(call, query_value(call.request().query, "model"));
  const ServeDefaults& d = options_.defaults;
  const bool text = model->scheduler() != nullptr;
  Json params = {{"temperature", d.temperature},
                 {"top_k", d.top_k},
                 {"top_p", d.top_p},
                 {"min_p", d.min_p},
                 {"n_predict", d.most_new},
                 {"seed", d.seed ? Json(*d.seed) : Json(nullptr)}};
  const Tokenizer& tokenizer = *model->tokenizer();
  reply(call, {{"default_generation_settings", {{"n_ctx", model->context()}, {"params", params}}},
               {"total_slots", text ? model->scheduler()->options().slots : 0},
               {"model_alias", model->name()},
               {"model_path", model->name()},
               {"chat_template", model->chat() ? model->chat()->source() : ""},
               {"bos_token", tokenizer.piece(tokenizer.bos())},
               {"eos_token", tokenizer.piece(tokenizer.eos())},
               {"modalities", {{"vision", false}, {"audio", false}}},
               {"build_info", kFingerprint}});
}

void App::slots(const Call& call) {
  Json out = Json::array();
  for (const auto& model : shelf_->loaded()) {
    if (!model->scheduler()) continue;
    for (const SlotState& s : model->scheduler()->slots())
      out.push_back({{"id", out.size()},
                     {"model", model->name()},
                     {"n_ctx", model->context()},
                     {"is_processing", s.busy},
                     {"id_task", s.task},
                     {"n_prompt_tokens", s.prompt},
                     {"n_prompt_tokens_processed", s.done},
                     {"n_prompt_tokens_cache", s.reused},
                     {"n_past", s.position},
                     {"tokens_per_second", s.tokens_per_second},
                     {"next_token", Json::array({{{"n_remain", s.left}, {"n_decoded", s.made}}})}});
  }
  reply(call, out);
}

void App::metrics(const Call& call) {
  const SchedulerCounts all = shelf_->counts();
  const auto over = [](double a, double b) { return b > 0 ? a / b : 0.0; };
  const auto d = [](uint64_t n) { return static_cast<double>(n); };
  std::string out;
  add_metric(out, "prompt_tokens_total", "counter", "Prompt tokens that were computed", d(all.prompt_tokens));
  add_metric(out, "prompt_tokens_cached_total", "counter", "Prompt tokens that the cache knew",
             d(all.reused_tokens));
  add_metric(out, "prompt_seconds_total", "counter", "Time for prompts", all.prompt_seconds);
  add_metric(out, "tokens_predicted_total", "counter", "Tokens of answers", d(all.new_tokens));
  add_metric(out, "tokens_predicted_seconds_total", "counter", "Time for answers", all.decode_seconds);
  add_metric(out, "n_decode_total", "counter", "Rounds of decoding", d(all.rounds));
  add_metric(out, "prompt_tokens_seconds", "gauge", "Prompt tokens in a second",
             over(d(all.prompt_tokens), all.prompt_seconds));
  add_metric(out, "predicted_tokens_seconds", "gauge", "Tokens of answers in a second",
             over(d(all.new_tokens), all.decode_seconds));
  add_metric(out, "requests_processing", "gauge", "Answers under way", d(all.busy));
  add_metric(out, "requests_deferred", "gauge", "Answers that wait for a slot", d(all.waiting));
  add_metric(out, "n_busy_slots_per_decode", "gauge", "Answers in a round of decoding",
             over(d(all.decoded_in_rounds), d(all.rounds)));
  add_metric(out, "requests_cancelled_total", "counter", "Answers that nobody waited for", d(all.cancelled));
  add_metric(out, "cache_bytes", "gauge", "Memory of sessions that nobody uses now", d(all.cache_bytes));
  add_metric(out, "cache_sessions", "gauge", "Sessions that nobody uses now", d(all.cached_sessions));
  add_metric(out, "cache_file_bytes", "gauge", "Session files of the loaded models", d(all.file_bytes));
  add_metric(out, "cache_files", "gauge", "Session files, how many", d(all.files));
  add_metric(out, "cache_files_read_total", "counter", "Session files that an answer went on from",
             d(all.files_read));
  add_metric(out, "connections", "gauge", "Open connections", d(http_->connections()));
  add_metric(out, "connections_refused_total", "counter", "Connections beyond the limit",
             d(http_->turned_away()));
  {
    const std::lock_guard lock(mutex_);
    add_metric(out, "redact_texts_total", "counter", "Texts that were redacted", d(redacted_texts_));
    add_metric(out, "redact_bytes_total", "counter", "Bytes of these texts", d(redacted_bytes_));
    out += "# HELP llamacpp:responses_total Answers by status.\n# TYPE llamacpp:responses_total counter\n";
    for (const auto& [status, count] : answers_)
      out += fmt::format("llamacpp:responses_total{{status=\"{}\"}} {}\n", status, count);
  }
  HttpHeaders headers = call.headers;
  headers.emplace_back(
      "Process-Start-Time-Unix",
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(started_.time_since_epoch()).count()));
  call.exchange->reply(200, "text/plain; version=0.0.4", out, headers);
}

}  // namespace anemone::serve
