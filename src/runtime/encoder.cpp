#include "runtime/encoder.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "predict/predict_queue.h"
#include "runtime/columns.h"
#include "runtime/session.h"
#include "runtime/stage_pass.h"

namespace anemone {
namespace {

// The first columns of [1, C, T, 1] as rows.
std::vector<float> rows_of(const TensorView& view, int64_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * view.shape[1]));
  read_columns(view, 0, rows, out.data(), view.shape[1]);
  return out;
}

std::vector<float> pool(std::span<const float> hidden, int64_t tokens, Pooling pooling) {
  const size_t width = hidden.size() / static_cast<size_t>(tokens);
  if (pooling == Pooling::first) return {hidden.begin(), hidden.begin() + static_cast<ptrdiff_t>(width)};
  std::vector<double> sums(width);
  for (size_t i = 0; i < hidden.size(); ++i) sums[i % width] += static_cast<double>(hidden[i]);
  std::vector<float> out(width);
  for (size_t i = 0; i < width; ++i) out[i] = static_cast<float>(sums[i] / static_cast<double>(tokens));
  return out;
}

}  // namespace

Encoder::Encoder(std::shared_ptr<const Bundle> bundle, EncoderOptions options)
    : bundle_(std::move(bundle)),
      options_(options),
      calls_(std::make_shared<CallsPool>(std::max(1, bundle_->backend().calls_at_once()))) {
  expect_kind(bundle_->info(), bundle_->path(), {BundleKind::embed, BundleKind::classify});
}

const StageFunction& Encoder::function_for(int64_t tokens) const {
  const StageFunction* best = nullptr;
  for (const StageFunction& f : bundle_->functions())
    if (f.most_tokens >= tokens && (!best || f.most_tokens < best->most_tokens)) best = &f;
  if (!best)
    throw errorf("the text is too long for the bundle")
        .at(bundle_->path().string())
        .found(fmt::format("{} tokens", tokens))
        .expected(fmt::format("at most {}", longest()))
        .hint(longest() < bundle_->info().model_context
                  ? "cut it with --truncate, or convert with a larger --tokens"
                  : "cut it with --truncate: the model's own files allow no more (max_seq_length of "
                    "sentence_bert_config.json, or the number of its positions)");
  return *best;
}

// What is left of a list of one value a token when the text is cut.
std::vector<int32_t> Encoder::fitting(std::span<const int32_t> values) const {
  const auto most = static_cast<size_t>(longest());
  if (!options_.truncate || values.size() <= most) return {values.begin(), values.end()};
  const size_t last = std::min(options_.keep_last, most), first = most - last;
  std::vector<int32_t> out(values.begin(), values.begin() + static_cast<ptrdiff_t>(first));
  out.insert(out.end(), values.end() - static_cast<ptrdiff_t>(last), values.end());
  return out;
}

EncodedText Encoder::encode(const EncoderText& text) const {
  try {
    return encode_here(text);
  } catch (Error& e) {
    if (!text.place.empty()) e.within(text.place);
    throw;
  }
}

std::unique_ptr<StageCalls> Encoder::CallsPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<StageCalls>();
  auto calls = std::move(free_.back());
  free_.pop_back();
  return calls;
}

void Encoder::CallsPool::give(std::unique_ptr<StageCalls> calls) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < most_) free_.push_back(std::move(calls));
}

// After an Error the calls are not lent again.
EncodedText Encoder::encode_here(const EncoderText& text) const {
  auto calls = calls_->take();
  EncodedText out = encode_with(text, *calls);
  calls_->give(std::move(calls));
  return out;
}

EncodedText Encoder::encode_with(const EncoderText& text, StageCalls& calls) const {
  if (text.ids.empty()) throw errorf("the text has no tokens");
  if (!text.types.empty() && text.types.size() != text.ids.size())
    throw errorf("there are {} tokens and {} token types", text.ids.size(), text.types.size());
  const std::vector<int32_t> ids = fitting(text.ids), types = fitting(text.types);
  const BundleInfo& info = bundle_->info();
  EncodedText out;
  out.tokens = static_cast<int64_t>(ids.size());
  out.cut = static_cast<int64_t>(text.ids.size()) - out.tokens;
  out.width = function_for(out.tokens).most_tokens;
  // A classifier pools as it was trained to, whatever is asked of the vector.
  const bool embeds = info.kind == BundleKind::embed;
  StagePass pass(
      *bundle_, calls,
      {.ids = ids, .types = types, .width = out.width, .pooling = embeds ? options_.pooling : std::nullopt});
  for (size_t s = 0; s < info.stages.size(); ++s) {
    if (info.stages[s].kind == StageKind::experts) {
      pass.experts(s);
      continue;
    }
    const StageFunction& f = bundle_->function(s, out.width, 0);
    const Call& call = pass.stage(s, f);
    if (const Port* port = f.find_output(Role::Kind::pooled))
      out.pooled = rows_of(call.output(port->name), 1);
    if (const Port* port = f.find_output(Role::Kind::classes))
      out.classes = rows_of(call.output(port->name), info.pooling ? 1 : out.tokens);
  }
  out.fault = pass.fault();
  if (options_.classes_only) return out;
  out.hidden = rows_of(pass.stream(), out.tokens);
  if (out.pooled.empty())
    out.pooled =
        pool(out.hidden, out.tokens, options_.pooling.value_or(info.pooling.value_or(Pooling::mean)));
  return out;
}

void Encoder::each(std::span<const EncoderText> texts, int workers,
                   const std::function<void(size_t index, EncodedText encoded)>& take,
                   const std::function<bool()>& go_on) const {
  std::mutex mutex;
  PredictQueue queue(static_cast<int>(std::min(texts.size(), static_cast<size_t>(std::max(1, workers)))));
  for (size_t i = 0; i < texts.size(); ++i)
    queue.add([&, i] {
      if (go_on && !go_on()) throw Cancelled();
      EncodedText encoded = encode(texts[i]);
      const std::lock_guard lock(mutex);
      if (queue.cancelled()) return;  // of another text that went wrong, or was stopped
      take(i, std::move(encoded));
    });
  queue.finish();
}

void normalize(std::span<float> vector) {
  double squares = 0;
  for (const float v : vector) squares += static_cast<double>(v) * static_cast<double>(v);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& v : vector) v = static_cast<float>(static_cast<double>(v) / length);
}

}  // namespace anemone
