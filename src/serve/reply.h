// Reply: the answers to one request, turned into the bytes of an API as they are made. One subclass for each form.
//     auto reply = std::make_shared<ChatReply>(exchange, setup, parts);
//     scheduler.submit(reply->tasks(prompt));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answer_parts.h"
#include "serve/generation_request.h"
#include "serve/http_server.h"

namespace anemone::serve {

// What every form needs.
struct ReplySetup {
  std::shared_ptr<HttpExchange> exchange;
  std::shared_ptr<ServedModel> model;
  GenerationRequest request;
  std::string prompt_text;                    // for `verbose`
  std::vector<std::vector<int32_t>> prompts;  // the choices of each follow each other
  HttpHeaders headers;
  std::function<void(int status, const Json& about)> on_end;  // for logs and counts
};

class Reply : public std::enable_shared_from_this<Reply> {
 public:
  explicit Reply(ReplySetup setup);
  virtual ~Reply() = default;

  // One task for each prompt and choice.
  std::vector<AnswerTask> tasks();

 protected:
  // Of one choice.
  struct State {
    bool open = true;
    Generation answer;
    size_t noted = 0;  // of its chances that were sent
  };

  // Called for a stream: before anything else, for each piece, at the end of a choice, at the end of all.
  virtual void stream_begin() {}
  virtual void stream_progress(size_t /*choice*/, const Json& /*progress*/) {}
  virtual void stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) = 0;
  virtual void stream_end_of(size_t choice) = 0;
  virtual void stream_end() {}
  // The whole answer at once.
  virtual Json whole() = 0;

  void event(const Json& data, std::string_view name = "");
  void raw_event(std::string_view data);
  Json usage() const;
  Json timings(const Generation& g) const;
  const char* finish_reason(const Generation& g) const;
  // What a token says, as logprobs write it; `first`: of the answer.
  Json chance_json(const TokenChance& chance, const Generation& g, bool first) const;
  Json chances_json(const Generation& g, size_t begin, size_t end) const;
  std::string token_text(int32_t id) const;

  ReplySetup setup_;
  std::string id_;
  int64_t created_;
  std::vector<State> states_;

 private:
  class Sink;
  void heard_progress(size_t choice, int64_t done, int64_t total, int64_t reused);
  void heard_token(size_t choice, const Generation& so_far, std::string_view fresh);
  void heard_done(size_t choice, Generation answer, std::string_view fresh);
  void heard_failed(const std::exception& problem);
  void begin_stream();
  void finish_all();

  bool begun_ = false, failed_ = false;
  size_t open_ = 0;
};

// "chatcmpl-" and 24 letters and digits that nobody can guess.
std::string random_id(std::string_view prefix);
inline constexpr const char* kFingerprint = "b-anemone";

}  // namespace anemone::serve
