#include "text/chat_template.h"

#include <ctime>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace anemone {
namespace {

std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source)
    : source_(std::move(source)), template_(std::make_shared<const jinja::Template>(jinja::parse(source_))) {}

std::string ChatTemplate::render(const ChatInput& in) const {
  jinja::Runtime runtime(in.limits, in.clock ? in.clock : local_time_now);
  jinja::Interpreter interpreter(*template_, runtime);
  interpreter.define("messages", in.messages);
  interpreter.define("tools", in.tools);
  interpreter.define("documents", in.documents);
  interpreter.define("add_generation_prompt", jinja::Value(in.add_generation_prompt));
  interpreter.define("bos_token", jinja::Value(in.bos_token));
  interpreter.define("eos_token", jinja::Value(in.eos_token));
  for (const auto& [name, value] : in.extra) interpreter.define(name, value);
  return interpreter.run();
}

}  // namespace anemone
