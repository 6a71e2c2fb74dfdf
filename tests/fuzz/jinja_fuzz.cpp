// Any bytes as a chat template, rendered over a fixed conversation: it renders or throws an Error, within small limits.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anemone;
  static const jinja::Value messages = jinja::parse_json(
      R"([{"role": "system", "content": "Be kind."},
          {"role": "user", "content": "Z\u00fcrich \ud83d\ude00 <b> 'x'"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1.5}}}]},
          {"role": "tool", "content": [{"type": "text", "text": "t"}, {"type": "image"}]}])");
  static const jinja::Value tools = jinja::parse_json(R"([{"type": "function", "function": {"name": "f"}}])");
  ChatInput in{.messages = messages, .tools = tools, .add_generation_prompt = true, .bos_token = "<s>"};
  in.clock = [] { return std::tm{}; };
  in.limits = {
      .steps = 20'000, .output_bytes = 1 << 16, .value_bytes = 1 << 16, .total_bytes = 1 << 22, .depth = 200};
  try {
    ChatTemplate(std::string(reinterpret_cast<const char*>(data), size)).render(in);
  } catch (const Error&) {
  }
  return 0;
}
