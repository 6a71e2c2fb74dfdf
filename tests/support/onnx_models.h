// Decoders as ONNX with golden logits: small ones of every exporter in tests/data/onnx/models
// (tests/oracle/make_onnx_models.py, make_onnx_olive.py), and the given ones.
//     for (const fs::path& folder : onnx_models()) read_npy(*golden_logits(folder));
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "support/data.h"

namespace anemone::test {

namespace fs = std::filesystem;

inline const fs::path& small_onnx_models() {
  static const fs::path folder = source_dir() / "tests/data/onnx/models";
  return folder;
}

// The logits without quantized activations, where there are several.
inline std::optional<fs::path> golden_logits(const fs::path& folder) {
  for (const char* name : {"logits_ort_acc1.npy", "logits_dequant_ref.npy", "logits.npy"})
    if (fs::exists(folder / "golden" / name)) return folder / "golden" / name;
  return std::nullopt;
}

inline std::vector<fs::path> onnx_models() {
  std::vector<fs::path> out;
  std::vector<fs::path> roots = data_folders("models");
  roots.push_back(small_onnx_models());
  for (const fs::path& root : roots)
    for (const auto& entry : fs::directory_iterator(root))
      if (fs::exists(entry.path() / "model.onnx") && golden_logits(entry.path())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Graphs that compute in fp16 round every value, so their logits are less exact.
inline bool computes_in_half(const fs::path& folder) { return folder.filename().string().ends_with("fp16"); }

}  // namespace anemone::test
