// What the files of a sentence transformer say beside config.json: modules.json, the pooling's own configuration,
// sentence_bert_config.json and config_sentence_transformers.json. Whatever a bundle cannot do is an Error by name.
//     PooledHead head = sentence_head(hp, hidden);
//     std::optional<int64_t> most = sentence_limit(hp);      // tokens of a text
#pragma once

#include <cstdint>
#include <optional>

#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

// Mean or the first token, normalised or not. Without modules.json as 1_Pooling/config.json says, the plain mean
// without either.
PooledHead sentence_head(const Hparams& hp, int64_t hidden);

// The most tokens of a text, "max_seq_length", where it is said.
std::optional<int64_t> sentence_limit(const Hparams& hp);

}  // namespace anemone
