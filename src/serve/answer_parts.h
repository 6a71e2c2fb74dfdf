// AnswerParts: takes the text of an answer apart as it comes: what is said, what is only thought, which tools are
// called.
//     AnswerParts parts({.form = ToolForm::hermes, .tools = true});
//     for (Part& part : parts.feed(piece)) …
//     for (Part& part : parts.finish()) …
// Text that may yet become the start of a mark is held back. A call that is no valid JSON stays text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anemone::serve {

// How a model writes the calls of tools.
enum class ToolForm {
  generic,  // {"name": …, "arguments": …}, or a list of them, as the whole answer
  hermes,   // <tool_call>{…}</tool_call>; Qwen too
  llama,    // {"name": …, "parameters": …}, perhaps behind <|python_tag|>
  mistral,  // [TOOL_CALLS] [{…}]
  harmony,  // gpt-oss: <|channel|>commentary to=functions.NAME …<|message|>{…}
};

struct Part {
  enum class Kind { content, reasoning, call };
  Kind kind = Kind::content;
  std::string text;  // of a call: its arguments, as JSON
  std::string name;  // of the tool
};

struct PartsOptions {
  ToolForm form = ToolForm::generic;
  bool tools = false;      // look for calls
  bool reasoning = false;  // split <think> … </think> off
  bool thinking = false;   // the prompt opened the thoughts already
};

class AnswerParts {
 public:
  explicit AnswerParts(PartsOptions options);

  std::vector<Part> feed(std::string_view text);
  std::vector<Part> finish();

 private:
  enum class Mode { content, reasoning, call, header };

  void run(bool all, std::vector<Part>& out);
  bool in_content(bool all, std::vector<Part>& out);
  bool in_reasoning(bool all, std::vector<Part>& out);
  bool in_call(bool all, std::vector<Part>& out);
  bool in_header(bool all);
  void give(Part::Kind kind, std::string text, std::vector<Part>& out);
  bool give_calls(std::string_view json, std::vector<Part>& out);

  PartsOptions options_;
  Mode mode_ = Mode::content;
  std::string held_;
  std::string tool_;            // harmony: who is called
  bool started_ = false;        // something but spaces was said
  bool after_thought_ = false;  // spaces behind thoughts are left out
};

// What a chat template is written for.
ToolForm tool_form(std::string_view chat_template);

}  // namespace anemone::serve
