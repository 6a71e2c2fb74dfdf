// Answers of the C interface: for hosts that run the model themselves.
#include "runtime/answer.h"

#include <optional>

#include "capi/handles.h"

struct anemone_answer {
  anemone::GenerateOptions options;  // the answer refers to both
  std::shared_ptr<const anemone::Tokenizer> tokenizer;
  std::optional<anemone::Answer> answer;
  std::string text;  // what the last call gave
  bool over = false, finished = false;
};

namespace anemone {
namespace {

anemone_answer& open(anemone_answer* answer) {
  anemone_answer& a = expect(answer, "the answer");
  if (a.finished) throw errorf("the answer is finished: make another one");
  return a;
}

}  // namespace

extern "C" {

anemone_status anemone_answer_new(const anemone_tokenizer* tokenizer, const int32_t* prompt, size_t count,
                                  const anemone_generate_options* options, anemone_answer** out) {
  return guarded([&] {
    anemone_answer*& place = emptied(out, "the place for the answer");
    auto made = std::make_unique<anemone_answer>();
    made->options = options_of(taken(options, anemone_generate_options_init_sized));
    if (tokenizer) made->tokenizer = tokenizer->format->tokenizer();
    made->options.on_text = [text = &made->text](std::string_view piece) { *text += without_zeros(piece); };
    const Generator checked(made->tokenizer, made->options);
    const auto ends = made->tokenizer ? made->tokenizer->end_of_generation() : std::vector<int32_t>();
    made->answer.emplace(made->options, made->tokenizer, ends, list_of(prompt, count, "the prompt"),
                         made->options.sampling.seed);
    place = made.release();
    return ANEMONE_OK;
  });
}

void anemone_answer_free(anemone_answer* answer) { delete answer; }

anemone_status anemone_answer_pick(anemone_answer* answer, const float* logits, size_t count, int32_t* id) {
  return guarded([&] {
    int32_t& place = emptied(id, "the place for the id");
    anemone_answer& a = open(answer);
    place = a.answer->pick(list_of(logits, count, "the list of logits"));
    return ANEMONE_OK;
  });
}

anemone_status anemone_answer_take(anemone_answer* answer, int32_t id, const char** text, int* over) {
  return guarded([&] {
    if (text) *text = "";
    if (over) *over = 0;
    anemone_answer& a = open(answer);
    if (a.over) throw errorf("the answer is over: no token follows it");
    a.text.clear();
    a.over = !a.answer->emit(id);
    if (text) *text = a.text.c_str();
    if (over) *over = a.over ? 1 : 0;
    return ANEMONE_OK;
  });
}

anemone_status anemone_answer_finish(anemone_answer* answer, const char** text, const char** stopped) {
  return guarded([&] {
    if (text) *text = "";
    if (stopped) *stopped = "";
    anemone_answer& a = open(answer);
    a.text.clear();
    if (!a.over) a.answer->end(StopReason::cancelled);
    a.finished = true;
    const Generation done = a.answer->finish();
    if (text) *text = a.text.c_str();
    if (stopped) *stopped = stop_reason_text(done.why).data();  // literals: they end with a 0
    return ANEMONE_OK;
  });
}

}  // extern "C"
}  // namespace anemone
