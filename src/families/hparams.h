// Hparams: the hyperparameters of a checkpoint under the keys of either naming, typed and checked.
//     Hparams hp(checkpoint);
//     int64_t heads = hp.integer(keys::kHeads);    // "num_attention_heads", or "llama.attention.head_count"
//     throw errorf("{} is odd", hp.named(keys::kHeads)).at(hp.file());        // which of the two it is
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "anemone/error.h"
#include "checkpoint/checkpoint.h"

namespace anemone {

// One value's name in config.json and in GGUF metadata, there without the architecture in front (keys that begin with
// "tokenizer." have none). Empty: that naming does not have it.
using Key = ByNaming<const char*>;

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
inline constexpr Key kTypes{"type_vocab_size", ""};
}  // namespace keys

// The model's numbers are looked up in config.json, or in its "text_config" where the model has other parts too.
// Whatever is not as it should be is an Error that names the key and the file.
class Hparams {
 public:
  // Error where the checkpoint has no naming.
  explicit Hparams(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  Naming naming() const { return naming_; }                // for tables of tensor names, ByNaming
  bool has_text_part() const { return text_ != nullptr; }  // whether there is a "text_config"

  static constexpr int64_t kMost = (int64_t{1} << 31) - 1;

  // The value, or nothing where the key is absent or null. Error when it is of another kind or outside
  // [least, most]. One integer per layer, all the same, counts as that integer.
  std::optional<int64_t> find_integer(const Key& key, int64_t least = 1, int64_t most = kMost) const;
  std::optional<double> find_number(const Key& key) const;  // finite
  std::optional<bool> find_flag(const Key& key) const;
  std::optional<std::string> find_text(const Key& key) const;
  // A dictionary of config.json ("rope_parameters"); nothing where there is none, as in all GGUF files.
  std::optional<nlohmann::ordered_json> find_object(const Key& key) const;
  // Whether this naming has such a key at all.
  bool spells(const Key& key) const { return *key[naming_] != '\0'; }
  // Whether a key that is left out means the default of the reference implementation's configuration class. Files of
  // other namings say all that matters.
  bool has_defaults() const;
  // Whether the key is there, be it with null.
  bool says(const Key& key) const;
  // Whether the key holds a list: some are one number in one file and a list in another.
  bool is_list(const Key& key) const { return list_size(key).has_value(); }
  // How many elements the list has; nothing where there is none. The elements are not read.
  std::optional<uint64_t> list_size(const Key& key) const;
  // The value; Error where it is absent.
  int64_t integer(const Key& key, int64_t least = 1, int64_t most = kMost) const;
  double number(const Key& key) const;
  // The value; where it is absent `otherwise`, if there are defaults and this is one (not 0); else Error.
  int64_t integer_or(const Key& key, int64_t otherwise, int64_t least = 1, int64_t most = kMost) const;
  double number_or(const Key& key, double otherwise) const;

  // One value per layer, or nothing where the key is absent or null. Error when the list has another length than
  // `layers`. One number instead of a list counts for every layer; flags may be written as 0 and 1.
  std::optional<std::vector<int64_t>> find_layer_integers(const Key& key, size_t layers, int64_t least = 0,
                                                          int64_t most = kMost) const;
  std::optional<std::vector<bool>> find_layer_flags(const Key& key, size_t layers) const;
  std::optional<std::vector<std::string>> find_layer_texts(const Key& key, size_t layers) const;
  // A list of any length ("full_attn_idxs": which layers attend).
  std::optional<std::vector<int64_t>> find_integers(const Key& key, int64_t least = 0,
                                                    int64_t most = kMost) const;

  // A token id, or every id of a list; those that are no row of the vocabulary are an Error.
  std::vector<int64_t> find_token_ids(const Key& key, int64_t vocab) const;

  // "'llama.block_count'" or "'num_hidden_layers' of config.json".
  std::string named(const Key& key) const;
  // The file that the keys are in.
  const std::string& file() const { return checkpoint_.metadata_file(); }
  Error missing(const Key& key) const;

 private:
  // The key as this checkpoint spells it; empty where its naming has none.
  std::string spelled(const Key& key) const;
  // The value of a spelled key; nothing where it is absent or null.
  std::optional<nlohmann::ordered_json> find(const std::string& key) const;
  Error wrong_kind(const std::string& named, std::string found, const char* wanted) const;
  int64_t as_integer(const std::string& named, const nlohmann::ordered_json& value) const;
  void expect_in_range(const Key& key, int64_t value, int64_t least, int64_t most) const;
  // `layers`: how many there must be; then `one_for_all` lets a single value stand for all of them.
  template <class T, class Convert>
  std::optional<std::vector<T>> find_list(const Key& key, std::optional<size_t> layers, bool one_for_all,
                                          const char* wanted, const Convert& convert) const;

  const Checkpoint& checkpoint_;
  Naming naming_;
  std::string prefix_;                                  // of the keys
  std::shared_ptr<const nlohmann::ordered_json> text_;  // config.json's "text_config", where there is one
};

// A number of a JSON object: nothing where the key is absent or null, Error when it is no finite number.
std::optional<double> find_json_number(const nlohmann::ordered_json& object, const char* key,
                                       const std::string& file);
std::vector<double> json_numbers(const nlohmann::ordered_json& object, const char* key,
                                 const std::string& file);

}  // namespace anemone
