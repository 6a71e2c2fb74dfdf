#include "runtime/answer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/ngram.h"

namespace anemone {
namespace {

SamplerOptions with_seed(SamplerOptions options, uint64_t seed) {
  options.seed = seed;
  return options;
}

}  // namespace

std::vector<int32_t> end_tokens(const Bundle& bundle, const Tokenizer* tokenizer) {
  std::vector<int32_t> out;
  for (const int64_t id : bundle.info().eos) out.push_back(static_cast<int32_t>(id));
  if (tokenizer)
    out.insert(out.end(), tokenizer->end_of_generation().begin(), tokenizer->end_of_generation().end());
  return out;
}

Answer::Answer(const GenerateOptions& options, const std::shared_ptr<const Tokenizer>& tokenizer,
               std::vector<int32_t> ends, std::span<const int32_t> prompt, uint64_t seed)
    : options_(options),
      sampler_(with_seed(options.sampling, seed)),
      stop_text_(options.stops),
      ids_(prompt.begin(), prompt.end()),
      ends_(std::move(ends)) {
  if (tokenizer) stream_.emplace(tokenizer, !options.show_special);
  if (options.grammar) grammar_.emplace(options.grammar);
  ends_.insert(ends_.end(), options.ends.begin(), options.ends.end());
  if (options.ignore_eos && !grammar_) ends_.clear();
  if (!options.sampling.greedy()) out_.seed = seed;
}

int32_t Answer::pick(std::span<const float> logits) {
  const int32_t token = sampler_.pick(logits, ids_, out_.ids, grammar());
  if (options_.chances >= 0) note_chances(logits, token);
  return token;
}

// Of the model's own logits, before penalties and temperature.
void Answer::note_chances(std::span<const float> logits, int32_t chosen) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - top);
  const double base = top + std::log(sum);
  const auto chance = [&](int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - base);
  };
  chance_.emplace(TokenChance{chosen, chance(chosen), {}});
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto count =
      static_cast<ptrdiff_t>(std::min<int64_t>(options_.chances, static_cast<int64_t>(order.size())));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (ptrdiff_t i = 0; i < count; ++i)
    chance_->top.emplace_back(order[static_cast<size_t>(i)], chance(order[static_cast<size_t>(i)]));
}

bool Answer::emit(int32_t token) {
  if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) return end(StopReason::end_of_text);
  if (options_.max_new <= 0) return end(StopReason::length);
  ids_.push_back(token);
  out_.ids.push_back(token);
  if (chance_) out_.chances.push_back(std::move(*chance_));
  chance_.reset();
  if (grammar_) grammar_->take(token);
  if (stream_) give(stop_text_.feed(stream_->feed(token)));
  if (stop_text_.found()) return end(StopReason::stop_text);
  if (ends_in_repeat(out_.ids, options_.stop_ngram)) return end(StopReason::repetition);
  if (made() >= options_.max_new) return end(StopReason::length);
  if (options_.keep_going && !options_.keep_going()) return end(StopReason::cancelled);
  return true;
}

bool Answer::end(StopReason why) {
  out_.why = why;
  return false;
}

void Answer::give(const std::string& text) {
  if (text.empty()) return;
  out_.text += text;
  if (options_.on_text) options_.on_text(text);
}

Generation Answer::finish() {
  if (stream_) give(stop_text_.feed(stream_->finish()));
  give(stop_text_.finish());
  if (stop_text_.found()) {
    out_.why = StopReason::stop_text;
    out_.stop = *stop_text_.found();
  }
  out_.stats.new_tokens = made();
  return std::move(out_);
}

}  // namespace anemone
