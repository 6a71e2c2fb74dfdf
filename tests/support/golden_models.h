// The given models with golden outputs, and those of the repository: every folder that holds golden/logits.npy, in each
// of its formats.
//     for (const GoldenModel& model : golden_models()) …
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anemone/error.h"
#include "base/npy.h"
#include "checkpoint/checkpoint.h"
#include "families/experts.h"
#include "families/family.h"
#include "support/data.h"

namespace anemone::test {

namespace fs = std::filesystem;

struct GoldenModel {
  fs::path checkpoint;  // a folder with safetensors, or a GGUF file
  fs::path golden;      // the folder of goldens
  std::string variant;  // "f16" of model-f16.gguf; empty for safetensors

  std::string name() const { return (checkpoint.parent_path().filename() / checkpoint.filename()).string(); }

  // The golden logits of a set ("" or "long_"): this variant's own where there are some.
  fs::path logits(const std::string& set) const {
    const fs::path own = golden / (set + "logits_gguf_" + variant + ".npy");
    return !variant.empty() && fs::exists(own) ? own : golden / (set + "logits.npy");
  }
  // Whether the weights are the very ones that the other goldens were made with.
  bool exact(const std::string& set) const { return logits(set).filename() == set + "logits.npy"; }

  // What a router that skips its experts adds, in the goldens without a prefix; "" where none can.
  std::string skip() const { return fs::exists(golden / "skipid_logits.npy") ? "zero" : ""; }
  // The description that the goldens were made by.
  Model describe(const Checkpoint& opened) const {
    Model model = anemone::describe(opened);
    if (!skip().empty()) set_skip(model, skip());
    return model;
  }

  // The sets that the folder has: a set is a prefix of file names.
  std::vector<std::string> sets() const {
    std::vector<std::string> found;
    const std::string ids = "input_ids.npy";
    for (const auto& entry : fs::directory_iterator(golden)) {
      const std::string file = entry.path().filename().string();
      if (!file.ends_with(ids)) continue;
      const std::string set = file.substr(0, file.size() - ids.size());
      if (fs::exists(golden / (set + "logits.npy"))) found.push_back(set);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

inline std::vector<GoldenModel> golden_models() {
  std::vector<GoldenModel> found;
  std::vector<fs::path> roots = anemone::data_folders("models");
  roots.push_back(anemone::source_dir() / "tests/data/models");
  for (const fs::path& root : roots)
    for (const auto& entry : fs::directory_iterator(root)) {
      const fs::path folder = entry.path(), golden = folder / "golden";
      if (!fs::exists(golden / "logits.npy")) continue;
      if (fs::exists(folder / "config.json")) found.push_back({folder, golden, ""});
      for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".gguf") {
          const std::string stem = file.path().stem().string();
          found.push_back({file.path(), golden, stem.substr(stem.find_last_of('-') + 1)});
        }
    }
  std::sort(found.begin(), found.end(),
            [](const GoldenModel& a, const GoldenModel& b) { return a.checkpoint < b.checkpoint; });
  return found;
}

// False, with a message, for architectures that no family describes yet.
inline bool is_known(const Checkpoint& checkpoint) {
  for (const Family* family : all_families())
    for (const std::string_view name : family->architectures)
      if (name == checkpoint.architecture()) return true;
  MESSAGE("skipped: " << checkpoint.path().string() << " is a " << checkpoint.architecture()
                      << ", of no known family");
  return false;
}

// True for a model of a known family that writes text, token by token; says "skipped" for every other.
inline bool is_decoder(const Checkpoint& checkpoint) {
  if (!is_known(checkpoint)) return false;
  if (const Model model = describe(checkpoint); model.generates() && model.causal()) return true;
  MESSAGE("skipped: " << checkpoint.path().string() << " is a " << checkpoint.architecture()
                      << ", which sees a text whole");
  return false;
}

inline std::vector<int32_t> read_ids(const fs::path& path) {
  const std::vector<int64_t> ids = read_npy(path).to_int();
  return {ids.begin(), ids.end()};
}

}  // namespace anemone::test
