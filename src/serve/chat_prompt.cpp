#include "serve/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json_text.h"
#include "grammar/json_schema.h"
#include "grammar/json_text_grammar.h"
#include "grammar/schema_merge.h"
#include "runtime/prompt.h"

namespace anemone::serve {
namespace {

constexpr size_t kMostMessages = 10'000, kMostTools = 128;

[[noreturn]] void bad_message(size_t index, const std::string& why) {
  throw ApiError(400, fmt::format("'messages[{}]' {}", index, why), "messages");
}

// A text, or the texts of its parts.
std::string content_of(const Json& content, size_t index) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_message(index, "has a 'content' that is neither a text nor a list of parts");
  std::string out;
  for (const Json& part : content) {
    const std::string type = part.is_object() ? part.value("type", "") : "";
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal")
      bad_message(index,
                  fmt::format("has a part of the type '{}': only text is supported", type.substr(0, 40)));
    const char* key = type == "refusal" ? "refusal" : "text";
    if (!part.contains(key) || !part[key].is_string()) bad_message(index, "has a text part without 'text'");
    out += (out.empty() ? "" : "\n") + part[key].get<std::string>();
  }
  return out;
}

// Templates want the arguments of a call as an object; the API sends them as text.
Json calls_of(const Json& calls, size_t index) {
  if (!calls.is_array()) bad_message(index, "has 'tool_calls' that are no list");
  Json out = Json::array();
  for (Json call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object() ||
        !call["function"].value("name", Json()).is_string())
      bad_message(index, "has a call without the name of a function");
    Json& arguments = call["function"]["arguments"];
    if (arguments.is_string())
      if (std::optional<Json> parsed = parse_inner(arguments.get<std::string>()))
        arguments = std::move(*parsed);
    out.push_back(std::move(call));
  }
  return out;
}

Json message_of(const Json& given, size_t index) {
  static const std::vector<std::string> roles = {"system", "developer", "user", "assistant", "tool"};
  if (!given.is_object()) bad_message(index, "is no object");
  if (!given.contains("role") || !given["role"].is_string()) bad_message(index, "has no 'role'");
  const std::string role = given["role"].get<std::string>();
  if (std::find(roles.begin(), roles.end(), role) == roles.end())
    bad_message(index, fmt::format("has the unknown role '{}'", role.substr(0, 40)));
  Json out = {{"role", role == "developer" ? "system" : role}};
  const bool calls = given.contains("tool_calls") && !given["tool_calls"].is_null();
  if (given.contains("content") && !given["content"].is_null())
    out["content"] = content_of(given["content"], index);
  else if (role == "assistant" && calls)
    out["content"] = "";
  else
    bad_message(index, "has no 'content'");
  if (calls) out["tool_calls"] = calls_of(given["tool_calls"], index);
  for (const char* key : {"name", "tool_call_id", "reasoning_content"})
    if (given.contains(key) && given[key].is_string()) out[key] = given[key];
  return out;
}

Json messages_of(const Json& body) {
  const Json* given = Fields(body).find("messages");
  if (!given || !given->is_array() || given->empty())
    throw ApiError(400, "'messages' must be a list of messages", "messages");
  if (given->size() > kMostMessages) throw ApiError(400, "'messages' has too many entries", "messages");
  Json out = Json::array();
  for (size_t i = 0; i < given->size(); ++i) out.push_back(message_of((*given)[i], i));
  return out;
}

Json tools_of(const Json& body) {
  const Json* given = Fields(body).find("tools");
  if (!given) return Json::array();
  if (!given->is_array()) throw ApiError(400, "'tools' must be a list", "tools");
  if (given->size() > kMostTools)
    throw ApiError(400, fmt::format("'tools' has more than {} entries", kMostTools), "tools");
  Json out = Json::array();
  for (const Json& tool : *given) {
    if (!tool.is_object() || tool.value("type", Json("function")) != Json("function"))
      throw ApiError(400, "a tool must be of the type 'function'", "tools");
    // /v1/responses has the function's fields beside the type.
    Json function = tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object() || !function.value("name", Json()).is_string())
      throw ApiError(400, "a tool has no function with a 'name'", "tools");
    for (const char* key : {"type", "strict"}) function.erase(key);
    if (!function.contains("description") || !function["description"].is_string())
      function["description"] = "";
    if (!function.contains("parameters") || function["parameters"].is_null())
      function["parameters"] = {{"type", "object"}, {"properties", Json::object()}};
    if (!function["parameters"].is_object())
      throw ApiError(400, "the 'parameters' of a tool must be a schema", "tools");
    out.push_back({{"type", "function"}, {"function", function}});
  }
  return out;
}

