#include "serve/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "base/json_text.h"
#include "text/unicode.h"

namespace anemone::serve {

std::string random_id(std::string_view prefix) {
  constexpr std::string_view kSigns = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::random_device device;
  std::uniform_int_distribution<size_t> pick(0, kSigns.size() - 1);
  std::string out(prefix);
  for (int i = 0; i < 24; ++i) out += kSigns[pick(device)];
  return out;
}

// Hears for one choice.
class Reply::Sink : public AnswerSink {
 public:
  Sink(std::shared_ptr<Reply> reply, size_t choice) : reply_(std::move(reply)), choice_(choice) {}

  bool wanted() const override { return !reply_->failed_ && !reply_->setup_.exchange->gone(); }
  void prompt_progress(int64_t done, int64_t total, int64_t reused) override {
    guarded([&] { reply_->heard_progress(choice_, done, total, reused); });
  }
  void token(const Generation& so_far, std::string_view fresh) override {
    guarded([&] { reply_->heard_token(choice_, so_far, fresh); });
  }
  void done(Generation answer, std::string_view fresh) override {
    guarded([&] { reply_->heard_done(choice_, std::move(answer), fresh); });
  }
  void failed(const std::exception& problem) override {
    guarded([&] { reply_->heard_failed(problem); });
  }

 private:
  // What goes wrong with one client's answer ends that answer alone.
  template <class Hear>
  void guarded(const Hear& hear) {
    try {
      hear();
    } catch (const std::exception& problem) {
      try {
        reply_->heard_failed(problem);
      } catch (const std::exception&) {  // the end of the exchange cuts the answer off
      }
    }
  }

  std::shared_ptr<Reply> reply_;
  size_t choice_;
};

Reply::Reply(ReplySetup setup)
    : setup_(std::move(setup)),
      created_(static_cast<int64_t>(std::time(nullptr))),
      states_(setup_.prompts.size() * static_cast<size_t>(setup_.request.choices)),
      open_(states_.size()) {}

std::vector<AnswerTask> Reply::tasks() {
  std::vector<AnswerTask> out;
  const auto choices = static_cast<size_t>(setup_.request.choices);
  for (size_t i = 0; i < states_.size(); ++i)
    out.push_back({.prompt = setup_.prompts[i / choices],
                   .options = setup_.request.options,
                   .seed = setup_.request.seed + i % choices,
                   .reuse = setup_.request.reuse,
                   .sink = std::make_shared<Sink>(shared_from_this(), i)});
  return out;
}

void Reply::raw_event(std::string_view data) { setup_.exchange->write(data); }

void Reply::event(const Json& data, std::string_view name) {
  raw_event(
      fmt::format("{}data: {}\n\n", name.empty() ? "" : fmt::format("event: {}\n", name), json_text(data)));
}

void Reply::begin_stream() {
  if (begun_) return;
  begun_ = true;
  HttpHeaders headers = setup_.headers;
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  setup_.exchange->begin(200, "text/event-stream", headers);
  stream_begin();
}

void Reply::heard_progress(size_t choice, int64_t done, int64_t total, int64_t reused) {
  if (!setup_.request.stream || !setup_.request.progress) return;
  begin_stream();
  stream_progress(choice, {{"total", total}, {"cache", reused}, {"processed", done}});
}

void Reply::heard_token(size_t choice, const Generation& so_far, std::string_view fresh) {
  if (!setup_.request.stream) return;
  begin_stream();
  stream_piece(choice, so_far, fresh);
}

void Reply::heard_done(size_t choice, Generation answer, std::string_view fresh) {
  State& state = states_[choice];
  if (setup_.request.stream && !failed_) {
    begin_stream();
    stream_piece(choice, answer, fresh);
  }
  state.answer = std::move(answer);
  state.open = false;
  if (setup_.request.stream && !failed_) stream_end_of(choice);
  if (--open_ == 0) finish_all();
}

void Reply::finish_all() {
  if (failed_) return;
  if (setup_.request.stream) {
    stream_end();
    setup_.exchange->end();
  } else {
    setup_.exchange->reply(200, "application/json", json_text(whole()), setup_.headers);
  }
  if (setup_.on_end) setup_.on_end(200, usage());
}

void Reply::heard_failed(const std::exception& problem) {
  if (failed_) return;
  failed_ = true;
  const ApiError error = as_api_error(problem);
  if (begun_) {
    event(error.body());
    setup_.exchange->end();
  } else {
    setup_.exchange->reply(error.status(), "application/json", json_text(error.body()), setup_.headers);
  }
  if (setup_.on_end)
    setup_.on_end(error.status(), error.inside.empty() ? Json::object() : Json{{"fault", error.inside}});
}

Json Reply::usage() const {
  int64_t prompt = 0, made = 0, reused = 0;
  for (const std::vector<int32_t>& ids : setup_.prompts) prompt += static_cast<int64_t>(ids.size());
  const auto choices = static_cast<size_t>(setup_.request.choices);
  for (size_t i = 0; i < states_.size(); ++i) {
    made += states_[i].answer.stats.new_tokens;
    if (i % choices == 0) reused += states_[i].answer.stats.reused_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", made},
          {"total_tokens", prompt + made},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

Json Reply::timings(const Generation& g) const {
  const GenerateStats& s = g.stats;
  const auto computed = static_cast<double>(s.prompt_tokens - s.reused_tokens);
  const auto steps = static_cast<double>(std::max<int64_t>(s.new_tokens - 1, 0));
  const auto over = [](double a, double b) { return b > 0 ? a / b : 0.0; };
  return {{"cache_n", s.reused_tokens},
          {"prompt_n", s.prompt_tokens - s.reused_tokens},
          {"prompt_ms", 1e3 * s.first_seconds},
          {"prompt_per_token_ms", over(1e3 * s.first_seconds, computed)},
          {"prompt_per_second", over(computed, s.first_seconds)},
          {"predicted_n", s.new_tokens},
          {"predicted_ms", 1e3 * s.decode_seconds},
          {"predicted_per_token_ms", over(1e3 * s.decode_seconds, steps)},
          {"predicted_per_second", over(steps, s.decode_seconds)}};
}

const char* Reply::finish_reason(const Generation& g) const {
  return g.why == StopReason::length || g.why == StopReason::context || g.why == StopReason::cancelled
             ? "length"
             : "stop";
}

std::string Reply::token_text(int32_t id) const {
  try {
    return setup_.model->tokenizer()->bytes(id);
  } catch (const std::exception&) {
    return std::string(setup_.model->tokenizer()->piece(id));
  }
}

Json Reply::chance_json(const TokenChance& chance, const Generation& g, bool first) const {
  const auto entry = [&](int32_t id, float log) {
    std::string bytes = token_text(id);
    // A space before the first word is not part of the text.
    if (first && bytes.starts_with(' ') && !g.text.starts_with(' ')) bytes.erase(0, 1);
    Json list = Json::array();
    for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
    return Json{
        {"id", id}, {"token", to_valid_utf8(bytes)}, {"bytes", list}, {"logprob", std::max(log, -9999.0f)}};
  };
  Json out = entry(chance.id, chance.log);
  out["top_logprobs"] = Json::array();
  for (const auto& [id, log] : chance.top) out["top_logprobs"].push_back(entry(id, log));
  return out;
}

Json Reply::chances_json(const Generation& g, size_t begin, size_t end) const {
  Json out = Json::array();
  for (size_t i = begin; i < end; ++i) out.push_back(chance_json(g.chances[i], g, i == 0));
  return out;
}

}  // namespace anemone::serve
