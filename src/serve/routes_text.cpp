// The requests that are answered with text.
#include <fmt/format.h>

#include "serve/app.h"
#include "serve/chat_prompt.h"
#include "serve/reply_forms.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostPrompts = 64;

// A prompt of /completions: a text, tokens, or both mixed in a list.
std::vector<int32_t> prompt_ids(const Json& prompt, const ServedModel& model) {
  const Tokenizer& tokenizer = *model.tokenizer();
  if (prompt.is_string()) return tokenizer.encode(prompt.get<std::string>(), {.add_special = true});
  if (prompt.is_object() && prompt.value("prompt_string", Json()).is_string() &&
      !prompt.contains("multimodal_data"))
    return tokenizer.encode(prompt["prompt_string"].get<std::string>(), {.add_special = true});
  std::vector<int32_t> out;
  if (!prompt.is_array())
    throw ApiError(400, "'prompt' must be a text, a list of tokens or a list of these", "prompt");
  for (const Json& part : prompt) {
    if (part.is_string()) {
      const std::vector<int32_t> ids =
          tokenizer.encode(part.get<std::string>(), {.add_special = out.empty()});
      out.insert(out.end(), ids.begin(), ids.end());
      continue;
    }
    if (!part.is_number_integer() || part < 0 || part >= model.info().vocab)
      throw ApiError(400, "'prompt' has a token that is not in the vocabulary", "prompt");
    out.push_back(part.get<int32_t>());
  }
  return out;
}

// One prompt, or a list of prompts; a list with a number in it is one prompt of tokens.
std::vector<std::vector<int32_t>> prompts_of(const Json& body, const ServedModel& model, bool& list) {
  const Json* prompt = Fields(body).find("prompt");
  if (!prompt) throw ApiError(400, "'prompt' is missing", "prompt");
  list = false;
  bool tokens = !prompt->is_array() || prompt->empty();
  if (prompt->is_array())
    for (const Json& part : *prompt) tokens |= part.is_number();
  if (tokens) return {prompt_ids(*prompt, model)};
  list = prompt->size() > 1;
  if (prompt->size() > kMostPrompts)
    throw ApiError(400, fmt::format("'prompt' has more than {} prompts", kMostPrompts), "prompt");
  std::vector<std::vector<int32_t>> out;
  for (const Json& one : *prompt) out.push_back(prompt_ids(one, model));
  return out;
}

// /v1/responses: its input becomes messages, as the chat has them.
Json messages_of_input(const Json& body) {
  const Fields f(body);
  const Json* input = f.find("input");
  Json out = Json::array();
  if (const auto text = f.text("instructions"); text && !text->empty())
    out.push_back({{"role", "system"}, {"content", *text}});
  if (!input) throw ApiError(400, "'input' is missing", "input");
  if (input->is_string()) {
    out.push_back({{"role", "user"}, {"content", *input}});
    return out;
  }
  if (!input->is_array()) throw ApiError(400, "'input' must be a text or a list of items", "input");
  for (const Json& item : *input) {
    const std::string type = item.is_object() ? item.value("type", "message") : "";
    if (type == "message") {
      out.push_back({{"role", item.value("role", Json())}, {"content", item.value("content", Json())}});
    } else if (type == "function_call") {
      out.push_back({{"role", "assistant"},
                     {"content", nullptr},
                     {"tool_calls", Json::array({{{"id", item.value("call_id", "")},
                                                  {"type", "function"},
                                                  {"function",
                                                   {{"name", item.value("name", Json())},
                                                    {"arguments", item.value("arguments", "{}")}}}}})}});
    } else if (type == "function_call_output") {
      out.push_back({{"role", "tool"},
                     {"tool_call_id", item.value("call_id", "")},
                     {"content", item.value("output", Json(""))}});
    } else if (type != "reasoning") {
      throw ApiError(400, fmt::format("'input' has an item of the type '{}'", type.substr(0, 40)), "input");
    }
  }
  return out;
}

// Structured answers stand elsewhere in this API.
void move_format(Json& body) {
  const Json* text = Fields(body).find("text");
  if (!text || !text->is_object() || !text->contains("format")) return;
  Json format = (*text)["format"];
  if (format.is_object() && format.value("type", "") == "json_schema")
    format = {{"type", "json_schema"}, {"json_schema", {{"schema", format.value("schema", Json())}}}};
  body["response_format"] = format;
}

}  // namespace

