// The forms of an answer: OpenAI's chat, its older completions, its newer responses, and llama.cpp's own.
//     std::make_shared<ChatReply>(std::move(setup), prompt.parts);
#pragma once

#include "serve/reply.h"

namespace anemone::serve {

class ChatReply : public Reply {
 public:
  ChatReply(ReplySetup setup, PartsOptions parts);

 private:
  struct Choice {
    AnswerParts parts;
    std::string content, reasoning;
    Json calls = Json::array();
  };

  void stream_begin() override;
  void stream_progress(size_t choice, const Json& progress) override;
  void stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) override;
  void stream_end_of(size_t choice) override;
  void stream_end() override;
  Json whole() override;

  Json chunk(size_t choice, Json delta, Json finish = nullptr) const;
  Json take(Choice& choice, std::vector<Part> parts) const;
  const char* why(size_t choice) const;

  std::vector<Choice> choices_;
};

// /v1/completions.
class CompletionReply : public Reply {
 public:
  explicit CompletionReply(ReplySetup setup);

 private:
  void stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) override;
  void stream_end_of(size_t choice) override;
  void stream_end() override;
  Json whole() override;

  Json body(Json choices) const;
  Json choice_json(size_t choice, std::string_view text, const Generation& g, size_t first_chance,
                   Json finish) const;
};

// llama.cpp's /completion.
class PlainReply : public Reply {
 public:
  PlainReply(ReplySetup setup, bool list, bool with_tokens);

 private:
  void stream_progress(size_t choice, const Json& progress) override;
  void stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) override;
  void stream_end_of(size_t choice) override;
  Json whole() override;

  Json last(size_t choice, std::string_view content) const;
  Json settings() const;

  bool list_, with_tokens_;
};

// /v1/responses.
class ResponsesReply : public Reply {
 public:
  ResponsesReply(ReplySetup setup, PartsOptions parts, Json echo);

 private:
  void stream_begin() override;
  void stream_progress(size_t choice, const Json& progress) override;
  void stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) override;
  void stream_end_of(size_t choice) override;
  Json whole() override;

  void send(const char* type, Json data);
  void take(std::vector<Part> parts);
  void open_message();
  void close_message();
  void close_reasoning();
  void add_call(const Part& part);
  Json message_item(const char* status) const;
  Json response(const char* status) const;

  AnswerParts parts_;
  Json echo_;  // fields of the request that the response repeats
  Json output_ = Json::array();
  std::string message_id_, reasoning_id_, text_, reasoning_;
  bool message_open_ = false, reasoning_open_ = false;
  int64_t sequence_ = 0;
};

}  // namespace anemone::serve
