#include "plan/planner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "families/weights.h"
#include "plan/graph_bytes.h"

namespace anemone {
namespace {

double elements(const WeightRef& ref) {
  return static_cast<double>(ref.rows()) * static_cast<double>(std::max<int64_t>(1, ref.columns));
}

// Counted in floating point first: a configuration alone may say anything.
double count_parameters(const Model& m) {
  double total = 0;
  each_weight(m, [&](const WeightUse& w) { total += elements(w.ref); });
  return total;
}

// Bytes of keys and values, all layers, for one position.
double cache_bytes(const Model& m) {
  double total = 0;
  if (!m.causal()) return total;
  for (const Layer& layer : m.layers)
    if (const Attention* a = find_attention(layer))
      total += static_cast<double>(a->kv_heads) * static_cast<double>(lower::cache_width(*a)) * 4;
  return total;
}

// What the host reads: it lies in no package.
bool is_table(const WeightRef& ref, const Embedding& e) {
  return &ref == &e.tokens || &ref == &e.positions || &ref == &e.types;
}

// How convert stores it: of int8 models some matrices stay fp16.
WeightPrecision precision_of(const WeightPrecision& precision, const WeightRef& ref) {
  const bool int8 =
      precision.kind == WeightPrecision::Kind::int8 || precision.kind == WeightPrecision::Kind::int8_tensor;
  return int8 && ref.sensitive ? WeightPrecision{.kind = WeightPrecision::Kind::fp16, .bits = 16} : precision;
}

// In a package's weight file.
uint64_t stored_bytes(const WeightPrecision& precision, const WeightUse& w) {
  return w.is_matrix ? precision_of(precision, w.ref).file_bytes(w.ref.rows(), w.ref.columns)
                     : vector_file_bytes(w.elements());
}

int64_t pieces_of(const Shard& shard, int64_t head_rows) {
  return (static_cast<int64_t>(shard.last - shard.first) + head_rows - 1) / head_rows;
}

constexpr int kPhoneMemory[] = {4, 6, 8, 12};

int smallest_memory(uint64_t bytes, std::span<const int> sizes, DeviceClass device) {
  for (const int gb : sizes)
    if (static_cast<double>(bytes) <= gb * 1e9 * usable_memory_share(device)) return gb;
  return 0;
}

}  // namespace

double usable_memory_share(DeviceClass device) { return device == DeviceClass::mac ? 0.75 : 0.5; }

int64_t longest_context(const Chip& chip) { return std::min(chip.limits().spatial, chip.limits().inner); }

Planner::Planner(Model model, uint64_t tokenizer_bytes)
    : model_(std::move(model)), tokenizer_bytes_(tokenizer_bytes) {
  const double parameters = count_parameters(model_);
  const double cache = cache_bytes(model_);
  if (!(parameters < 1e13 && cache < 1e10 && model_.vocab <= 1 << 24))
    throw errorf("the model's sizes are beyond reason")
        .found(fmt::format("{:.3g} parameters, a vocabulary of {}, {:.3g} bytes of cache a position",
                           parameters, model_.vocab, cache))
        .expected("below 1e13, 16777216 and 1e10");
  parameters_ = static_cast<uint64_t>(parameters);
  half_ = graph_bytes(model_, false);
  packed_ = graph_bytes(model_, true);
}

const GraphBytes& Planner::graph(const WeightPrecision& precision) const {
  return precision.kind == WeightPrecision::Kind::fp16 ? half_ : packed_;
}

uint64_t Planner::kv_bytes_per_position() const { return static_cast<uint64_t>(cache_bytes(model_)); }

uint64_t Planner::layers_package(const Shard& shard, const WeightPrecision& precision) const {
  uint64_t bytes = PackageOverhead::weight_header + PackageOverhead::manifest + graph(precision).layers;
  for (size_t i = shard.first; i < shard.last; ++i) {
    each_weight(model_, i, [&](const WeightUse& w) { bytes += stored_bytes(precision, w); });
    bytes += graph(precision).layer;
  }
  if (shard.last < model_.layers.size()) return bytes;
  if (model_.generates()) return bytes + vector_file_bytes(model_.hidden);  // the final norm
  each_weight(model_, [&](const WeightUse& w) {  // the norms at both ends and the head
    if (w.layer >= 0 || is_table(w.ref, model_.embedding)) return;
    bytes += stored_bytes(precision, w);
  });
  return bytes;
}

uint64_t Planner::head_package(const Shard& shard, const WeightPrecision& precision,
                               int64_t head_rows) const {
  const int64_t pieces = pieces_of(shard, head_rows);
  uint64_t bytes = PackageOverhead::weight_header + PackageOverhead::manifest + graph(precision).head +
                   static_cast<uint64_t>(pieces) * graph(precision).piece;
  for (auto row = static_cast<int64_t>(shard.first); row < static_cast<int64_t>(shard.last); row += head_rows)
    bytes += precision.file_bytes(std::min(head_rows, static_cast<int64_t>(shard.last) - row), model_.hidden);
  return bytes;
}

ModelPlan Planner::plan(const ModelPlanOptions& o) const {
  const WeightPrecision& precision = o.precision;
  const Chip& chip = *o.target.chip;
  ModelPlan p;
  p.options = o;
  p.shards = plan_shards(
      model_, 0, model_.layers.size(),
      [&](const WeightRef& w) { return precision_of(precision, w).bytes(w.rows(), w.columns); }, o.limits);
  for (const Shard& shard : p.shards.layers) {
    p.layer_weights += shard.bytes;
    p.package_bytes += layers_package(shard, precision);
    for (size_t i = shard.first; i < shard.last; ++i)
      each_weight(model_, i, [&](const WeightUse& w) {
        if (w.is_matrix)
          p.read_bytes += precision_of(precision, w.ref).read_bytes(w.ref.rows(), w.ref.columns, chip);
      });
  }
  for (const Shard& shard : p.shards.heads) {
    p.head_weights += shard.bytes;
    p.package_bytes += head_package(shard, precision, o.limits.head_rows);
    p.read_bytes += precision.read_bytes(static_cast<int64_t>(shard.last - shard.first), model_.hidden, chip);
  }
  const auto vocab = static_cast<uint64_t>(model_.vocab), hidden = static_cast<uint64_t>(model_.hidden);
  p.embedding_bytes = vocab * hidden * (o.embedding_int8 ? 1 : 2) + (o.embedding_int8 ? vocab * 4 : 0);
  for (const WeightRef* table : {&model_.embedding.positions, &model_.embedding.types})
    if (*table) p.embedding_bytes += static_cast<uint64_t>(table->rows()) * hidden * 2;
  p.bundle_bytes = p.package_bytes + p.embedding_bytes + tokenizer_bytes_ + PackageOverhead::bundle_json +
                   model_.layers.size() * PackageOverhead::bundle_json_layer;
  p.kv_bytes = kv_bytes_per_position() * static_cast<uint64_t>(o.context);
  p.memory_bytes = p.read_bytes + p.kv_bytes + kProcessBytes;
  p.speed_known = model_.generates();
  p.cost = token_cost({.weight_bytes = static_cast<double>(p.read_bytes),
                       .efficiency = precision.efficiency(),
                       .kv_bytes = static_cast<double>(p.kv_bytes),
                       .kv_factor = o.kv_write == lower::KvWrite::slice ? 1.0 : 2.0,
                       .calls = static_cast<double>(p.calls()),
                       .hidden = static_cast<double>(model_.hidden)},
                      chip, calibration().constants);
  p.spread = chip.weight_read.measured ? 0.25 : 0.4;
  p.fit.app = p.bundle_bytes <= kAppBytes;
  p.fit.resident = p.read_bytes <= kResidentBytes;
  p.fit.context = o.context <= longest_context(chip);
  p.fit.smallest_gb = smallest_memory(p.memory_bytes, chip.memory_gb, o.target.device);
  p.fit.phone_gb = smallest_memory(p.memory_bytes, kPhoneMemory, DeviceClass::iphone);
  return p;
}

}  // namespace anemone
