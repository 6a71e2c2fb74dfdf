// BundleInfo: bundle.json, what `convert` writes and the runtime reads: everything that is needed to run a
// bundle, and nothing that must be guessed. docs/bundle.md gives the bytes of every input for one step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anemone {

inline constexpr int kBundleVersion = 1;
inline constexpr const char* kBundleFile = "bundle.json";

// cos and sin of position * frequency, times attention_factor. With `long_frequencies` a session that will
// use more than original_context positions takes those instead, from its first token on.
struct RopeTable {
  std::string cos, sin;  // names of the inputs
  std::vector<double> frequencies, long_frequencies;
  int64_t original_context = 0;
  double attention_factor = 1;
};

struct MaskInfo {
  std::string name;
  int64_t window = 0;  // 0: all positions up to the token's own; else that many, its own included
};

// One function of a package: the tokens it takes at once and the length it was compiled for.
struct StageFunction {
  std::string name;
  int64_t least_tokens = 1, most_tokens = 1;
  int64_t context = 0;  // 0 for head shards
};

struct HeadPiece {
  int64_t first_row = 0, rows = 0;
  std::string logits;           // output name; empty with argmax
  std::string best, high, low;  // with argmax
};

struct Stage {
  enum class Kind { layers, head, whole };  // whole: layers and head in one function

  Kind kind = Kind::layers;
  std::string package;  // folder name inside the bundle
  std::vector<StageFunction> functions;
  int64_t first_layer = 0, last_layer = 0;  // layers [first, last)
  std::vector<HeadPiece> pieces;            // head

  bool has_layers() const { return kind != Kind::head; }
  bool has_head() const { return kind != Kind::layers; }
};

// Rows of the embedding that lie in a head's weight file: the head of a tied model is its embedding.
struct EmbeddingPart {
  std::string file;     // inside the bundle
  uint64_t offset = 0;  // of the first row's data
  uint64_t scales = 0;  // int8: of the fp16 scales, one per row
  int64_t first_row = 0, rows = 0;
};

struct BundleFile {
  std::string path;
  uint64_t bytes = 0;
  std::string xxh3;  // 16 hex digits, of the file's content
};

struct BundleInfo {
  std::string tool;  // "anemone 0.1.0"
  std::string family, name, architecture, source, author, license;
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, cache_width = 0, vocab = 0;
  int64_t model_context = 0;  // what the model was made for
  std::string precision, kv, kv_write, target;
  bool argmax = false;
  double residual_scale = 1;

  std::string embedding_file, embedding_dtype;  // "fp16" or "int8"; rows of `hidden`
  std::string embedding_scales;                 // int8: file of fp32 scales, one per row
  std::vector<EmbeddingPart> embedding_parts;   // instead of both files
  double embedding_scale = 1;  // multiplies a row: the model's own factor times the residual scale

  std::vector<RopeTable> ropes;
  std::vector<MaskInfo> masks;
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;
  std::string tokenizer;  // file name; empty when the checkpoint had none
  std::vector<Stage> stages;
  std::vector<BundleFile> files;

  static BundleInfo read(const std::filesystem::path& bundle);
  std::string json() const;
};

}  // namespace anemone
