#include "verify/stored_weights.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/half.h"
#include "package/package.h"
#include "verify/element_bound.h"
#include "verify/expected.h"
#include "verify/package_weights.h"

namespace anemone {
namespace {

// A head comes in pieces: its rows do not belong to what it is called.
WeightRef without_rows(WeightRef ref) {
  ref.row_begin = ref.row_end = 0;
  return ref;
}

}  // namespace

StoredWeights::StoredWeights(const Bundle& bundle, const Model& model)
    : bundle_(bundle), embedding_(model.embedding) {
  for (size_t i = 0; i < bundle.info().stages.size(); ++i) add_stage(i, model);
}

StoredWeights::~StoredWeights() = default;

void StoredWeights::add_stage(size_t index, const Model& model) {
  const Stage& stage = bundle_.info().stages[index];
  if (const WeightRef* bias =
          stage.rule && !stage.rule->choice_bias.empty()
              ? &find_experts(model.layers.at(static_cast<size_t>(stage.last_layer - 1)))->router.choice_bias
              : nullptr)
    numbers_[*bias].assign(stage.rule->choice_bias.begin(), stage.rule->choice_bias.end());
  std::set<std::pair<int64_t, int64_t>>
      done;  // experts: functions for other numbers of tokens hold them once more
  for (const StageFunction& f : stage.functions) {
    const Port* experts = f.find_input(Role::Kind::shares);
    if (!done.insert(experts ? std::pair(experts->role.first, experts->role.last)
                             : std::pair<int64_t, int64_t>())
             .second)
      continue;
    add_function(index, f, model);
  }
}

void StoredWeights::add_function(size_t index, const StageFunction& f, const Model& model) {
  const Stage& stage = bundle_.info().stages[index];
  const Function* function = bundle_.package(index).program.find_function(f.name);
  ANEMONE_CHECK(function);
  packages_.push_back(std::make_unique<const PackageWeights>(*function));
  for (const NamedWeight& named : expected_stage(stage, f, model, bundle_.info()).weights) {
    auto found = packages_.back()->find(named.value);
    if (!found)
      throw errorf("there is no weight '{}'", named.value).at((bundle_.path() / stage.package).string());
    parts_[without_rows(named.ref)].push_back(
        {named.ref.row_begin, named.ref.row_end, found->stored, named.offset, named.factor,
         named.ref.columns > 1 ? std::make_shared<const ElementBound>(*found->stored, found->form)
                               : nullptr});
  }
}

void StoredWeights::read(const WeightRef& ref, int64_t begin, int64_t end, std::span<float> out) const {
  const int64_t columns = std::max<int64_t>(1, ref.columns);
  ANEMONE_CHECK(out.size() == static_cast<size_t>((end - begin) * columns));
  if (const auto number = numbers_.find(ref); number != numbers_.end()) {
    std::copy(number->second.begin() + begin, number->second.begin() + end, out.begin());
    return;
  }
  const auto parts = parts_.find(without_rows(ref));
  int64_t row = ref.row_begin + begin;
  const int64_t stop = ref.row_begin + end;
  float* to = out.data();
  while (row < stop) {
    const Part* part = nullptr;
    if (parts != parts_.end())
      for (const Part& p : parts->second)
        if (!part && p.first <= row && row < p.last) part = &p;
    if (!part) throw errorf("no package holds row {} of '{}'", row, ref.tensor).at(bundle_.path().string());
    const int64_t last = std::min(stop, part->last), count = (last - row) * columns;
    part->stored->read((row - part->first) * columns, (last - part->first) * columns, to);
    for (int64_t r = row; r < last && part->form && part->form->scaled(); ++r) {
      const auto at = static_cast<size_t>((r - row) * columns);
      part->form->row(r - part->first)
          .undo_rounding(std::span(to, out.data() + out.size()).subspan(at, static_cast<size_t>(columns)));
    }
    if (part->factor != 1 || part->offset != 0)
      for (int64_t i = 0; i < count; ++i)
        to[i] = static_cast<float>(static_cast<double>(to[i]) / part->factor - part->offset);
    to += count;
    row = last;
  }
}

// The host scales rows as it reads them.
void StoredWeights::read_table(const WeightRef& ref, int64_t row, std::span<float> out) const {
  const BundleInfo& info = bundle_.info();
  const EmbeddingReader& tables = bundle_.embedding();
  double scale = info.residual_scale;
  if (ref == embedding_.positions) {
    tables.read_position(row, out);
  } else if (ref == embedding_.types) {
    tables.read_type(row, out);
  } else {
    tables.read_token(row, out);
    scale = info.embedding_scale;
  }
  for (float& value : out) value = static_cast<float>(static_cast<double>(value) / scale);
}

Model as_stored(Model model) {
  for (Layer& layer : model.layers)
    for (ResidualStep& step : layer.steps)
      if (auto* attention = std::get_if<Attention>(&step.block))
        attention->scale = static_cast<double>(round_to_half(static_cast<float>(attention->scale)));
  return model;
}

}  // namespace anemone
