#include "serve/reply_forms.h"

namespace anemone::serve {

ChatReply::ChatReply(ReplySetup setup, PartsOptions parts) : Reply(std::move(setup)) {
  id_ = random_id("chatcmpl-");
  for (size_t i = 0; i < states_.size(); ++i) choices_.push_back({AnswerParts(parts), "", "", Json::array()});
}

Json ChatReply::chunk(size_t choice, Json delta, Json finish) const {
  return {{"id", id_},
          {"object", "chat.completion.chunk"},
          {"created", created_},
          {"model", setup_.model->name()},
          {"system_fingerprint", kFingerprint},
          {"choices",
           Json::array(
               {{{"index", choice}, {"delta", std::move(delta)}, {"finish_reason", std::move(finish)}}})}};
}

void ChatReply::stream_begin() {
  for (size_t i = 0; i < choices_.size(); ++i) event(chunk(i, {{"role", "assistant"}, {"content", nullptr}}));
}

void ChatReply::stream_progress(size_t choice, const Json& progress) {
  Json data = chunk(choice, Json::object());
  data["prompt_progress"] = progress;
  event(data);
}

// Adds parts to the message; what changed, as a delta.
Json ChatReply::take(Choice& choice, std::vector<Part> parts) const {
  Json delta = Json::object();
  for (Part& part : parts) {
    if (part.kind == Part::Kind::call) {
      if (setup_.request.one_call && !choice.calls.empty()) continue;
      const Json call = {{"index", choice.calls.size()},
                         {"id", random_id("call_")},
                         {"type", "function"},
                         {"function", {{"name", part.name}, {"arguments", part.text}}}};
      choice.calls.push_back(call);
      if (!delta.contains("tool_calls")) delta["tool_calls"] = Json::array();
      delta["tool_calls"].push_back(call);
      continue;
    }
    const bool thought = part.kind == Part::Kind::reasoning;
    (thought ? choice.reasoning : choice.content) += part.text;
    const char* key = thought ? "reasoning_content" : "content";
    delta[key] = (delta.contains(key) ? delta[key].get<std::string>() : "") + part.text;
  }
  return delta;
}

void ChatReply::stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) {
  State& state = states_[choice];
  Json delta = take(choices_[choice], choices_[choice].parts.feed(fresh));
  const bool chances = so_far.chances.size() > state.noted;
  if (delta.empty() && !chances) return;
  if (delta.empty()) delta["content"] = "";
  Json data = chunk(choice, std::move(delta));
  if (chances) {
    data["choices"][0]["logprobs"] = {{"content", chances_json(so_far, state.noted, so_far.chances.size())}};
    state.noted = so_far.chances.size();
  }
  if (setup_.request.timings_each) data["timings"] = timings(so_far);
  event(data);
}

const char* ChatReply::why(size_t choice) const {
  return choices_[choice].calls.empty() ? finish_reason(states_[choice].answer) : "tool_calls";
}

void ChatReply::stream_end_of(size_t choice) {
  if (const Json rest = take(choices_[choice], choices_[choice].parts.finish()); !rest.empty())
    event(chunk(choice, rest));
  Json last = chunk(choice, Json::object(), why(choice));
  last["timings"] = timings(states_[choice].answer);
  event(last);
}

void ChatReply::stream_end() {
  if (setup_.request.usage_chunk) {
    Json data = chunk(0, Json::object());
    data["choices"] = Json::array();
    data["usage"] = usage();
    data["timings"] = timings(states_[0].answer);
    event(data);
  }
  raw_event("data: [DONE]\n\n");
}

Json ChatReply::whole() {
  Json choices = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    const Generation& g = states_[i].answer;
    take(choice, choice.parts.feed(g.text));
    take(choice, choice.parts.finish());
    const bool only_calls = choice.content.empty() && !choice.calls.empty();
    Json message = {{"role", "assistant"}, {"content", only_calls ? Json(nullptr) : Json(choice.content)}};
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    if (!choice.calls.empty()) {
      for (Json& call : choice.calls) call.erase("index");
      message["tool_calls"] = choice.calls;
    }
    Json entry = {{"index", i}, {"message", message}, {"finish_reason", why(i)}};
    if (setup_.request.options.chances >= 0)
      entry["logprobs"] = {{"content", chances_json(g, 0, g.chances.size())}};
    choices.push_back(std::move(entry));
  }
  Json out = {{"id", id_},
              {"object", "chat.completion"},
              {"created", created_},
              {"model", setup_.model->name()},
              {"system_fingerprint", kFingerprint},
              {"choices", choices},
              {"usage", usage()},
              {"timings", timings(states_[0].answer)}};
  if (setup_.request.verbose) out["__verbose"] = {{"prompt", setup_.prompt_text}};
  return out;
}

}  // namespace anemone::serve
