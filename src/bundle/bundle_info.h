// BundleInfo: bundle.json, what `convert` writes and the runtime reads: everything that is needed to run a bundle, and
// nothing that must be guessed. docs/bundle.md gives the bytes of every input for one step.
//     BundleInfo info = BundleInfo::read("bundle");
//     for (const Stage& stage : info.stages)
//       for (const StageFunction& f : stage.functions) …                // f.interface: inputs, outputs, states by role
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/model.h"
#include "lower/interface.h"

namespace anemone {

inline constexpr int kBundleVersion = 2;
inline constexpr const char* kBundleFile = "bundle.json";

// What a bundle is for.
enum class BundleKind {
  generate,  // generates text: logits of the next token
  embed,     // a vector for a text
  classify,  // classes of a text or of each of its tokens
};
std::string_view kind_name(BundleKind kind);

// cos and sin of position * frequency, times attention_factor. With `long_frequencies` a session that will
// use more than original_context positions takes those instead, from its first token on.
struct RopeTable {
  std::vector<double> frequencies, long_frequencies;
  int64_t original_context = 0;
  double attention_factor = 1;
};

// One function of a package: the tokens it takes at once, the length it was compiled for, what it takes and gives.
struct StageFunction {
  std::string name;
  int64_t least_tokens = 1, most_tokens = 1;
  int64_t context = 0;                // rows of the cache; 0 where there is none
  std::vector<std::string> variants;  // of the bundle that it belongs to; empty: all of them
  FunctionInterface interface;        // its taps are those of the stage

  const Port* find_input(Role::Kind kind) const;
  const Port* find_output(Role::Kind kind) const;
};

// What a host does with a stage.
enum class StageKind {
  run,  // fills the function's inputs, calls it, and hands its stream to the next stage
  route,  // the same; then it chooses experts for each token, by the rule, from the logits that the function gives
  experts,  // calls only the functions whose experts some token chose, with these tokens, and adds up what they give
  sum,  // like run; the function begins with that sum. A stage of the kind route may begin with one too
};

// How a host chooses experts, and by how much each counts: as families/blocks/experts.h says it.
struct ExpertRule {
  int64_t experts = 0;  // a skip is one choice more, the last
  int64_t used = 0;     // choices of a token
  Experts::Share share = Experts::Share::of_all;
  Experts::Skip skip = Experts::Skip::none;
  double skip_scale = 1;            // of what a skip passes on
  std::vector<double> choice_bias;  // one number a choice, or none

  int64_t choices() const { return experts + (skip == Experts::Skip::none ? 0 : 1); }
};

// Packages are called in the order of their stages.
struct Stage {
  StageKind kind = StageKind::run;
  std::string package;  // folder name inside the bundle
  std::vector<StageFunction> functions;
  // Layers [first, last). One that is cut at its experts belongs to the stage that ends at its router, to the experts,
  // and to the stage that begins with their sum.
  int64_t first_layer = 0, last_layer = 0;
  std::optional<ExpertRule> rule;  // of a route
  std::vector<Tap> taps;           // values inside that goldens know; the same in all functions

  bool has_layers() const { return kind != StageKind::experts && last_layer > first_layer; }
  // It begins with the sum of what experts add.
  bool behind_experts() const;
  // It has outputs other than the stream.
  bool has_head() const;
};

// One way to run a bundle that has several, each with functions of its own over the same weights. A host chooses one.
// The first is the default.
struct Variant {
  std::string name;      // "slice"
  std::string kv_write;  // how it writes the cache, in the place of choices.kv_write
};

// A table of vectors that the host adds up to what goes into the first stage.
struct EmbeddingTable {
  std::string file;    // rows of `hidden` numbers
  std::string dtype;   // "fp16" or "int8"
  std::string scales;  // int8: file of fp32 scales, one per row
  int64_t rows = 0;

  explicit operator bool() const { return !file.empty(); }
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
  BundleKind kind = BundleKind::generate;
  std::string tool;  // "anemone 0.1.0"
  std::string family, name, architecture, source, author, license;
  std::vector<std::string>
      inferred;  // what was found in a graph and where, where no name says it; for people
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int64_t model_context = 0;  // what the model was made for
  std::string precision, kv, kv_write, target;
  bool argmax = false;
  double residual_scale = 1;
  std::string skip;     // what a router that skips its experts adds, where that was chosen
  std::string experts;  // of a model with experts: how they are computed, "all", "host" or "groups"

  EmbeddingTable tokens;                       // or the parts
  std::vector<EmbeddingPart> embedding_parts;  // of dtype tokens.dtype
  double embedding_scale = 1;       // of a row of tokens: the model's own factor times the residual scale
  EmbeddingTable positions, types;  // times the residual scale
  int64_t first_position = 0;       // row of `positions` for position 0

  std::vector<RopeTable> ropes;
  std::vector<Reach> masks;
  std::optional<Pooling> pooling;             // how pooled vectors are made
  bool normalize = false;                     // pooled vectors are brought to length 1
  std::vector<std::string> labels;            // of the classes
  ClassScores scores = ClassScores::softmax;  // what their logits become
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;
  std::optional<int64_t> pad;
  std::string tokenizer;  // file name; empty when the checkpoint had none
  std::vector<Stage> stages;
  std::vector<Variant> variants;  // empty: there is one way
  std::vector<BundleFile> files;

  // Compiled lengths of the cache, ascending; of bundles without one, the numbers of tokens.
  std::vector<int64_t> tiers() const;
  // The bundle as one of its variants alone: those of its functions, those of its stages that have some. Empty: the
  // first one. Error, with the names, for one that is not there.
  BundleInfo chosen(std::string_view variant) const;
  const Variant* find_variant(std::string_view name) const;
  // The folders of its stages, in their order, each once.
  std::vector<std::string> packages() const;
  // True if the host chooses experts.
  bool routes() const;
  // True if some layer has a recurrent state.
  bool recurrent() const;

  static BundleInfo read(const std::filesystem::path& bundle);
  std::string json() const;
};

// The folder at `path` is a bundle.
bool is_bundle(const std::filesystem::path& path);
// Error that says which verb fits, unless the bundle is of one of these kinds.
void expect_kind(const BundleInfo& info, const std::filesystem::path& path,
                 std::initializer_list<BundleKind> kinds);

}  // namespace anemone
