#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace anemone {
namespace {

constexpr float kMaskedOut = -10000.0f;
constexpr int64_t kIndexBase = 128;  // an argmax index comes as high * 128 + low

// Copies the first rows of a cache [n, heads, S, width] into a longer one.
Array grown(const Array& from, int64_t context) {
  std::vector<int64_t> shape = from.shape();
  const int64_t outer = shape[0] * shape[1], old = shape[2], width = shape[3];
  shape[2] = context;
  Array to(DType::fp32, shape);
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(to.values<float>().data() + i * context * width,
                from.values<float>().data() + i * old * width,
                static_cast<size_t>(std::min(old, context) * width) * sizeof(float));
  return to;
}

// The name of a state without its tier: k_cache_3_c256 → k_cache_3.
std::string stem(const std::string& name) {
  const size_t at = name.rfind("_c");
  const bool tier = at != std::string::npos && at + 2 < name.size() &&
                    name.find_first_not_of("0123456789", at + 2) == std::string::npos;
  return tier ? name.substr(0, at) : name;
}

// What a call costs, in calls of a few tokens: reading the weights, and arithmetic that grows with the width.
double cost(int64_t width) { return 1 + static_cast<double>(width) / 8; }

}  // namespace

Session::Session(std::shared_ptr<const Bundle> bundle, SessionOptions options)
    : bundle_(std::move(bundle)), options_(std::move(options)), tier_(bundle_->tiers().front()) {
  const auto& stages = bundle_->info().stages;
  states_.resize(stages.size());
  caches_.resize(stages.size());
  if (!options_.function.empty()) {
    const auto& functions = stages[0].functions;
    const auto it = std::find_if(functions.begin(), functions.end(),
                                 [&](const StageFunction& f) { return f.name == options_.function; });
    std::string names;
    for (const StageFunction& f : functions) names += (names.empty() ? "" : ", ") + f.name;
    if (it == functions.end())
      throw errorf("the bundle has no function '{}'", options_.function).expected(names);
    tier_ = it->context;
  }
}

// The function of this tier that is cheapest for each of the remaining tokens that it takes; it may be padded.
Session::Chunk Session::choose(int64_t left) const {
  const int64_t room = tier_ - position_;
  const int64_t most = std::min({left, room, options_.chunk > 0 ? options_.chunk : left});
  Chunk best;
  for (const StageFunction& f : bundle_->info().stages[0].functions) {
    if (f.context != tier_ || (!options_.function.empty() && f.name != options_.function)) continue;
    Chunk c;
    c.function = &f;
    if (f.least_tokens <= most) {
      c.tokens = std::min(most, f.most_tokens);
      c.width = c.tokens < f.least_tokens ? f.least_tokens : c.tokens;
      if (f.least_tokens == f.most_tokens) c.width = f.most_tokens;
    } else {
      c.tokens = most;
      c.width = f.least_tokens;
    }
    // A slice write puts the padding's rows into the cache too: they must fit.
    if (bundle_->info().kv_write == "slice" && position_ + c.width > tier_) continue;
    if (!best.function ||
        cost(c.width) * static_cast<double>(best.tokens) < cost(best.width) * static_cast<double>(c.tokens))
      best = c;
  }
  if (!best.function)
    throw errorf("no function of the bundle takes {} tokens at position {}", most, position_)
        .hint("convert with --tokens 1 as well, or with --kv-write mask");
  return best;
}

void Session::move_to_tier(int64_t context) {
  const auto& stages = bundle_->info().stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (auto& [name, cache] : caches_[s]) cache = grown(cache, context);
    if (!states_[s]) continue;
    const auto& functions = stages[s].functions;
    const auto it = std::find_if(functions.begin(), functions.end(),
                                 [&](const StageFunction& f) { return f.context == context; });
    std::unique_ptr<State> next = bundle_->predictor(s, it->name).make_state();
    for (const std::string& old : states_[s]->names())
      for (const std::string& name : next->names())
        if (stem(name) == stem(old)) next->set(name, grown(states_[s]->get(old), context));
    states_[s] = std::move(next);
  }
  tier_ = context;
}

