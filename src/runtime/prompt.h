// PromptFormat: how a text or a conversation becomes the tokens that a model was trained to see.
//     PromptFormat format(load_tokenizer(*bundle));
//     std::vector<int32_t> ids = format.conversation({{"user", "What is a tide pool?"}});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bundle.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace anemone {

struct Message {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// What special tokens that stand in the contents of messages are: "<|im_end|>" in a user's words, say.
enum class Contents : uint8_t {
  parsed,  // themselves, as transformers and llama.cpp have it: whoever writes them can end his turn
  plain,   // text, for words of strangers
};

// The tokenizer that came with the model; Error when none did.
std::shared_ptr<const Tokenizer> load_tokenizer(const Bundle& bundle);

class PromptFormat {
 public:
  // `chat_template` empty: the tokenizer's own, where it has one.
  explicit PromptFormat(std::shared_ptr<const Tokenizer> tokenizer, std::string chat_template = "");

  // False: the model knows no turns, and a conversation is one text that goes on.
  bool has_turns() const { return chat_.has_value(); }
  // The conversation up to the opening of the next answer. Where the template refuses it (a role that it does
  // not know), the Error has the template's words.
  std::string text(const std::vector<Message>& messages) const;
  std::vector<int32_t> conversation(const std::vector<Message>& messages,
                                    Contents contents = Contents::parsed) const;
  // The text alone, with what the model wants before it.
  std::vector<int32_t> plain(std::string_view text) const;

  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }

 private:
  std::vector<int32_t> plain_conversation(std::vector<Message> messages) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_;
};

}  // namespace anemone
