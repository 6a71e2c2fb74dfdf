// What Gemma 2 and 3 share.
//     Model m = build_decoder(checkpoint, gemma_traits());
//     set_gemma_scales(hp, m);
//     std::vector<bool> windowed = set_gemma_windows(hp, m, 6);
#pragma once

#include <vector>

#include "families/decoder.h"

namespace anemone {

DecoderTraits gemma_traits();

// Embedding and query scales.
void set_gemma_scales(const Hparams& hp, Model& model);

// A soft-cap, 0 where there is none.
double gemma_softcap(const Hparams& hp, const Key& key);

// Windows in all layers but the last of each `period` of them, unless a key says otherwise. Returns which
// layers are of the windowed kind, also where the context makes the window pointless.
std::vector<bool> set_gemma_windows(const Hparams& hp, Model& model, int64_t period);

}  // namespace anemone
