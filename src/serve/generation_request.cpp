#include "serve/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/json_text.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostStops = 16, kMostStopBytes = 500, kMostGrammarBytes = 256 << 10;
constexpr int64_t kMostChoices = 16;

void read_sampling(const Fields& f, const ServeDefaults& defaults, SamplerOptions& s) {
  s.temperature = f.number("temperature", 0, 100).value_or(defaults.temperature);
  s.top_p = std::max(f.number("top_p", 0, 1).value_or(defaults.top_p), 1e-9);
  s.min_p = f.number("min_p", 0, 1).value_or(defaults.min_p);
  s.top_k = std::max<int64_t>(f.integer("top_k", -1, 1 << 30).value_or(defaults.top_k), 0);
  s.repetition_penalty = f.number("repeat_penalty", 0, 100).value_or(1);
  if (s.repetition_penalty == 0) throw ApiError(400, "'repeat_penalty' must be above 0", "repeat_penalty");
  s.repetition_window = f.integer("repeat_last_n", -1, 1 << 20).value_or(64);
  if (s.repetition_window < 0) s.repetition_window = 1 << 20;
  s.presence_penalty = f.number("presence_penalty", -100, 100).value_or(0);
  s.frequency_penalty = f.number("frequency_penalty", -100, 100).value_or(0);
}

