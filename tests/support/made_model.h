// Models described by hand, over a checkpoint whose tensors are made to fit: for blocks that no given model has.
//     MadeModel made(small_decoder(2));                     // two layers of attention and a gated MLP
//     auto bundle = made.bundle({.context = {16}});         // converted, without a family
//     Reference reference = made.reference();               // over the same description
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "bundle/embedding.h"
#include "bundle/writer.h"
#include "checkpoint/checkpoint.h"
#include "convert/request.h"
#include "convert/rope_tables.h"
#include "convert/stages.h"
#include "convert/weights.h"
#include "engine/cpu_backend.h"
#include "families/weights.h"
#include "reference/reference.h"
#include "runtime/bundle.h"
#include "support/temp_folder.h"

namespace anemone::test {

inline constexpr int64_t kHidden = 16, kVocab = 48;

inline WeightRef weight(const std::string& name, int64_t rows, int64_t columns = 1) {
  return {name, 0, rows, columns};
}
inline Norm rms_norm_of(const std::string& name, int64_t width = kHidden) {
  return {.gain = weight(name, width), .eps = 1e-5};
}
inline Norm layer_norm_of(const std::string& name, int64_t width = kHidden) {
  return {.kind = Norm::Kind::layer,
          .gain = weight(name, width),
          .bias = weight(name + ".bias", width),
          .eps = 1e-5};
}
inline Projection projection(const std::string& name, int64_t rows, int64_t columns, bool bias = false) {
  return {weight(name, rows, columns), bias ? weight(name + ".bias", rows) : WeightRef{}};
}

// Four query heads of 8 over two key heads.
inline Attention small_attention(const std::string& at) {
  Attention a;
  a.heads = 4, a.kv_heads = 2, a.head_dim = 8;
  a.q = projection(at + "q", 32, kHidden), a.k = projection(at + "k", 16, kHidden);
  a.v = projection(at + "v", 16, kHidden), a.o = projection(at + "o", kHidden, 32);
  a.rope = 0;
  a.scale = 0.5;
  return a;
}
inline GatedMlp small_mlp(const std::string& at) {
  GatedMlp mlp;
  mlp.width = 24;
  mlp.gate = projection(at + "gate", 24, kHidden), mlp.up = projection(at + "up", 24, kHidden);
  mlp.down = projection(at + "down", kHidden, 24);
  return mlp;
}
inline ShortConv small_conv(const std::string& at, int64_t kernel = 3) {
  ShortConv conv;
  conv.width = kHidden, conv.kernel = kernel;
  conv.gate_in = projection(at + "gate_in", kHidden, kHidden),
  conv.value = projection(at + "value", kHidden, kHidden);
  conv.gate_out = projection(at + "gate_out", kHidden, kHidden),
  conv.o = projection(at + "o", kHidden, kHidden);
  conv.taps = weight(at + "taps", kHidden, kernel);
  return conv;
}

// Llama's layers; `convs` of them, from the first on every other one, are short convolutions instead.
inline Model small_decoder(size_t layers, size_t convs = 0) {
  Model m;
  m.family = m.architecture = "made";
  m.hidden = kHidden, m.vocab = kVocab, m.context = 256;
  m.embedding.tokens = weight("embedding", kVocab, kHidden);
  m.ropes = {Rope{.dims = 8, .base = 100}};
  for (size_t i = 0; i < layers; ++i) {
    const std::string at = std::to_string(i) + ".";
    ResidualStep mixer{.norm_in = rms_norm_of(at + "norm"), .block = small_attention(at)};
    if (i % 2 == 0 && i / 2 < convs) mixer.block = small_conv(at);
    m.layers.push_back({{mixer, {.norm_in = rms_norm_of(at + "mlp_norm"), .block = small_mlp(at)}}});
  }
  m.final_norm = rms_norm_of("norm");
  m.head = VocabularyHead{.weight = weight("head", kVocab, kHidden)};
  return m;
}

class MadeModel {
 public:
  explicit MadeModel(Model description) : model(std::move(description)) {
    write_checkpoint();
    checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(folder_ / "model"));
  }

  Reference reference() const { return Reference(checkpoint, model, 1); }