void App::chat(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = text_model(call, body);
  ChatPrompt prompt = chat_prompt(body, *model);
  GenerationRequest request = read_generation(body, *model, options_.defaults);
  if (prompt.must_call) request.options.grammar = prompt.must_call;
  request.options.show_special =
      prompt.parts.form == ToolForm::harmony || (prompt.parts.tools && prompt.parts.form != ToolForm::hermes);
  fit_to_context(request, prompt.ids.size(), *model);
  ReplySetup setup = setup_for(call, model, std::move(request));
  setup.prompt_text = std::move(prompt.text);
  setup.prompts = {std::move(prompt.ids)};
  submit(*model, std::make_shared<ChatReply>(std::move(setup), prompt.parts)->tasks());
}

void App::count_input(const Call& call) {
  const Json body = body_of(call);
  reply(call, {{"input_tokens", chat_prompt(body, *text_model(call, body)).ids.size()}});
}

void App::completions(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = text_model(call, body);
  bool list = false;
  std::vector<std::vector<int32_t>> prompts = prompts_of(body, *model, list);
  GenerationRequest request = read_generation(body, *model, options_.defaults);
  size_t longest = 0;
  for (const auto& ids : prompts) longest = std::max(longest, ids.size());
  fit_to_context(request, longest, *model);
  ReplySetup setup = setup_for(call, model, std::move(request));
  setup.prompts = std::move(prompts);
  submit(*model, std::make_shared<CompletionReply>(std::move(setup))->tasks());
}

void App::plain_completion(const Call& call) {
  const Json body = body_of(call);
  const std::shared_ptr<ServedModel> model = text_model(call, body);
  bool list = false;
  std::vector<std::vector<int32_t>> prompts = prompts_of(body, *model, list);
  GenerationRequest request = read_generation(body, *model, options_.defaults);
  size_t longest = 0;
  for (const auto& ids : prompts) longest = std::max(longest, ids.size());
  fit_to_context(request, longest, *model);
  ReplySetup setup = setup_for(call, model, std::move(request));
  setup.prompt_text = model->tokenizer()->decode(prompts[0]);
  setup.prompts = std::move(prompts);
  const bool tokens = Fields(body).flag("return_tokens").value_or(false);
  submit(*model, std::make_shared<PlainReply>(std::move(setup), list, tokens)->tasks());
}

void App::responses(const Call& call) {
  Json body = body_of(call);
  const Fields f(body);
  f.refuse("previous_response_id", "nothing is stored: send the whole conversation");
  f.refuse("background", "answers are given at once");
  f.refuse("conversation", "nothing is stored: send the whole conversation");
  f.refuse("prompt", "nothing is stored: send the text itself");
  if (f.text("truncation").value_or("disabled") != "disabled")
    f.refuse("truncation", "a conversation that is too long is answered with an error");
  body["messages"] = messages_of_input(body);
  body["n"] = 1;
  if (const Json* reasoning = f.find("reasoning"); reasoning && reasoning->is_object())
    if (const auto effort = Fields(*reasoning).text("effort")) body["reasoning_effort"] = *effort;
  move_format(body);
  const std::shared_ptr<ServedModel> model = text_model(call, body);
  ChatPrompt prompt = chat_prompt(body, *model);
  GenerationRequest request = read_generation(body, *model, options_.defaults);
  if (prompt.must_call) request.options.grammar = prompt.must_call;
  request.options.show_special =
      prompt.parts.form == ToolForm::harmony || (prompt.parts.tools && prompt.parts.form != ToolForm::hermes);
  fit_to_context(request, prompt.ids.size(), *model);
  Json echo = Json::object();
  for (const char* key : {"instructions", "max_output_tokens", "metadata", "temperature", "top_p", "text"})
    echo[key] = body.contains(key) ? body[key] : Json(nullptr);
  echo["tools"] = body.contains("tools") ? body["tools"] : Json::array();
  echo["tool_choice"] = body.contains("tool_choice") ? body["tool_choice"] : Json("auto");
  ReplySetup setup = setup_for(call, model, std::move(request));
  setup.prompt_text = std::move(prompt.text);
  setup.prompts = {std::move(prompt.ids)};
  submit(*model, std::make_shared<ResponsesReply>(std::move(setup), prompt.parts, std::move(echo))->tasks());
}

}  // namespace anemone::serve