// llama.cpp's order of samplers, by names or by letters. One that is not in it does not run. Ours have one order, but
// for the temperature: it comes before the others that choose, or behind them.
void read_samplers(const Fields& f, SamplerOptions& s) {
  const Json* given = f.find("samplers");
  if (!given) return;
  static const std::map<char, std::string> letters = {
      {'e', "penalties"}, {'k', "top_k"}, {'p', "top_p"}, {'m', "min_p"},      {'t', "temperature"},
      {'d', "dry"},       {'y', "typ_p"}, {'x', "xtc"},   {'s', "top_n_sigma"}};
  std::vector<std::string> names;
  if (given->is_string())
    for (const char c : given->get<std::string>())
      names.push_back(letters.contains(c) ? letters.at(c) : std::string(1, c));
  else
    names = f.texts("samplers");
  const std::vector<std::string> order = {"penalties", "top_k", "top_p", "min_p"};
  const std::vector<std::string> off = {"dry", "typ_p", "typical_p", "xtc",
                                        "top_n_sigma"};  // refused where asked for
  std::vector<std::string> ours;
  size_t temperature = names.size();
  for (const std::string& name : names) {
    if (name == "temperature" || name == "temp")
      temperature = ours.size();
    else if (std::find(order.begin(), order.end(), name) != order.end())
      ours.push_back(name);
    else if (std::find(off.begin(), off.end(), name) == off.end())
      f.refuse("samplers", fmt::format("there is no sampler '{}'", name.substr(0, 40)));
  }
  const auto place = [&](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  const auto has = [&](const std::string& name) {
    return std::find(ours.begin(), ours.end(), name) != ours.end();
  };
  const size_t choosers = ours.size() - (has("penalties") ? 1 : 0);
  const bool first = temperature <= ours.size() - choosers;
  s.temperature_last = choosers > 0 && temperature == ours.size();
  if (!std::is_sorted(ours.begin(), ours.end(),
                      [&](const auto& a, const auto& b) { return place(a) < place(b); }) ||
      (temperature < names.size() && !first && !s.temperature_last))
    f.refuse("samplers",
             "the order is penalties, top_k, top_p, min_p, with temperature before or behind the last three");
  if (temperature == names.size()) s.temperature = s.greedy() ? 0 : 1;
  if (!has("top_k")) s.top_k = 0;
  if (!has("top_p")) s.top_p = 1;
  if (!has("min_p")) s.min_p = 0;
  if (!has("penalties")) s.repetition_penalty = 1, s.presence_penalty = 0, s.frequency_penalty = 0;
}

// OpenAI's {"id": bias} and llama.cpp's [[id or text, bias or false], …].
void read_biases(const Fields& f, const ServedModel& model, SamplerOptions& s) {
  const Json* given = f.find("logit_bias");
  if (!given) return;
  const auto add = [&](const Json& what, const Json& bias) {
    const bool never = bias.is_boolean() && !bias.get<bool>();
    if (!never && !bias.is_number())
      throw ApiError(400, "a bias of 'logit_bias' must be a number", "logit_bias");
    // -100 means never in OpenAI's API.
    const float value =
        never || bias.get<double>() <= -100 ? -std::numeric_limits<float>::infinity() : bias.get<float>();
    std::vector<int32_t> ids;
    if (what.is_number_integer()) ids = {what.get<int32_t>()};
    if (what.is_string()) {
      const std::string text = what.get<std::string>();
      int32_t id = 0;
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
      const bool number = given->is_object() && problem == std::errc() && end == text.data() + text.size();
      ids = number ? std::vector{id} : model.tokenizer()->encode(text);
    }
    for (const int32_t id : ids) {
      if (id < 0 || id >= model.info().vocab)
        throw ApiError(400, fmt::format("the token {} of 'logit_bias' is not in the vocabulary", id),
                       "logit_bias");
      s.biases.emplace_back(id, value);
    }
  };
  if (given->is_object()) {
    for (const auto& [id, bias] : given->items()) add(Json(id), bias);
  } else if (given->is_array()) {
    for (const Json& pair : *given) {
      if (pair.is_array() && pair.size() == 2)
        add(pair[0], pair[1]);
      else if (pair.is_object() && pair.contains("token") && pair.contains("bias"))
        add(pair["token"], pair["bias"]);
      else
        throw ApiError(400, "an entry of 'logit_bias' must be [token, bias]", "logit_bias");
    }
  } else {
    throw ApiError(400, "'logit_bias' must be an object", "logit_bias");
  }
}

std::shared_ptr<TokenMasks> schema_masks(ServedModel& model, const Json& schema, const char* field) {
  try {
    return model.masks("schema:" + json_text(schema), [&] { return schema_grammar(schema); });
  } catch (const Error& e) {
    throw ApiError(400, as_api_error(e).what(), field);
  }
}

std::shared_ptr<TokenMasks> format_masks(ServedModel& model, const Json& format) {
  if (!format.is_object()) throw ApiError(400, "'response_format' must be an object", "response_format");
  const std::string type = format.value("type", Json("")).is_string() ? format.value("type", "") : "";
  if (type == "text") return nullptr;
  if (type == "json_object") {
    if (format.contains("schema")) return schema_masks(model, format["schema"], "response_format");
    return model.masks("json", json_grammar);
  }
  if (type != "json_schema")
    throw ApiError(400, "'response_format.type' must be text, json_object or json_schema", "response_format");
  const Json& inner = format.contains("json_schema") ? format["json_schema"] : format;
  if (!inner.is_object() || (&inner == &format && !format.contains("schema")))
    throw ApiError(400, "'response_format.json_schema' must be an object with a 'schema'", "response_format");
  // OpenAI's API lets the schema itself out: any JSON.
  if (!inner.contains("schema") || inner["schema"].is_null()) return model.masks("json", json_grammar);
  return schema_masks(model, inner["schema"], "response_format");
}

std::shared_ptr<TokenMasks> read_grammar(const Fields& f, ServedModel& model) {
  const Json *format = f.find("response_format"), *schema = f.find("json_schema");
  const std::string grammar = f.text("grammar").value_or("");
  if (!grammar.empty() && schema)
    throw ApiError(400, "'grammar' and 'json_schema' are two ways to say it", "grammar");
  if (grammar.size() > kMostGrammarBytes) throw ApiError(400, "'grammar' is too large", "grammar");
  if (!grammar.empty()) {
    try {
      return model.masks("gbnf:" + grammar, [&] { return parse_gbnf(grammar); });
    } catch (const Error& e) {
      throw ApiError(400, fmt::format("{} ({})", e.message(), e.where()), "grammar");
    }
  }
  if (schema) return schema_masks(model, *schema, "json_schema");
  return format ? format_masks(model, *format) : nullptr;
}

void read_chances(const Fields& f, GenerateOptions& options) {
  // The chat API has a flag and a number, the older one a number alone; llama.cpp says n_probs.
  const Json* logprobs = f.find("logprobs");
  if (logprobs && logprobs->is_boolean()) {
    if (logprobs->get<bool>()) options.chances = f.integer("top_logprobs", 0, 20).value_or(0);
  } else if (logprobs) {
    options.chances = f.integer("logprobs", 0, 20).value_or(0);
  }
  if (options.chances < 0 && f.integer("top_logprobs", 0, 20).value_or(0) > 0)
    throw ApiError(400, "'top_logprobs' needs 'logprobs': true", "top_logprobs");
  if (const auto n = f.integer("n_probs", 0, 100); n && *n > 0) options.chances = *n;
}

void read_stream(const Fields& f, GenerationRequest& r) {
  r.stream = f.flag("stream").value_or(false);
  if (const Json* more = f.find("stream_options")) {
    if (!more->is_object()) throw ApiError(400, "'stream_options' must be an object", "stream_options");
    r.usage_chunk = Fields(*more).flag("include_usage").value_or(false);
  }
  r.timings_each = f.flag("timings_per_token").value_or(false);
  r.progress = f.flag("return_progress").value_or(false);
  r.verbose = f.flag("verbose").value_or(false);
  r.reuse = f.flag("cache_prompt").value_or(true);
  r.one_call = !f.flag("parallel_tool_calls").value_or(true);
}

void refuse_unsupported(const Fields& f) {
  f.refuse("audio", "answers are text");
  f.refuse("functions", "use 'tools'");
  f.refuse("function_call", "use 'tool_choice'");
  f.refuse("web_search_options", "the server reaches nothing");
  f.refuse("lora", "a bundle has its weights as they are");
  f.refuse("post_sampling_probs", "probabilities are the model's own");
  f.refuse("suffix", "text is only continued at its end");
  f.refuse("echo", "the prompt is not repeated");
  f.refuse("best_of", "use 'n'");
  if (const auto off = f.number("xtc_probability", 0, 1); off && *off > 0)
    f.refuse("xtc_probability", "another sampler");
  if (const auto off = f.number("dry_multiplier", -1e9, 1e9); off && *off > 0)
    f.refuse("dry_multiplier", "another sampler");
  if (const auto off = f.number("dynatemp_range", -1e9, 1e9); off && *off > 0)
    f.refuse("dynatemp_range", "another sampler");
  for (const char* name : {"typical_p", "typ_p"})
    if (const auto off = f.number(name, 0, 1); off && *off < 1) f.refuse(name, "another sampler");
  if (const auto off = f.number("top_n_sigma", -1e9, 1e9); off && *off > 0)
    f.refuse("top_n_sigma", "another sampler");
  if (const auto off = f.integer("t_max_predict_ms", -1, INT64_MAX); off && *off > 0)
    f.refuse("t_max_predict_ms", "--timeout is the server's");
  if (const auto off = f.integer("mirostat", 0, 2); off && *off > 0) f.refuse("mirostat", "another sampler");
  if (const Json* kinds = f.find("modalities"))
    if (*kinds != Json::array({"text"})) f.refuse("modalities", "answers are text");
}

}  // namespace

