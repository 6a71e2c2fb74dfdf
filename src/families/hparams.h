// Hparams: the numbers of a checkpoint under the keys of either format, typed and checked.
//     Hparams hp(checkpoint);
//     int64_t heads = hp.integer(keys::kHeads);       // "num_attention_heads", or
//     "llama.attention.head_count" hp.named(keys::kHeads);                         // which of the two it is,
//     for messages
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anemone/error.h"
#include "checkpoint/checkpoint.h"

namespace anemone {

// One number's name in config.json and in GGUF metadata, there without the architecture in front. Empty: that
// format does not have it.
struct Key {
  const char* config;
  const char* gguf;
};

namespace keys {
inline constexpr Key kHidden{"hidden_size", "embedding_length"};
inline constexpr Key kLayers{"num_hidden_layers", "block_count"};
inline constexpr Key kHeads{"num_attention_heads", "attention.head_count"};
inline constexpr Key kKvHeads{"num_key_value_heads", "attention.head_count_kv"};
inline constexpr Key kHeadDim{"head_dim", "attention.key_length"};
inline constexpr Key kIntermediate{"intermediate_size", "feed_forward_length"};
inline constexpr Key kVocab{"vocab_size", "vocab_size"};
inline constexpr Key kContext{"max_position_embeddings", "context_length"};
inline constexpr Key kNormEps{"rms_norm_eps", "attention.layer_norm_rms_epsilon"};
inline constexpr Key kWindow{"sliding_window", "attention.sliding_window"};
}  // namespace keys

class Hparams {
 public:
  explicit Hparams(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  bool is_gguf() const { return checkpoint_.format() == CheckpointFormat::gguf; }
  // config.json, or its "text_config" where the model has other parts too; Error for GGUF.
  const nlohmann::ordered_json& config() const;
  bool has_text_part() const;  // whether that is a "text_config"

  // The value, or nothing where the key is absent or null. Error when it is of another kind or outside
  // [least, most]. One value per layer, all the same, counts as that value.
  std::optional<int64_t> find_integer(const Key& key, int64_t least = 1, int64_t most = kMost) const;
  std::optional<double> find_number(const Key& key) const;  // finite
  std::optional<bool> find_flag(const Key& key) const;
  std::optional<std::string> find_text(const Key& key) const;
  // Whether config.json has the key, be it with null.
  bool says(const Key& key) const;
  // The value; Error where it is absent.
  int64_t integer(const Key& key, int64_t least = 1, int64_t most = kMost) const;
  double number(const Key& key) const;
  // A token id, or every id of a list; those that are no row of the vocabulary are an Error.
  std::vector<int64_t> find_token_ids(const Key& key, int64_t vocab) const;

  // "'llama.block_count'" or "'num_hidden_layers' of config.json".
  std::string named(const Key& key) const;
  // The file that the keys are in.
  std::string file() const;
  Error missing(const Key& key) const;

  static constexpr int64_t kMost = (int64_t{1} << 31) - 1;

 private:
  std::string gguf_key(const Key& key) const;
  std::optional<int64_t> find_any_integer(const Key& key) const;

  const Checkpoint& checkpoint_;
};

// A number of a JSON object: nothing where the key is absent or null, Error when it is no finite number.
std::optional<double> find_json_number(const nlohmann::ordered_json& object, const char* key,
                                       const std::string& file);
std::vector<double> json_numbers(const nlohmann::ordered_json& object, const char* key,
                                 const std::string& file);

}  // namespace anemone
