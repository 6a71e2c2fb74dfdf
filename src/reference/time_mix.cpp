#include "reference/time_mix.h"

#include <algorithm>

namespace anemone {
namespace {

// One after the other, token by token.
std::vector<float> beside(const std::vector<float>& a, const std::vector<float>& b, size_t tokens) {
  const size_t first = a.size() / tokens, second = b.size() / tokens;
  std::vector<float> out;
  out.reserve(a.size() + b.size());
  for (size_t t = 0; t < tokens; ++t) {
    out.insert(out.end(), a.begin() + static_cast<ptrdiff_t>(t * first),
               a.begin() + static_cast<ptrdiff_t>((t + 1) * first));
    out.insert(out.end(), b.begin() + static_cast<ptrdiff_t>(t * second),
               b.begin() + static_cast<ptrdiff_t>((t + 1) * second));
  }
  return out;
}

class TimeMixReference {
 public:
  TimeMixReference(const ReferenceScope& scope, const Attention& attention)
      : a_(attention),
        mix_(*attention.mix),
        width_(static_cast<size_t>(a_.query_width() + a_.key_width())),
        half_(static_cast<size_t>(a_.key_width() / 2)),
        filled_(static_cast<size_t>(a_.delayed_state_width()) - half_),
        kept_(static_cast<size_t>(mix_.columns()) * width_),
        taps_(scope.weights().matrix(mix_.taps)),
        tap_bias_(scope.weights().vector(mix_.tap_bias)),
        mix_weight_(scope.weights().matrix(mix_.mix)),
        mix_bias_(scope.weights().vector(mix_.mix_bias)) {}

  // The tokens of one run: z becomes c, the delayed values become those of the token before. `state` moves on;
  // `states` gets what it is after each token.
  void run(float* z, float* delayed, size_t tokens, std::vector<float>& state,
           std::vector<float>& states) const {
    if (state.empty()) state.assign(kept_ + half_ + filled_, 0.0f);
    std::vector<float> columns(state.begin(), state.begin() + static_cast<ptrdiff_t>(kept_)),
        values(state.begin() + static_cast<ptrdiff_t>(kept_), state.end() - static_cast<ptrdiff_t>(filled_));
    columns.insert(columns.end(), z, z + tokens * width_);
    values.insert(values.end(), delayed, delayed + tokens * half_);
    for (size_t t = 0; t < tokens; ++t) {
      states.insert(states.end(), columns.begin() + static_cast<ptrdiff_t>((t + 1) * width_),
                    columns.begin() + static_cast<ptrdiff_t>((t + 1) * width_ + kept_));
      states.insert(states.end(), values.begin() + static_cast<ptrdiff_t>((t + 1) * half_),
                    values.begin() + static_cast<ptrdiff_t>((t + 2) * half_));
      states.insert(states.end(), filled_, 0.0f);
    }
    state.assign(states.end() - static_cast<ptrdiff_t>(kept_ + half_ + filled_), states.end());
    std::copy_n(values.begin(), tokens * half_, delayed);
    const std::vector<float> mixed = convolved(columns, tokens);
    std::copy(mixed.begin(), mixed.end(), z);
  }

  // Adds the means of q and k to what was mixed, z: [tokens, heads + kv_heads, head_dim], and takes them apart.
  MixedHeads with_means(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& z,
                        size_t tokens) const {
    const auto heads = static_cast<size_t>(a_.heads), groups = static_cast<size_t>(a_.kv_heads),
               dim = static_cast<size_t>(a_.head_dim), shared = heads / groups;
    MixedHeads out{q, k, {}};
    for (size_t t = 0; t < tokens; ++t)
      for (size_t g = 0; g < groups; ++g)
        for (size_t i = 0; i < dim; ++i) {
          const double key = static_cast<double>(k[(t * groups + g) * dim + i]);
          double sum = 0;
          for (size_t n = g * shared; n < (g + 1) * shared; ++n) {
            const double mean = (static_cast<double>(q[(t * heads + n) * dim + i]) + key) / 2;
            sum += mean;
            out.q[(t * heads + n) * dim + i] =
                static_cast<float>(mean + static_cast<double>(z[t * width_ + n * dim + i]));
          }
          out.k[(t * groups + g) * dim + i] = static_cast<float>(
              sum / static_cast<double>(shared) + static_cast<double>(z[t * width_ + (heads + g) * dim + i]));
        }
    return out;
  }

 private:
  // c of the last `tokens` columns.
  std::vector<float> convolved(const std::vector<float>& columns, size_t tokens) const {
    const auto steps = static_cast<size_t>(mix_.steps), mix_steps = static_cast<size_t>(mix_.mix_steps),
               dim = static_cast<size_t>(a_.head_dim), tapped = tokens + mix_steps - 1;
    std::vector<double> a(tapped * width_);
    for (size_t t = 0; t < tapped; ++t)
      for (size_t c = 0; c < width_; ++c) {
        double sum = static_cast<double>(tap_bias_[c]);
        for (size_t j = 0; j < steps; ++j)
          sum +=
              static_cast<double>(taps_[c * steps + j]) * static_cast<double>(columns[(t + j) * width_ + c]);
        a[t * width_ + c] = sum;
      }
    std::vector<float> out(tokens * width_);
    for (size_t t = 0; t < tokens; ++t)
      for (size_t c = 0; c < width_; ++c) {
        double sum = static_cast<double>(mix_bias_[c]);
        const size_t head = c / dim * dim;
        for (size_t i = 0; i < dim; ++i)
          for (size_t j = 0; j < mix_steps; ++j)
            sum += static_cast<double>(mix_weight_[(c * dim + i) * mix_steps + j]) *
                   a[(t + j) * width_ + head + i];
        out[t * width_ + c] = static_cast<float>(sum);
      }
    return out;
  }

  const Attention& a_;
  const TimeMix& mix_;
  size_t width_, half_, filled_, kept_;
  std::vector<float> taps_, tap_bias_, mix_weight_, mix_bias_;
};

}  // namespace

MixedHeads mix_over_time(const ReferenceScope& scope, size_t layer, const Attention& a,
                         const std::vector<float>& h, int64_t tokens, LayerMemory& memory) {
  const TimeMixReference mix(scope, a);
  const auto count = static_cast<size_t>(tokens);
  const std::vector<float> q = scope.project("q", layer, a.q, h, tokens);
  const std::vector<float> k = scope.project("k", layer, a.k, h, tokens);
  const std::vector<float> v = scope.project("v", layer, a.v, h, tokens);
  std::vector<float> z = beside(q, k, count);
  std::vector<float> delayed = scope.project("v", layer, a.mix->delayed, h, tokens);
  std::vector<float> states;
  for (const TokenRun& run : scope.runs()) {
    std::vector<float> state = memory.columns;
    const auto first = static_cast<size_t>(run.first);
    mix.run(&z[first * z.size() / count], &delayed[first * delayed.size() / count],
            static_cast<size_t>(run.count), state, states);
    if (!scope.probes()) memory.columns = state;
  }
  scope.tap("recurrent", static_cast<int64_t>(layer), states);
  MixedHeads out = mix.with_means(q, k, z, count);
  out.v = beside(v, delayed, count);
  return out;
}

}  // namespace anemone
