#include "runtime/prompt.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace anemone {
namespace {

// Characters that Unicode keeps free for such use: U+FDD0 to U+FDEF.
constexpr int kMarks = 32;

std::string mark(int number) {
  const int code = 0xfdd0 + number;
  return {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3f)),
          static_cast<char>(0x80 | (code & 0x3f))};
}

// Two that stand in none of the messages.
std::pair<std::string, std::string> free_marks(const std::vector<Message>& messages) {
  std::vector<std::string> free;
  for (int i = 0; i < kMarks && free.size() < 2; ++i) {
    bool used = false;
    for (const Message& m : messages)
      used |= m.content.find(mark(i)) != std::string::npos || m.role.find(mark(i)) != std::string::npos;
    if (!used) free.push_back(mark(i));
  }
  if (free.size() < 2) throw errorf("the messages have every character of U+FDD0 to U+FDEF in them");
  return {free[0], free[1]};
}

// Every text of `tokens` in the content, between two marks; of several at one place, the longest.
std::string marked(const std::string& content, const std::vector<std::string_view>& tokens,
                   const std::string& open, const std::string& close) {
  std::string out;
  for (size_t at = 0; at < content.size();) {
    std::string_view longest;
    for (const std::string_view token : tokens)
      if (token.size() > longest.size() && content.compare(at, token.size(), token) == 0) longest = token;
    if (longest.empty()) {
      out += content[at++];
    } else {
      out.append(open).append(longest).append(close);
      at += longest.size();
    }
  }
  return out;
}

}  // namespace

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

std::vector<int32_t> PromptFormat::conversation(const std::vector<Message>& messages,
                                                Contents contents) const {
  if (!chat_)
    return tokenizer_->encode(text(messages),
                              {.add_special = true, .parse_special = contents == Contents::parsed});
  if (contents == Contents::plain) return plain_conversation(messages);
  return tokenizer_->encode(text(messages));  // the template writes BOS itself
}

// The template sees the messages with marks around special tokens. What comes out between two marks is text.
std::vector<int32_t> PromptFormat::plain_conversation(std::vector<Message> messages) const {
  std::vector<std::string_view> special;
  for (int32_t id = 0; id < tokenizer_->vocabulary_size(); ++id)
    if (tokenizer_->is_special(id) && !tokenizer_->piece(id).empty())
      special.push_back(tokenizer_->piece(id));
  const auto [open, close] = free_marks(messages);
  for (Message& m : messages) {
    m.content = marked(m.content, special, open, close);
    m.role = marked(m.role, special, open, close);
  }
  const std::string whole = text(messages);
  std::vector<int32_t> out;
  const auto add = [&](std::string_view part, bool parse) {
    if (part.empty()) return;
    const std::vector<int32_t> ids = tokenizer_->encode(part, {.parse_special = parse});
    out.insert(out.end(), ids.begin(), ids.end());
  };
  std::string_view rest = whole;
  for (bool inside = false; !rest.empty(); inside = !inside) {
    const std::string& next = inside ? close : open;
    const size_t end = std::min(rest.find(next), rest.size());
    add(rest.substr(0, end), !inside);
    rest.remove_prefix(std::min(end + next.size(), rest.size()));
  }
  return out;
}

std::vector<int32_t> PromptFormat::plain(std::string_view text) const {
  return tokenizer_->encode(text, {.add_special = true});
}

}  // namespace anemone
