// A gated short convolution, as written in families/blocks/short_conv.h.
#include <algorithm>

#include "reference/scope.h"

namespace anemone {

std::vector<float> compute_block(const ReferenceScope& scope, size_t layer, const ShortConv& conv,
                                 const std::vector<float>& h, int64_t tokens, LayerMemory& memory) {
  const auto width = static_cast<size_t>(conv.width), kernel = static_cast<size_t>(conv.kernel),
             kept = (kernel - 1) * width;
  std::vector<float> s = scope.project("gate_in", layer, conv.gate_in, h, tokens);
  const std::vector<float> value = scope.project("value", layer, conv.value, h, tokens);
  std::vector<float> gate = scope.project("gate_out", layer, conv.gate_out, h, tokens);
  for (size_t i = 0; i < s.size(); ++i) s[i] *= value[i];
  const std::vector<float> taps = scope.weights().matrix(conv.taps);
  std::vector<float> states;  // what is remembered after each token
  for (const TokenRun& run : scope.runs()) {
    // The columns before a text are zeros.
    std::vector<float> all = memory.columns.empty() ? std::vector<float>(kept) : memory.columns;
    const size_t first = static_cast<size_t>(run.first) * width, count = static_cast<size_t>(run.count);
    all.insert(all.end(), s.begin() + static_cast<ptrdiff_t>(first),
               s.begin() + static_cast<ptrdiff_t>(first + count * width));
    for (size_t t = 0; t < count; ++t) {
      for (size_t c = 0; c < width; ++c) {
        double sum = 0;
        for (size_t j = 0; j < kernel; ++j)
          sum += static_cast<double>(taps[c * kernel + j]) * static_cast<double>(all[(t + j) * width + c]);
        float& out = gate[first + t * width + c];
        out = static_cast<float>(static_cast<double>(out) * sum);
      }
      states.insert(states.end(), all.begin() + static_cast<ptrdiff_t>((t + 1) * width),
                    all.begin() + static_cast<ptrdiff_t>((t + 1) * width + kept));
    }
    if (!scope.probes()) memory.columns.assign(all.end() - static_cast<ptrdiff_t>(kept), all.end());
  }
  scope.tap("recurrent", static_cast<int64_t>(layer), states);
  return scope.project("o", layer, conv.o, gate, tokens);
}

}  // namespace anemone
