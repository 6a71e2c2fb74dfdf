// Any bytes as the graph of a decoder: an Error, or a Model whose every weight is in the checkpoint, in bounded time.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/onnx_bundle.h"
#include "families/family.h"
#include "families/weights.h"

using namespace anemone;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto file = MappedFile::from_bytes("fuzz.onnx", std::string(reinterpret_cast<const char*>(data), size));
    nlohmann::ordered_json config = {{"model", {{"type", "llama"}, {"context_length", 64}}}};
    auto bundle = std::make_shared<OnnxBundle>(OnnxModel::from_file(std::move(file)), std::move(config));
    const Checkpoint checkpoint(onnx_checkpoint(std::move(bundle), "fuzz.onnx"));
    const Model model = describe(checkpoint);
    each_weight(model, [&](const WeightUse& w) {
      std::vector<float> row(static_cast<size_t>(w.ref.columns));
      if (w.ref.rows() > 0) read_rows(checkpoint, w.ref, w.ref.rows() - 1, w.ref.rows(), row);
    });
  } catch (const Error&) {
  }
  return 0;
}
