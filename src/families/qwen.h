// What the families of Qwen share.
//     set_qwen_windows(hp, model);
#pragma once

#include "families/decoder.h"

namespace anemone {

// How Qwen2 and Qwen3 differ from Llama.
DecoderTraits qwen2_traits();
DecoderTraits qwen3_traits();

// Which layers have windows where "layer_types" does not say it: those from "max_window_layers" on, or every second one
// before it.
enum class QwenWindows { from_there_on, every_second };

// Windows where "use_sliding_window" is on.
void set_qwen_windows(const Hparams& hp, Model& model, QwenWindows which = QwenWindows::from_there_on);

}  // namespace anemone