// Which tools must be called: none of them, or those that are left.
struct Choice {
  bool may = true, must = false;
};

Choice choose_tools(const Json& body, Json& tools) {
  const Json* choice = Fields(body).find("tool_choice");
  if (!choice || *choice == Json("auto")) return {};
  if (*choice == Json("none")) return {.may = false};
  if (*choice == Json("required") || *choice == Json("any")) {
    if (tools.empty())
      throw ApiError(400, "'tool_choice' asks for a call, and there are no 'tools'", "tool_choice");
    return {.must = true};
  }
  const Json none;
  const Json& function =
      choice->is_object() && choice->contains("function") ? (*choice)["function"] : *choice;
  const std::string name =
      function.is_object() && function.value("name", none).is_string() ? function.value("name", "") : "";
  if (name.empty())
    throw ApiError(400, "'tool_choice' must be none, auto, required or a function", "tool_choice");
  Json only = Json::array();
  for (const Json& tool : tools)
    if (tool["function"]["name"] == name) only.push_back(tool);
  if (only.empty())
    throw ApiError(400, fmt::format("'tool_choice' names '{}', which is no tool", name.substr(0, 60)),
                   "tool_choice");
  tools = std::move(only);
  return {.must = true};
}

// The text of one call, as the model writes it.
Grammar call_grammar(const Json& tools, ToolForm form) {
  GrammarBuilder b;
  JsonText json(b);
  SchemaWork work;
  std::vector<Symbols> calls;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    const char* key = form == ToolForm::llama ? "parameters" : "arguments";
    const Symbol arguments = schema_rule(b, json, function["parameters"], work);
    const std::string name = function["name"].get<std::string>();
    Symbols call;
    if (form == ToolForm::harmony) {
      call =
          b.literal(fmt::format("<|channel|>commentary to=functions.{} <|constrain|>json<|message|>", name));
      call.push_back(arguments);
    } else {
      call = b.literal(fmt::format("{{\"name\": {}, \"{}\": ", json_text(Json(name)), key));
      call.push_back(arguments);
      const Symbols end = b.literal("}");
      call.insert(call.end(), end.begin(), end.end());
    }
    calls.push_back(std::move(call));
  }
  const auto around = [&](const char* before, const char* behind) {
    Symbols all = b.literal(before);
    all.push_back(b.choice(calls));
    const Symbols end = b.literal(behind);
    all.insert(all.end(), end.begin(), end.end());
    return b.choice({all});
  };
  if (form == ToolForm::hermes) return b.finish(around("<tool_call>\n", "\n</tool_call>"));
  if (form == ToolForm::mistral) return b.finish(around("[TOOL_CALLS] [", "]"));
  return b.finish(around("", ""));
}

// For models whose template knows no tools.
std::string tool_instructions(const Json& tools) {
  std::string out = "You can call these functions:\n";
  for (const Json& tool : tools) out += json_text(tool["function"]) + "\n";
  return out +
         "To call one, answer with nothing but a JSON object {\"name\": …, \"arguments\": {…}}. Otherwise "
         "answer in "
         "plain words.";
}