GenerationRequest read_generation(const Json& body, ServedModel& model, const ServeDefaults& defaults) {
  const Fields f(body);
  if (!model.scheduler())
    throw ApiError(400, fmt::format("the model '{}' gives vectors or classes, not text", model.name()),
                   "model");
  refuse_unsupported(f);
  GenerationRequest r;
  read_sampling(f, defaults, r.options.sampling);
  read_samplers(f, r.options.sampling);
  read_biases(f, model, r.options.sampling);
  r.options.grammar = read_grammar(f, model);
  read_chances(f, r.options);
  read_stream(f, r);
  r.options.ignore_eos = f.flag("ignore_eos").value_or(false);
  r.options.stops = f.texts("stop");
  std::erase_if(r.options.stops, [](const std::string& s) { return s.empty(); });
  if (r.options.stops.size() > kMostStops)
    throw ApiError(400, fmt::format("'stop' has more than {} texts", kMostStops), "stop");
  for (const std::string& stop : r.options.stops)
    if (stop.size() > kMostStopBytes) throw ApiError(400, "a text of 'stop' is too long", "stop");
  r.choices = f.integer("n", 1, kMostChoices).value_or(1);
  for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens", "max_output_tokens"})
    if (const auto n = f.integer(name, -1, 1 << 30)) r.wanted_new = *n;
  if (defaults.most_new >= 0)
    r.wanted_new = r.wanted_new < 0 ? defaults.most_new : std::min(r.wanted_new, defaults.most_new);
  const auto seed = f.integer("seed", -1, INT64_MAX);
  r.seed = seed && *seed >= 0       ? static_cast<uint64_t>(*seed)
           : defaults.seed && !seed ? *defaults.seed
                                    : uint64_t{std::random_device()()};
  if (model.info().argmax && (!r.options.sampling.greedy() || r.options.sampling.changes_logits() ||
                              r.options.grammar || r.options.chances >= 0))
    throw ApiError(400, "this bundle gives only the best token: ask with 'temperature': 0 and nothing else");
  return r;
}

void fit_to_context(GenerationRequest& r, size_t prompt_tokens, const ServedModel& model) {
  if (prompt_tokens == 0) throw ApiError(400, "the prompt is empty", "prompt");
  const auto tokens = static_cast<int64_t>(prompt_tokens);
  const int64_t context = model.context();
  if (tokens >= context) {
    ApiError error(
        400, fmt::format("the request has {} tokens, which exceeds the available context size of {} tokens",
                         tokens, context));
    error.more = {{"type", "exceed_context_size_error"}, {"n_prompt_tokens", tokens}, {"n_ctx", context}};
    throw error;
  }
  r.options.max_new = r.wanted_new < 0 ? context - tokens : std::min(r.wanted_new, context - tokens);
}

}  // namespace anemone::serve
