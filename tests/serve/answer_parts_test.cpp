// Answers taken apart: thoughts, words and calls of tools, whatever the pieces in which the text comes. The texts are
// those of the models' own documentation.
#include "serve/answer_parts.h"

#include <doctest/doctest.h>

using namespace anemone::serve;

namespace {

// "content|reasoning|name(arguments)…" of a text that comes in pieces of so many bytes.
std::string taken(PartsOptions options, std::string_view text, size_t step) {
  AnswerParts parts(options);
  std::string content, reasoning, calls;
  const auto take = [&](const std::vector<Part>& some) {
    for (const Part& p : some) {
      if (p.kind == Part::Kind::content) content += p.text;
      if (p.kind == Part::Kind::reasoning) reasoning += p.text;
      if (p.kind == Part::Kind::call) calls += p.name + "(" + p.text + ")";
    }
  };
  for (size_t at = 0; at < text.size(); at += step) take(parts.feed(text.substr(at, step)));
  take(parts.finish());
  return content + "|" + reasoning + "|" + calls;
}

}  // namespace

TEST_CASE("answers are taken apart alike in pieces of any size") {
  struct Case {
    PartsOptions options;
    const char *text, *expected;
  };
  const PartsOptions hermes{.form = ToolForm::hermes, .tools = true, .reasoning = true},
      llama{.form = ToolForm::llama, .tools = true}, mistral{.form = ToolForm::mistral, .tools = true},
      harmony{.form = ToolForm::harmony, .tools = true, .reasoning = true}, generic{.tools = true},
      thinking{.reasoning = true, .thinking = true};
  for (const Case& c : std::vector<Case>{
           {{}, "Hello <think> {\"name\": 1}", "Hello <think> {\"name\": 1}||"},
           {hermes, "<think>\nhm, 2+2\n</think>\n\nIt is 4.", "It is 4.|\nhm, 2+2|"},
           {hermes, "No thought <think>", "No thought <think>||"},
           {hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
            "||f({\"a\":1})"},
           {hermes,
            "Let me "
            "look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\","
            "\"arguments\":{\"x\":[1]}}</tool_call>",
            "Let me look.||f({})g({\"x\":[1]})"},
           {hermes, "<tool_call>{\"name\": oops}</tool_call>", "<tool_call>{\"name\": oops}||"},
           {hermes, "a < b <tool", "a < b <tool||"},
           {llama, "{\"name\": \"f\", \"parameters\": {\"q\": \"x\"}}", "||f({\"q\":\"x\"})"},
           {llama, "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "||f({})"},
           {llama, "{not json", "{not json||"},
           {llama, "Plain words.", "Plain words.||"},
           {mistral, "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}]", "||f({\"a\":\"b\"})"},
           {generic, "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}", "||f({\"a\":2})"},
           {generic, "{\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {}}}]}", "||f({})"},
           {generic, "{\"just\": \"json\"}", "{\"just\": \"json\"}||"},
           {harmony,
            "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
            "Yes.|Think.|"},
           {harmony,
            "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"city\": \"Bonn\"}",
            "||get({\"city\":\"Bonn\"})"},
           {harmony, "A plain answer without marks.", "A plain answer without marks.||"},
           {thinking, "still thinking</think>done", "done|still thinking|"},
           {thinking, "never ends", "|never ends|"},
       }) {
    CAPTURE(c.text);
    for (const size_t step : {1, 2, 3, 5, 1000}) {
      CAPTURE(step);
      CHECK(taken(c.options, c.text, step) == c.expected);
    }
  }
}

TEST_CASE("the form of calls is known by the chat template") {
  CHECK(tool_form("… <tool_call> …") == ToolForm::hermes);
  CHECK(tool_form("… [TOOL_CALLS] …") == ToolForm::mistral);
  CHECK(tool_form("… <|python_tag|> …") == ToolForm::llama);
  CHECK(tool_form("… <|channel|>analysis …") == ToolForm::harmony);
  CHECK(tool_form("{{ messages }}") == ToolForm::generic);
}