void add_instructions(Json& messages, const Json& tools) {
  const std::string text = tool_instructions(tools);
  if (messages[0]["role"] == "system")
    messages[0]["content"] = messages[0]["content"].get<std::string>() + "\n\n" + text;
  else
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

// What a chat template may be told beside the conversation.
std::vector<std::pair<std::string, Json>> template_variables(const Json& body) {
  std::vector<std::pair<std::string, Json>> out;
  // gpt-oss's template and its like take it as a variable.
  if (const auto effort = Fields(body).text("reasoning_effort"))
    out.emplace_back("reasoning_effort", *effort);
  const Json* extra = Fields(body).find("chat_template_kwargs");
  if (extra && !extra->is_object())
    throw ApiError(400, "'chat_template_kwargs' must be an object", "chat_template_kwargs");
  if (extra)
    for (const auto& [name, value] : extra->items()) out.emplace_back(name, value);
  return out;
}

std::string rendered(const Json& body, const ServedModel& model, const Json& messages, const Json& tools,
                     bool open) {
  ChatInput in;
  in.messages = jinja::from_json(messages);
  if (!tools.empty()) in.tools = jinja::from_json(tools);
  in.add_generation_prompt = open;
  const Tokenizer& tokenizer = *model.tokenizer();
  in.bos_token = std::string(tokenizer.piece(tokenizer.bos()));
  in.eos_token = std::string(tokenizer.piece(tokenizer.eos()));
  in.limits = {
      .steps = 5'000'000, .output_bytes = 16 << 20, .value_bytes = 16 << 20, .total_bytes = 256 << 20};
  for (const auto& [name, value] : template_variables(body))
    in.extra.emplace_back(name, jinja::from_json(value));
  try {
    return model.chat()->render(in);
  } catch (const Error& e) {
    throw ApiError(400, fmt::format("the model's chat template refuses this conversation: {}", e.message()),
                   "messages");
  }
}

// An answer that the client began is continued, not followed by another.
std::string take_begun_answer(const Json& body, Json& messages) {
  const Fields f(body);
  const auto open = f.flag("add_generation_prompt"), go_on = f.flag("continue_final_message");
  if (open.value_or(false) && go_on.value_or(false))
    throw ApiError(400, "'add_generation_prompt' and 'continue_final_message' contradict each other",
                   "continue_final_message");
  const auto is_answer = [](const Json& m) { return m["role"] == "assistant" && !m.contains("tool_calls"); };
  if (!is_answer(messages.back()) || open.value_or(false) || messages.size() < 2) return "";
  if (is_answer(messages[messages.size() - 2]))
    throw ApiError(400, "two messages of the assistant in a row, with nothing between them", "messages");
  std::string begun = messages.back()["content"].get<std::string>();
  messages.erase(messages.size() - 1);
  return begun;
}

}  // namespace

ChatPrompt chat_prompt(const Json& body, ServedModel& model) {
  ChatPrompt out;
  Json messages = messages_of(body), tools = tools_of(body);
  const Choice choice = choose_tools(body, tools);
  if (!choice.may) tools = Json::array();
  const std::string begun = take_begun_answer(body, messages);
  ToolForm form = model.form();
  if (!model.chat()) {
    template_variables(body);  // wrong ones are refused here too
    std::vector<Message> plain;
    if (!tools.empty()) add_instructions(messages, tools);
    for (const Json& m : messages)
      plain.push_back({m["role"].get<std::string>(), m["content"].get<std::string>()});
    out.text = PromptFormat(model.tokenizer()).text(plain) + begun;
    out.ids = model.tokenizer()->encode(out.text, {.add_special = true});
  } else {
    const bool knows_tools = model.chat()->source().find("tools") != std::string::npos;
    if (!tools.empty() && !knows_tools) {
      add_instructions(messages, tools);
      if (form != ToolForm::harmony) form = ToolForm::generic;
    }
    out.text = rendered(body, model, messages, knows_tools ? tools : Json::array(), true) + begun;
    out.ids = model.tokenizer()->encode(out.text);
  }
  out.parts.form = form;
  out.parts.tools = !tools.empty();
  const std::string format = Fields(body).text("reasoning_format").value_or("auto");
  if (format != "none" && format != "auto" && format != "deepseek" && format != "deepseek-legacy")
    throw ApiError(400, "'reasoning_format' must be none, auto or deepseek", "reasoning_format");
  out.parts.reasoning = model.thinks() && format != "none";
  const size_t end = out.text.find_last_not_of(" \n");
  out.parts.thinking = end != std::string::npos && out.text.substr(0, end + 1).ends_with("<think>");
  if (choice.must) {
    try {
      out.must_call = model.masks(fmt::format("calls{}:{}", static_cast<int>(form), json_text(tools)),
                                  [&] { return call_grammar(tools, form); });
    } catch (const Error& e) {
      throw ApiError(400, as_api_error(e).what(), "tools");
    }
    out.parts.thinking = false;
  }
  return out;
}

}  // namespace anemone::serve