// Masks, rope tables and where to write: the same for every layer stage. Padding repeats the last token in
// every respect, which the engine sees and computes once.
Session::Arrays Session::common_inputs(const Chunk& chunk) const {
  const BundleInfo& info = bundle_->info();
  const int64_t width = chunk.width, context = tier_;
  Arrays out;
  for (const MaskInfo& m : info.masks) {
    Array mask(DType::fp32, {1, 1, width, context});
    float* values = mask.values<float>().data();
    for (int64_t t = 0; t < width; ++t)
      for (int64_t j = 0; j < context; ++j) {
        const int64_t at = position_ + std::min(t, chunk.tokens - 1);
        const bool seen = j <= at && (m.window == 0 || at - j < m.window);
        values[t * context + j] = seen ? 0.0f : kMaskedOut;
      }
    out.emplace(m.name, std::move(mask));
  }
  for (const RopeTable& r : info.ropes) {
    const int64_t total = options_.positions > 0 ? options_.positions : bundle_->tiers().back();
    const auto& f =
        !r.long_frequencies.empty() && total > r.original_context ? r.long_frequencies : r.frequencies;
    const auto pairs = static_cast<int64_t>(f.size());
    Array cos(DType::fp32, {1, 1, width, pairs}), sin(DType::fp32, {1, 1, width, pairs});
    for (int64_t t = 0; t < width; ++t)
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t at = position_ + std::min(t, chunk.tokens - 1);
        const double angle = static_cast<double>(at) * f[static_cast<size_t>(i)];
        cos.values<float>()[static_cast<size_t>(t * pairs + i)] =
            static_cast<float>(std::cos(angle) * r.attention_factor);
        sin.values<float>()[static_cast<size_t>(t * pairs + i)] =
            static_cast<float>(std::sin(angle) * r.attention_factor);
      }
    out.emplace(r.cos, std::move(cos));
    out.emplace(r.sin, std::move(sin));
  }
  if (info.kv_write == "mask") {
    Array write(DType::fp32, {1, 1, context, width});
    for (int64_t t = 0; t < chunk.tokens; ++t)
      write.values<float>()[static_cast<size_t>((position_ + t) * width + t)] = 1;
    out.emplace("write", std::move(write));
  } else {
    out.emplace("position", Array::from<int32_t>({1}, {static_cast<int32_t>(position_)}));
  }
  return out;
}

void Session::run_stage(size_t stage, const Chunk& chunk, Arrays& inputs, Array& x) {
  const Predictor& predictor = bundle_->predictor(stage, chunk.function->name);
  Arrays own;
  own.insert_or_assign("x", std::move(x));
  for (const TensorInfo& input : predictor.signature().inputs) {
    if (const auto it = inputs.find(input.name); it != inputs.end())
      own.insert_or_assign(input.name, it->second);
    if (!input.name.starts_with("k_cache") && !input.name.starts_with("v_cache")) continue;
    auto& cache = caches_[stage][stem(input.name)];
    if (cache.shape().empty()) cache = Array(DType::fp32, input.shape);
    own.insert_or_assign(input.name, cache);
  }
  if (!states_[stage] && !predictor.signature().states.empty()) states_[stage] = predictor.make_state();
  Prediction result = predictor.predict(own, states_[stage].get());
  if (result.fault && !fault_) fault_ = result.fault;
  keep_rows(stage, result, chunk);
  if (bundle_->info().stages[stage].has_head())
    whole_ = std::move(result);
  else
    x = std::move(result.outputs.at("y"));
}

// kv io: the new rows go into the host's cache.
void Session::keep_rows(size_t stage, const Prediction& result, const Chunk& chunk) {
  for (auto& [name, cache] : caches_[stage]) {
    const std::string fresh = name.substr(0, 1) + "_new" + name.substr(std::strlen("k_cache"));
    const Array& rows = result.at(fresh);
    const int64_t heads = cache.shape()[1], context = cache.shape()[2], width = cache.shape()[3],
                  dim = rows.shape()[3];
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < chunk.tokens; ++t)
        std::memcpy(cache.values<float>().data() + (h * context + position_ + t) * width,
                    rows.values<float>().data() + (h * chunk.width + t) * dim,
                    static_cast<size_t>(dim) * sizeof(float));
  }
}

Array Session::run_layers(std::span<const int32_t> ids, const Chunk& chunk) {
  const BundleInfo& info = bundle_->info();
  Array x(DType::fp32, {1, info.hidden, chunk.width, 1});
  std::vector<float> row(static_cast<size_t>(info.hidden));
  for (int64_t t = 0; t < chunk.width; ++t) {
    if (t < chunk.tokens) bundle_->embed(ids[static_cast<size_t>(t)], row.data());
    for (int64_t c = 0; c < info.hidden; ++c)
      x.values<float>()[static_cast<size_t>(c * chunk.width + t)] = row[static_cast<size_t>(c)];
  }
  Arrays inputs = common_inputs(chunk);
  for (size_t s = 0; s < info.stages.size(); ++s)
    if (info.stages[s].has_layers()) run_stage(s, chunk, inputs, x);
  return x;
}

