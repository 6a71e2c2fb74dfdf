// ModelListing: what a checkpoint or a bundle holds: every weight as it is stored, and the facts that people ask for.
//     const ModelListing model = list_checkpoint("model.gguf");
//     print_facts(model);
//     print_weights(model, false);
// No weight is read.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bundle/bundle_info.h"

namespace anemone::cli {

struct ListedWeight {
  std::string name, place;  // place: the package or file of a bundle that holds it; empty for a checkpoint
  std::vector<int64_t> shape;
  std::string type;  // as stored: "Q4_K", "BF16", "int8 per channel"
  int64_t elements = 0;
  uint64_t bytes = 0;

  double bits() const;
};

struct ModelListing {
  std::string format;  // "GGUF"
  std::string name, architecture, family, author, license;
  // 0: not said.
  int64_t context = 0, layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  std::string tokenizer;  // "BPE"; empty: there is none
  int64_t tokens = 0;     // of the tokenizer
  bool chat_template = false;
  std::vector<ListedWeight> weights;
  std::vector<std::string> notes;

  int64_t parameters() const;  // as many as are stored: a bundle may store an embedding twice
  uint64_t weight_bytes() const;
};

ModelListing list_checkpoint(const std::string& path);
ModelListing list_bundle(const std::string& path, const BundleInfo& info);

// Parameters, sizes, tokenizer and license, a line each.
void print_facts(const ModelListing& model);
// One table. Weights that differ in the number of their layer alone are one line, unless `each` is asked for.
void print_weights(const ModelListing& model, bool each);
// Adds the facts and all weights.
void add_listing(const ModelListing& model, nlohmann::ordered_json& out);

// `anemone inspect` of a checkpoint.
int inspect_checkpoint(const std::string& path, bool each_weight, bool json, bool quiet);

}  // namespace anemone::cli
