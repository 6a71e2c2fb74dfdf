#include "runtime/prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace anemone {

std::shared_ptr<const Tokenizer> load_tokenizer(const Bundle& bundle) {
  if (bundle.info().tokenizer.empty())
    throw errorf("the bundle has no tokenizer")
        .at(bundle.path().string())
        .hint("convert a checkpoint that comes with one");
  return Tokenizer::load(bundle.path() / bundle.info().tokenizer);
}

PromptFormat::PromptFormat(std::shared_ptr<const Tokenizer> tokenizer, std::string chat_template)
    : tokenizer_(std::move(tokenizer)) {
  if (chat_template.empty()) chat_template = tokenizer_->chat_template();
  if (!chat_template.empty()) chat_.emplace(std::move(chat_template));
}

std::string PromptFormat::text(const std::vector<Message>& messages) const {
  if (!chat_) {
    std::string out;
    for (const Message& m : messages) {
      if (!out.empty() && !out.ends_with('\n') && m.role != "assistant") out += '\n';
      out += m.content;
    }
    return out;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  ChatInput in;
  in.messages = jinja::from_json(list);
  in.add_generation_prompt = true;
  in.bos_token = std::string(tokenizer_->piece(tokenizer_->bos()));
  in.eos_token = std::string(tokenizer_->piece(tokenizer_->eos()));
  return chat_->render(in);
}

std::vector<int32_t> PromptFormat::conversation(const std::vector<Message>& messages) const {
  if (!chat_) return plain(text(messages));
  return tokenizer_->encode(text(messages));  // the template writes BOS itself
}

std::vector<int32_t> PromptFormat::plain(std::string_view text) const {
  return tokenizer_->encode(text, {.add_special = true});
}

}  // namespace anemone
