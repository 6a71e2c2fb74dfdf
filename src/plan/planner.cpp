#include "plan/planner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "families/weights.h"
#include "plan/expert_plan.h"
#include "plan/graph_bytes.h"

namespace anemone {
namespace {

using Place = WeightUse::Place;

double elements(const WeightRef& ref) {
  return static_cast<double>(ref.rows()) * static_cast<double>(std::max<int64_t>(1, ref.columns));
}

// Counted in floating point first: a configuration can hold any numbers.
double count_parameters(const Model& m) {
  double total = 0;
  each_weight(m, [&](const WeightUse& w) { total += w.repeated ? 0 : elements(w.ref); });
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

// The pieces that a head's weight or bias is cut into, of the rows [first, last) of the vocabulary.
template <class F>
void each_piece(const WeightRef& ref, const Shard& rows, int64_t head_rows, const F& f) {
  for (auto row = static_cast<int64_t>(rows.first); row < static_cast<int64_t>(rows.last); row += head_rows)
    f(lower::head_rows(ref, row, std::min(row + head_rows, static_cast<int64_t>(rows.last))));
}

// Of a table that the host reads.
uint64_t table_bytes(const WeightRef& ref, bool int8) {
  const auto rows = static_cast<uint64_t>(ref.rows()), count = rows * static_cast<uint64_t>(ref.columns);
  return int8 ? count + rows * sizeof(float) : count * 2;
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

uint64_t weight_file_bytes(const StorageForm& precision, const WeightRef& ref, bool is_matrix) {
  return is_matrix ? file_bytes(form_of(precision, ref), ref.rows(), ref.columns)
                   : vector_file_bytes(ref.rows() * std::max<int64_t>(1, ref.columns));
}

uint64_t recurrent_bytes(const Layer& layer) {
  uint64_t total = 0;
  for (const ResidualStep& step : layer.steps)
    std::visit(
        [&](const auto& block) {
          if constexpr (requires { block.recurrent(); })
            for (const RecurrentShape& shape : block.recurrent())
              total += static_cast<uint64_t>(shape.columns) * static_cast<uint64_t>(shape.width) * 2;
        },
        step.block);
  return total;
}

double usable_memory_share(DeviceClass device) { return device == DeviceClass::mac ? 0.75 : 0.5; }

int64_t longest_context(const Chip& chip) { return std::min(chip.limits().spatial, chip.limits().inner); }

Planner::Planner(Model model, uint64_t tokenizer_bytes)
    : model_(std::move(model)), tokenizer_bytes_(tokenizer_bytes) {
  const double parameters = count_parameters(model_);
  const double cache = cache_bytes(model_);
  if (!(parameters < 1e13 && cache < 1e10 && model_.vocab <= 1 << 24))
    throw errorf("the sizes of the model are not plausible")
        .found(fmt::format("{:.3g} parameters, a vocabulary of {}, {:.3g} bytes of cache a position",
                           parameters, model_.vocab, cache))
        .expected("below 1e13, 16777216 and 1e10");
  parameters_ = static_cast<uint64_t>(parameters);
  half_ = graph_bytes(model_, false, true);
  integers_ = graph_bytes(model_, true, true);
  palettes_ = graph_bytes(model_, true, false);  // slow in a function for prompts (rule Q08)
}

const GraphBytes& Planner::graph(const StorageForm& precision) const {
  return precision.palette ? palettes_ : bits_of(precision) == 16 ? half_ : integers_;
}

uint64_t Planner::kv_bytes_per_position() const { return static_cast<uint64_t>(cache_bytes(model_)); }

uint64_t Planner::state_bytes() const {
  uint64_t total = 0;
  for (const Layer& layer : model_.layers) total += recurrent_bytes(layer);
  return total;
}

uint64_t Planner::layers_package(const Shard& shard, const StorageForm& precision) const {
  uint64_t bytes = PackageOverhead::weight_header + PackageOverhead::manifest + graph(precision).layers +
                   (shard.last - shard.first) * graph(precision).layer;
  each_weight(model_, [&](const WeightUse& w) {
    const bool inside =
        w.layer >= static_cast<int64_t>(shard.first) && w.layer < static_cast<int64_t>(shard.last);
    if (inside || (w.place == Place::front && shard.first == 0) ||
        (w.place == Place::back && shard.last == model_.layers.size()))
      bytes += weight_file_bytes(precision, w.ref, w.is_matrix);
  });
  return bytes;
}

uint64_t Planner::head_package(const Shard& shard, const StorageForm& precision, int64_t head_rows) const {
  uint64_t bytes = PackageOverhead::weight_header + PackageOverhead::manifest + graph(precision).head +
                   static_cast<uint64_t>(pieces_of(shard, head_rows)) * graph(precision).piece;
  each_weight(model_, [&](const WeightUse& w) {
    if (w.place != Place::head) return;
    each_piece(w.ref, shard, head_rows,
               [&](const WeightRef& piece) { bytes += weight_file_bytes(precision, piece, w.is_matrix); });
  });
  return bytes;
}

// What a token's weights cost the chip to read, and what the host's tables weigh.
void Planner::count_reads(ModelPlan& p) const {
  const StorageForm& precision = p.options.precision;
  const auto read = [&](const WeightRef& ref) {
    p.weight_bytes += read_bytes(form_of(precision, ref), ref.rows(), ref.columns, *p.options.target.chip);
  };
  each_weight(model_, [&](const WeightUse& w) {
    if (w.place == Place::table)
      p.embedding_bytes += table_bytes(w.ref, p.options.embedding_int8 && &w.ref == &model_.embedding.tokens);
    else if (w.is_matrix && w.place == Place::head)
      for (const Shard& shard : p.shards.heads) each_piece(w.ref, shard, p.options.limits.head_rows, read);
    else if (w.is_matrix)
      read(w.ref);
  });
}

// Of a model with experts: the ways, the one to take, and its packages.
void Planner::choose_way(ModelPlan& p, const TokenWork& work, const WeightBytes& bytes) const {
  const ModelPlanOptions& o = p.options;
  p.ways = expert_costs(model_, o, work);
  if (p.ways.empty()) return;
  p.way = model_.generates() ? fastest(p.ways) : p.ways.front();
  for (const WayCost& w : p.ways)
    if (o.experts && w.way == *o.experts) p.way = w;
  if (p.way.way == ExpertWay::all) return;
  p.cuts = cut_at_experts(model_, 0, model_.layers.size(), bytes, o.limits, p.way.group);
  p.shards.layers.clear();
  for (const ExpertCut& cut : p.cuts) {
    p.layer_weights += cut.bytes;
    if (cut.has_experts())
      p.bundle_bytes += PackageOverhead::bundle_json_experts *
                        static_cast<uint64_t>((cut.last_expert - cut.first_expert) / p.way.group + 1);
  }
  p.package_bytes += cut_package_bytes(model_, p.cuts, o.precision, p.way.group);
}

std::string ModelPlan::calls_text() const {
  if (cuts.empty()) return fmt::format("{}+{}", shards.layers.size(), shards.heads.size());
  return fmt::format("{:.0f}+{:.0f}+{:.0f}", way.layer_calls, way.expert_calls, way.head_calls);
}

ModelPlan Planner::plan(const ModelPlanOptions& o) const {
  const StorageForm& precision = o.precision;
  const Chip& chip = *o.target.chip;
  ModelPlan p;
  p.options = o;
  const auto bytes = [&](const WeightRef& ref) {
    return stored_bytes(form_of(precision, ref), ref.rows(), ref.columns);
  };
  p.shards = plan_shards(model_, 0, model_.layers.size(), bytes, o.limits);
  const TokenWork work{
      .efficiency = read_efficiency(precision),
      .kv_bytes = static_cast<double>(kv_bytes_per_position() * static_cast<uint64_t>(o.context)),
      .kv_factor = o.kv_write == lower::KvWrite::slice ? 1.0 : 2.0,
      .hidden = static_cast<double>(model_.hidden)};
  choose_way(p, work, bytes);
  for (const Shard& shard : p.shards.layers) {
    p.layer_weights += shard.bytes;
    p.package_bytes += layers_package(shard, precision);
  }
  for (const Shard& shard : p.shards.heads) {
    p.head_weights += shard.bytes;
    p.package_bytes += head_package(shard, precision, o.limits.head_rows);
  }
  count_reads(p);
  p.bundle_bytes += p.package_bytes + p.embedding_bytes + tokenizer_bytes_ + PackageOverhead::bundle_json +
                    model_.layers.size() * PackageOverhead::bundle_json_layer;
  p.read_bytes = p.cuts.empty() ? p.weight_bytes : p.way.read_bytes();
  p.kv_bytes = static_cast<uint64_t>(work.kv_bytes);
  p.state_bytes = state_bytes();
  p.memory_bytes = p.weight_bytes + p.kv_bytes + p.state_bytes + kProcessBytes;
  const bool blocks = precision.integers && precision.integers->per == IntegerForm::Per::block;
  p.speed_known = model_.generates() && !blocks;
  TokenWork whole = work;
  whole.weight_bytes = static_cast<double>(p.read_bytes);
  whole.calls = p.calls();
  p.cost = token_cost(whole, chip, calibration().constants);
  p.spread = chip.weight_read.measured ? 0.25 : 0.4;
  p.fit.app = p.bundle_bytes <= kAppBytes;
  p.fit.resident = p.weight_bytes <= kResidentBytes;
  p.fit.context = o.context <= longest_context(chip);
  p.fit.smallest_gb = smallest_memory(p.memory_bytes, chip.memory_gb, o.target.device);
  p.fit.phone_gb = smallest_memory(p.memory_bytes, kPhoneMemory, DeviceClass::iphone);
  return p;
}

}  // namespace anemone
