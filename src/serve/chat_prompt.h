// ChatPrompt: the messages and tools of a request, checked and put into the words that the model was trained with.
//     ChatPrompt prompt = chat_prompt(body, model);
//     std::vector<int32_t> ids = model.tokenizer()->encode(prompt.text);
#pragma once

#include <string>
#include <vector>

#include "serve/answer_parts.h"
#include "serve/fields.h"
#include "serve/served_model.h"

namespace anemone::serve {

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> ids;
  PartsOptions parts;                     // how the answer is taken apart
  std::shared_ptr<TokenMasks> must_call;  // tool_choice asks for a call: its grammar
};

// ApiError names the message that is wrong.
ChatPrompt chat_prompt(const Json& body, ServedModel& model);

}  // namespace anemone::serve
