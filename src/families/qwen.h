// What the families of Qwen share.
//     set_qwen_windows(hp, model);
#pragma once

#include "families/decoder.h"

namespace anemone {

// How Qwen3 differs from Llama.
DecoderTraits qwen3_traits();

// Windows where "use_sliding_window" is on: in the layers of "layer_types", or from "max_window_layers" on.
void set_qwen_windows(const Hparams& hp, Model& model);

}  // namespace anemone