  // What convert does behind a family, with packages of fp16: every value of the checkpoint is one already.
  std::filesystem::path write(ConvertOptions options) {
    options.precision = Precision::fp16;
    const std::filesystem::path path = folder_ / ("bundle_" + std::to_string(written_++));
    std::filesystem::create_directories(path);
    ThreadPool pool(1);
    BundleWriter writer(path, pool);
    CheckpointWeights weights(*checkpoint, options.precision);
    const ConvertRequest request = make_request(model, options);
    const double stream = options.residual_scale.value_or(1);
    BundleInfo info;
    info.kind = request.kind;
    info.family = model.family;
    info.hidden = model.hidden, info.vocab = model.vocab, info.model_context = model.context;
    info.layers = static_cast<int64_t>(model.layers.size());
    const ModelSizes sizes = sizes_of(model);
    info.heads = sizes.heads, info.kv_heads = sizes.kv_heads, info.head_dim = sizes.head_dim;
    info.argmax = options.argmax;
    info.residual_scale = stream;
    info.embedding_scale = model.embedding.scale * stream;
    info.tokens = {"embedding.bin", "fp16", "", model.vocab};
    write_embedding_table(*checkpoint, model.embedding.tokens, path, info.tokens, pool);
    info.masks = lower::masks_of(model);
    for (const Rope& rope : model.ropes) info.ropes.push_back(rope_table(rope));
    for (const RunWay& way : request.ways)
      if (!way.variant.empty()) info.variants.push_back({way.variant, std::string(kv_write_name(way.write))});
    for (const StagePlan& plan : plan_stages(model, request, options)) {
      Artifact artifact;
      build_stage(plan, model, weights, request, options, stream, artifact);
      info.stages.push_back(
          stage_of(plan, model, request, artifact, writer.file_name(artifact.name), stream));
      if (const WeightRef* bias = choice_bias(plan, model)) {
        std::vector<float> values(static_cast<size_t>(bias->rows()));
        read_rows(*checkpoint, *bias, 0, bias->rows(), values);
        info.stages.back().rule->choice_bias.assign(values.begin(), values.end());
      }
      writer.add(std::move(artifact));
    }
    writer.finish(info);
    return path;
  }

  std::shared_ptr<const Bundle> bundle(ConvertOptions options, BundleWatch watch = {}) {
    return Bundle::open(write(std::move(options)), cpu_backend({.threads = 1}), std::move(watch));
  }

  Model model;
  std::shared_ptr<const Checkpoint> checkpoint;

 private:
  // Numbers between -1 and 1 by a fixed rule.
  float next() {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(seed_ >> 32)) / 2147483648.0f;
  }

  void write_checkpoint() {
    std::filesystem::create_directories(folder_ / "model");
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    each_weight(model, [&](const WeightUse& w) {
      if (header.contains(w.ref.tensor)) return;
      std::vector<int64_t> shape{w.ref.rows()};
      if (!w.columns.factors.empty()) shape.push_back(w.ref.columns);
      const bool gain =
          w.role.find("norm") != std::string_view::npos && w.role.find("bias") == std::string_view::npos;
      const float size = w.is_matrix ? 1.7f / std::sqrt(static_cast<float>(w.ref.columns)) : 0.5f;
      const size_t begin = data.size();
      for (int64_t i = 0; i < w.elements(); ++i) {
        const float value =
            round_to_half(gain || w.role.starts_with("gain") ? 1 + 0.3f * next() : size * next());
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      header[w.ref.tensor] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
    });
    const std::string text = header.dump();
    uint64_t length = text.size();
    std::string file(reinterpret_cast<const char*>(&length), sizeof length);
    spill(folder_ / "model" / "model.safetensors", file + text + data);
    spill(folder_ / "model" / "config.json", R"({"architectures": ["Made"], "model_type": "made"})");
  }

  TempFolder folder_;
  uint64_t seed_ = 7;
  int written_ = 0;
};

// The largest difference, as a part of the second one's range.
inline double range_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || b.empty()) return INFINITY;
  const auto [low, high] = std::minmax_element(b.begin(), b.end());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= worst)) worst = d;  // a NaN stays
  }
  return worst / (static_cast<double>(*high) - static_cast<double>(*low));
}

}  // namespace anemone::test
