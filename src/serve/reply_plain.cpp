#include <cmath>

#include "serve/reply_forms.h"

namespace anemone::serve {

PlainReply::PlainReply(ReplySetup setup, bool list, bool with_tokens)
    : Reply(std::move(setup)), list_(list), with_tokens_(with_tokens) {
  id_ = random_id("cmpl-");
}

Json PlainReply::settings() const {
  const GenerateOptions& o = setup_.request.options;
  const SamplerOptions& s = o.sampling;
  Json biases = Json::array();
  for (const auto& [id, bias] : s.biases)
    biases.push_back({{"token", id}, {"bias", std::isinf(bias) ? Json(nullptr) : Json(bias)}});
  if (o.ignore_eos)
    for (const int32_t id : setup_.model->tokenizer()->end_of_generation())
      biases.push_back({{"token", id}, {"bias", nullptr}});
  return {{"n_predict", setup_.request.wanted_new},
          {"seed", setup_.request.seed},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"repeat_last_n", s.repetition_window},
          {"repeat_penalty", s.repetition_penalty},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"ignore_eos", o.ignore_eos},
          {"stop", o.stops},
          {"n_probs", std::max<int64_t>(o.chances, 0)},
          {"stream", setup_.request.stream},
          {"logit_bias", biases}};
}

Json PlainReply::last(size_t choice, std::string_view content) const {
  const Generation& g = states_[choice].answer;
  const char* type = g.why == StopReason::end_of_text ? "eos"
                     : g.why == StopReason::stop_text ? "word"
                                                      : "limit";
  return {{"index", choice / static_cast<size_t>(setup_.request.choices)},
          {"content", content},
          {"tokens", with_tokens_ ? Json(g.ids) : Json::array()},
          {"id_slot", 0},
          {"stop", true},
          {"model", setup_.model->name()},
          {"tokens_predicted", g.stats.new_tokens},
          {"tokens_evaluated", g.stats.prompt_tokens},
          {"generation_settings", settings()},
          {"prompt", setup_.prompt_text},
          {"has_new_line", g.text.find('\n') != std::string::npos},
          {"truncated", g.why == StopReason::context},
          {"stop_type", type},
          {"stopping_word", g.stop},
          {"tokens_cached", g.stats.prompt_tokens + g.stats.new_tokens - 1},
          {"timings", timings(g)}};
}

void PlainReply::stream_progress(size_t choice, const Json& progress) {
  Json data = {{"index", choice},
               {"content", ""},
               {"tokens", Json::array()},
               {"stop", false},
               {"prompt_progress", progress}};
  event(data);
}

void PlainReply::stream_piece(size_t choice, const Generation& so_far, std::string_view fresh) {
  State& state = states_[choice];
  if (so_far.ids.size() == state.noted && fresh.empty()) return;
  Json data = {{"index", choice},
               {"content", fresh},
               {"tokens", std::vector<int32_t>(so_far.ids.begin() + static_cast<ptrdiff_t>(state.noted),
                                               so_far.ids.end())},
               {"stop", false}};
  if (!so_far.chances.empty())
    data["completion_probabilities"] = chances_json(so_far, state.noted, so_far.chances.size());
  state.noted = so_far.ids.size();
  if (setup_.request.timings_each) data["timings"] = timings(so_far);
  event(data);
}

void PlainReply::stream_end_of(size_t choice) { event(last(choice, "")); }

Json PlainReply::whole() {
  Json out = Json::array();
  for (size_t i = 0; i < states_.size(); ++i) {
    const Generation& g = states_[i].answer;
    out.push_back(last(i, g.text));
    if (setup_.request.options.chances >= 0)
      out.back()["completion_probabilities"] = chances_json(g, 0, g.chances.size());
  }
  return list_ ? out : out[0];
}

}  // namespace anemone::serve
