// ChatTemplate: a model's own Jinja template, rendered as transformers renders it.
//     const ChatTemplate chat(source);
//     std::string prompt = chat.render({.messages = jinja::from_json(messages)});
// Parsed once, rendered many times, from any number of threads. A template runs in a sandbox: it reaches nothing but
// its input, changes nothing, and every rendering ends within `limits`. An Error names the template's line. For an
// error that the template itself raises, message() is the template's text.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/from_json.h"
#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace anemone {

struct ChatInput {
  jinja::Value messages;   // a list of {role, content, …}
  jinja::Value tools;      // a list of JSON schemas, or none
  jinja::Value documents;  // a list, or none
  bool add_generation_prompt = false;
  std::string bos_token, eos_token;
  std::vector<std::pair<std::string, jinja::Value>> extra;  // more variables: enable_thinking …; these win
  jinja::Clock clock;                                       // for strftime_now; empty: the local time now
  jinja::Limits limits;
};

class ChatTemplate {
 public:
  explicit ChatTemplate(std::string source);

  std::string render(const ChatInput& in) const;
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::shared_ptr<const jinja::Template> template_;
};

}  // namespace anemone
