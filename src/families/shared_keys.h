// What the families of decoders and of encoders read alike: vocabulary, special tokens, activation, and where the sizes
// were found.
//     model.vocab = vocabulary_size(hp, "token_embd.weight");
//     read_special_tokens(hp, model, IdsOutside::are_errors);
//     mlp.activation = read_activation(hp, {"hidden_act", ""}, Activation::silu);
#pragma once

#include <string>

#include "families/hparams.h"
#include "families/model.h"

namespace anemone {

// How many tokens there are: as the key says, else `otherwise` where keys may be left out, else as many as are listed.
// `embedding` names the tensor with a row for each.
int64_t vocabulary_size(const Hparams& hp, const std::string& embedding, int64_t otherwise = 0);

// What an id means that is no row of the vocabulary: an Error where texts are generated with these ids. An encoder's
// files may keep the ids of another vocabulary, and those are passed over.
enum class IdsOutside { are_errors, are_passed_over };

// Beginning, ends and padding of a text. A padding outside the vocabulary is always passed over: some say -1 for none.
void read_special_tokens(const Hparams& hp, Model& model, IdsOutside outside);

// By the name that config.json uses; Error for one that is not known here.
Activation read_activation(const Hparams& hp, const Key& key, Activation otherwise);

// Where the checkpoint says the sizes (Model::origins), for those that read them under the usual keys.
void note_origins(const Hparams& hp, Model& model);

}  // namespace anemone
