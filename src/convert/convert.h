// Convert: from a checkpoint to a bundle.
//     ConvertReport r = convert("model.gguf", "bundle", {.context = {2048}});
// It calls the others in order (describe, lower, compress, write) and owns nothing else. Memory stays bounded: weights
// flow from the mapped checkpoint through a few rows per core into the packages, also where a recipe gives them fewer
// bits: tables are fitted when a package was lowered, codes are made while it is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bundle/bundle_info.h"
#include "compress/compress.h"
#include "convert/weights.h"
#include "lower/functions.h"
#include "plan/expert_cut.h"

namespace anemone {

struct ConvertOptions {
  // What is left empty below is chosen for the model and the target, so that check and verify have nothing to advise;
  // the report says what and why. Without it the plainest is taken.
  bool advised = false;
  std::vector<int64_t> context;           // several: tiers, as functions sharing weights; empty: 2048
  std::vector<lower::TokenCount> tokens;  // several: functions sharing weights; empty: 1, or lengths of texts
  std::optional<lower::KvKind> kv;        // empty: packed for iPhones and iPads, else state
  std::vector<lower::KvWrite> kv_write;   // empty: mask; both: variants, as functions sharing weights
  Precision precision = Precision::int8;
  // What becomes of each weight, as compress_bundle() would do it to a bundle of that precision.
  std::optional<Recipe> recipe;
  // What compress_bundle() will do to the bundle later: shards are cut for that. Empty: for what is written.
  std::optional<Recipe> shards_for;
  bool keep_blocks = false;  // 4- and 8-bit blocks of an ONNX bundle stay as they are
  bool whole = false;        // layers and head in one package
  bool head_apart =
      false;  // with `whole`: variants with the head in the function of the layers and apart from it
  bool argmax = false;
  bool embedding_int8 = false;
  bool embedding_in_head = false;  // no table of its own: a tied head's rows serve
  uint64_t shard_bytes = 250'000'000;
  std::optional<int64_t> head_rows;          // rows of one head convolution; empty: kHeadRows
  size_t first_layer = 0, last_layer = 0;    // 0, 0: all of them
  std::optional<double> residual_scale = 1;  // empty: measured on ordinary text
  bool glance = false;             // on a few words of it, and what cannot be measured is a note and no Error
  std::string target = "macos15";  // a chip, a device, a system: see target.h
  std::optional<ExpertWay> experts;     // empty: what the plan predicts to be fastest on the target
  std::optional<int64_t> expert_group;  // of the way `groups`; empty: about as many as a token uses
  std::string skip;  // what a router that skips its experts adds: "pass" or "zero"; empty: as the family does
  int threads = 0;
  bool overwrite = false;
  std::string tool = "anemone";
  // Called with what is done and what there is to do, in bytes, from any thread, one call at a time and about
  // twenty a second; false cancels.
  std::function<bool(uint64_t done, uint64_t total, const std::string& what)> progress;
};

struct ConvertReport {
  struct Row {
    std::string file;
    std::string holds;  // "layers 0-5", "rows 0-49151"
    uint64_t weights = 0, bytes = 0;
  };
  std::vector<Row> rows;
  BundleInfo info;
  uint64_t bytes = 0;
  std::optional<CompressReport>
      compressed;                   // with a recipe; `before` is what convert() would write without it
  bool reads_text = false;          // the tokenizer that was written can be read
  std::vector<std::string> chosen;  // what was chosen for the user, with the reason: "context 512: …"
  std::vector<std::string> notes;   // what the user should know, a sentence each
};

ConvertReport convert(const std::filesystem::path& source, const std::filesystem::path& bundle,
                      const ConvertOptions& options);

}  // namespace anemone
