#include "families/shared_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/byte_reader.h"
#include "families/size_names.h"

namespace anemone {
namespace {

using Json = nlohmann::ordered_json;

constexpr Key kBos{"bos_token_id", "tokenizer.ggml.bos_token_id"};
constexpr Key kEos{"eos_token_id", "tokenizer.ggml.eos_token_id"};
constexpr Key kEndOfTurn{"", "tokenizer.ggml.eot_token_id"};
constexpr Key kEndOfMessage{"", "tokenizer.ggml.eom_token_id"};
constexpr Key kPad{"pad_token_id", "tokenizer.ggml.padding_token_id"};
constexpr Key kTokens{"", "tokenizer.ggml.tokens"};
constexpr Key kTokenTypes{"", "tokenizer.ggml.token_type"};

// The usual converter fills the list of tokens up to the size in config.json, but of Gemma it writes only
// the rows that have a token: what is left of the list is unused.
int64_t without_padding(const Hparams& hp, const std::string& embedding, int64_t tokens) {
  constexpr int64_t kUnused = 5;
  const TensorReader* table = hp.checkpoint().find(embedding);
  if (!table || table->rows() >= tokens) return tokens;
  const auto types = hp.find_integers(kTokenTypes, INT32_MIN);
  if (!types || static_cast<int64_t>(types->size()) != tokens) return tokens;
  const bool unused =
      std::all_of(types->begin() + table->rows(), types->end(), [](int64_t type) { return type == kUnused; });
  return unused ? table->rows() : tokens;
}

std::vector<int64_t> token_ids(const Hparams& hp, const Key& key, int64_t vocab, IdsOutside outside) {
  try {
    return hp.find_token_ids(key, vocab);
  } catch (const Error&) {
    if (outside == IdsOutside::are_errors) throw;
    return {};
  }
}

// generation_config.json may name further ends.
std::vector<int64_t> generation_ends(const Hparams& hp, int64_t vocab) {
  const auto generation = hp.checkpoint().companion("generation_config.json");
  if (!generation || !generation->is_object()) return {};
  const auto at = generation->find("eos_token_id");
  if (at == generation->end() || at->is_null()) return {};
  std::vector<int64_t> ids;
  for (const Json& id : at->is_array() ? *at : Json::array({*at})) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab))
      throw Error("'eos_token_id' is not a token of the vocabulary")
          .at((hp.checkpoint().folder() / "generation_config.json").string())
          .found(printable(id.dump()))
          .expected(fmt::format("0 to {}", vocab - 1));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

}  // namespace

int64_t vocabulary_size(const Hparams& hp, const std::string& embedding, int64_t otherwise) {
  if (const auto said = hp.find_integer(keys::kVocab)) return *said;
  if (hp.has_defaults() && otherwise > 0) return otherwise;
  const std::optional<uint64_t> listed = hp.list_size(kTokens);
  if (listed && *listed >= 1 && *listed <= uint64_t{Hparams::kMost})
    return without_padding(hp, embedding, static_cast<int64_t>(*listed));
  if (!hp.spells(kTokens)) throw hp.missing(keys::kVocab);
  throw errorf("the size of the vocabulary is not given")
      .at(hp.file())
      .expected(fmt::format("{} or the list {}", hp.named(keys::kVocab), hp.named(kTokens)));
}

void read_special_tokens(const Hparams& hp, Model& model, IdsOutside outside) {
  const int64_t vocab = model.vocab;
  if (const auto ids = token_ids(hp, kBos, vocab, outside); !ids.empty()) model.bos = ids.front();
  if (const auto ids = token_ids(hp, kPad, vocab, IdsOutside::are_passed_over); !ids.empty())
    model.pad = ids.front();
  const auto add = [&](const std::vector<int64_t>& ids) {
    for (const int64_t id : ids)
      if (std::find(model.eos.begin(), model.eos.end(), id) == model.eos.end()) model.eos.push_back(id);
  };
  for (const Key& key : {kEos, kEndOfTurn, kEndOfMessage}) add(token_ids(hp, key, vocab, outside));
  if (outside == IdsOutside::are_errors) add(generation_ends(hp, vocab));
}

Activation read_activation(const Hparams& hp, const Key& key, Activation otherwise) {
  const std::optional<std::string> name = hp.find_text(key);
  if (!name) return otherwise;
  if (*name == "silu" || *name == "swish") return Activation::silu;
  if (*name == "gelu_pytorch_tanh" || *name == "gelu_new" || *name == "gelu_fast")
    return Activation::gelu_tanh;
  if (*name == "gelu") return Activation::gelu;
  throw Error("the activation is not supported")
      .at(hp.file())
      .found(printable(*name))
      .expected("silu, gelu, gelu_pytorch_tanh, gelu_new or gelu_fast");
}

void note_origins(const Hparams& hp, Model& model) {
  const std::pair<std::string_view, const Key&> known[] = {
      {size_names::kHidden, keys::kHidden},     {size_names::kLayers, keys::kLayers},
      {size_names::kHeads, keys::kHeads},       {size_names::kKeyHeads, keys::kKvHeads},
      {size_names::kMlp, keys::kIntermediate},  {size_names::kVocabulary, keys::kVocab},
      {size_names::kPositions, keys::kContext}, {size_names::kTokenTypes, keys::kTypes},
      {size_names::kHeadSize, keys::kHeadDim},
  };
  for (const auto& [size, key] : known)
    if (hp.spells(key)) model.origins[std::string(size)] = hp.named(key);
  if (!hp.says(keys::kVocab) && hp.spells(kTokens))
    model.origins[std::string(size_names::kVocabulary)] = hp.named(kTokens);
  if (!hp.says(keys::kHeadDim))
    model.origins[std::string(size_names::kHeadSize)] = hp.named(keys::kHeadDim) + " is missing";
}

}  // namespace anemone
