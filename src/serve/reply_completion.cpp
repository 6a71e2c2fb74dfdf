#include "serve/reply_forms.h"

namespace anemone::serve {

CompletionReply::CompletionReply(ReplySetup setup) : Reply(std::move(setup)) { id_ = random_id("cmpl-"); }

Json CompletionReply::body(Json choices) const {
  return {{"id", id_},
          {"object", "text_completion"},
          {"created", created_},
          {"model", setup_.model->name()},
          {"system_fingerprint", kFingerprint},
          {"choices", std::move(choices)}};
}

// The older form of probabilities: lists side by side.
Json CompletionReply::choice_json(size_t choice, std::string_view text, const Generation& g,
                                  size_t first_chance, Json finish) const {
  Json out = {{"index", choice}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", std::move(finish)}};
  if (setup_.request.options.chances < 0) return out;
  Json tokens = Json::array(), logs = Json::array(), top = Json::array(), content = Json::array();
  for (size_t i = first_chance; i < g.chances.size(); ++i) {
    const Json entry = chance_json(g.chances[i], g, i == 0);
    tokens.push_back(entry["token"]);
    logs.push_back(entry["logprob"]);
    Json best = Json::object();
    for (const Json& other : entry["top_logprobs"])
      best[other["token"].get<std::string>()] = other["logprob"];
    top.push_back(best);
    content.push_back(entry);
  }
  out["logprobs"] = {
      {"tokens", tokens}, {"token_logprobs", logs}, {"top_logprobs", top}, {"content", content}};
  return out;
}

void CompletionReply::stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) {
  State& state = states_[choice];
  if (fresh.empty() && so_far.chances.size() == state.noted) return;
  Json data = body(Json::array({choice_json(choice, fresh, so_far, state.noted, nullptr)}));
  state.noted = so_far.chances.size();
  if (setup_.request.timings_each) data["timings"] = timings(so_far);
  event(data);
}

void CompletionReply::stream_end_of(size_t choice) {
  const Generation& g = states_[choice].answer;
  Json data = body(Json::array({choice_json(choice, "", g, g.chances.size(), finish_reason(g))}));
  data["timings"] = timings(g);
  event(data);
}

void CompletionReply::stream_end() {
  if (setup_.request.usage_chunk) {
    Json data = body(Json::array());
    data["usage"] = usage();
    event(data);
  }
  raw_event("data: [DONE]\n\n");
}

Json CompletionReply::whole() {
  Json choices = Json::array();
  for (size_t i = 0; i < states_.size(); ++i) {
    const Generation& g = states_[i].answer;
    choices.push_back(choice_json(i, g.text, g, 0, finish_reason(g)));
  }
  Json out = body(std::move(choices));
  out["usage"] = usage();
  out["timings"] = timings(states_[0].answer);
  return out;
}

}  // namespace anemone::serve