// What the heads take when only the last token's logits are wanted: its column alone, where they have a
// function for one token. The heads are a large part of a small model.
Session::HeadInput Session::last_column(const Array& y, const Chunk& chunk) const {
  const BundleInfo& info = bundle_->info();
  const bool alone = std::all_of(info.stages.begin(), info.stages.end(), [](const Stage& stage) {
    return !stage.has_head() ||
           (!stage.has_layers() && std::any_of(stage.functions.begin(), stage.functions.end(),
                                               [](const StageFunction& f) { return f.least_tokens == 1; }));
  });
  if (!alone || chunk.width == 1) return {y, chunk.width, chunk.tokens - 1};
  Array column(DType::fp32, {1, info.hidden, 1, 1});
  for (int64_t c = 0; c < info.hidden; ++c)
    column.values<float>()[static_cast<size_t>(c)] =
        y.values<float>()[static_cast<size_t>(c * chunk.width + chunk.tokens - 1)];
  return {std::move(column), 1, 0};
}

void Session::run_head(const HeadInput& in,
                       const std::function<void(const HeadPiece&, const Prediction&)>& take) {
  const BundleInfo& info = bundle_->info();
  for (size_t s = 0; s < info.stages.size(); ++s) {
    const Stage& stage = info.stages[s];
    if (!stage.has_head()) continue;
    if (stage.has_layers()) {  // the layers' call gave them already
      for (const HeadPiece& piece : stage.pieces) take(piece, whole_);
      continue;
    }
    const auto it = std::find_if(stage.functions.begin(), stage.functions.end(), [&](const StageFunction& f) {
      return f.least_tokens <= in.width && in.width <= f.most_tokens;
    });
    if (it == stage.functions.end())
      throw errorf("'{}' has no function for {} tokens", stage.package, in.width);
    const Prediction result = bundle_->predictor(s, it->name).predict({{"y", in.y}});
    if (result.fault && !fault_) fault_ = result.fault;
    for (const HeadPiece& piece : stage.pieces) take(piece, result);
  }
}

// Feeds the tokens chunk by chunk, moving to a longer tier where this one is full.
void Session::advance(std::span<const int32_t> ids,
                      const std::function<void(const Array& y, const Chunk& chunk, bool last)>& done) {
  check(ids);
  const auto total = static_cast<int64_t>(ids.size());
  while (!ids.empty()) {
    if (progress_ && !progress_(total - static_cast<int64_t>(ids.size()), total)) throw Cancelled();
    if (position_ == tier_)
      move_to_tier(*std::upper_bound(bundle_->tiers().begin(), bundle_->tiers().end(), tier_));
    const Chunk chunk = choose(static_cast<int64_t>(ids.size()));
    const Array y = run_layers(ids, chunk);
    const auto taken = static_cast<size_t>(chunk.tokens);
    ids_.insert(ids_.end(), ids.begin(), ids.begin() + chunk.tokens);
    ids = ids.subspan(taken);
    position_ += chunk.tokens;
    done(y, chunk, ids.empty());
  }
}

std::vector<float> Session::forward(std::span<const int32_t> ids, bool last_only) {
  const BundleInfo& info = bundle_->info();
  if (info.argmax)
    throw errorf("the bundle gives only the best token, not logits")
        .at(bundle_->path().string())
        .hint("convert without --argmax-output");
  std::vector<float> logits;
  advance(ids, [&](const Array& y, const Chunk& chunk, bool last) {
    if (last_only && !last) return;
    const HeadInput in = last_only ? last_column(y, chunk) : HeadInput{y, chunk.width, 0};
    const int64_t rows = last_only ? 1 : chunk.tokens;
    const size_t base = logits.size();
    logits.resize(base + static_cast<size_t>(rows * info.vocab));
    run_head(in, [&](const HeadPiece& piece, const Prediction& result) {
      // Rows of logits become columns; a few at a time, so that both sides stay in the cache.
      const float* values = result.at(piece.logits).values<float>().data() + in.first;
      float* to = logits.data() + base + static_cast<size_t>(piece.first_row);
      for (int64_t from = 0; from < piece.rows; from += 16)
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t r = from; r < std::min(piece.rows, from + 16); ++r)
            to[t * info.vocab + r] = values[r * in.width + t];
    });
  });
  return logits;
}

int64_t Session::forward_best(std::span<const int32_t> ids) {
  if (!bundle_->info().argmax) {
    const std::vector<float> logits = forward(ids, true);
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  int64_t best_row = -1;
  advance(ids, [&](const Array& y, const Chunk& chunk, bool last) {
    if (!last) return;
    float best = -INFINITY;
    const HeadInput in = last_column(y, chunk);
    run_head(in, [&](const HeadPiece& piece, const Prediction& result) {
      const auto at = [&](const std::string& name) {
        return result.at(name).values<float>()[static_cast<size_t>(in.first)];
      };
      if (best_row >= 0 && at(piece.best) <= best) return;
      best = at(piece.best);
      best_row = piece.first_row + static_cast<int64_t>(at(piece.high)) * kIndexBase +
                 static_cast<int64_t>(at(piece.low));
    });
  });
  return best_row;
}

}  // namespace anemone
