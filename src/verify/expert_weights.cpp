#include "verify/expert_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace anemone {
namespace {

constexpr int64_t kRows = 8;  // that are compared
constexpr double kNearEnough =
    0.5;  // of the squares: any form keeps more, and another expert has nothing in common

using Part = Projection GatedMlp::*;
constexpr Part kParts[] = {&GatedMlp::gate, &GatedMlp::up, &GatedMlp::down};

// The part of an expert that a weight is; expert -1: of none.
struct Place {
  int64_t layer = 0, expert = -1;
  Part part = nullptr;
};

Place place_of(const Model& model, const WeightRef& ref) {
  for (size_t l = 0; l < model.layers.size(); ++l)
    if (const Experts* e = find_experts(model.layers[l]))
      for (size_t i = 0; i < e->experts.size(); ++i)
        for (const Part part : kParts)
          if ((e->experts[i].*part).weight == ref)
            return {static_cast<int64_t>(l), static_cast<int64_t>(i), part};
  return {};
}

// Whether the stored numbers are those of a weight.
bool is_like(const Checkpoint& checkpoint, const WeightRef& ref, const NamedWeight& named,
             const std::vector<float>& have, int64_t rows) {
  std::vector<float> want(have.size());
  read_rows(checkpoint.tensor(ref.tensor), ref, 0, rows, want);
  double errors = 0, squares = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double w = (static_cast<double>(want[i]) + named.offset) * named.factor,
                 e = static_cast<double>(have[i]) - w;
    errors += e * e;
    squares += w * w;
  }
  return errors < kNearEnough * squares;
}

// What a function has in the place of an expert's weight: under its name, or under that of another expert.
std::optional<PackageWeights::Found> found_for(const PackageWeights& weights, const std::string& name,
                                               int64_t expert, int64_t experts) {
  if (auto found = weights.find(name)) return found;
  const std::string own = fmt::format("_e{}_", expert);
  const size_t at = name.find(own);
  for (int64_t j = 0; j < experts && at != std::string::npos; ++j)
    if (auto found =
            weights.find(name.substr(0, at) + fmt::format("_e{}_", j) + name.substr(at + own.size())))
      return found;
  return std::nullopt;
}

}  // namespace

std::optional<OtherExpert> other_expert(const Checkpoint& checkpoint, const Model& model,
                                        const NamedWeight& named, const PackageWeights& weights) {
  const Place place = place_of(model, named.ref);
  if (place.expert < 0) return std::nullopt;
  const std::vector<GatedMlp>& experts =
      find_experts(model.layers[static_cast<size_t>(place.layer)])->experts;
  const auto found = found_for(weights, named.value, place.expert, static_cast<int64_t>(experts.size()));
  const int64_t rows = std::min(kRows, named.ref.rows()), columns = named.ref.columns;
  if (!found || found->stored->type().size() != named.ref.rows() * columns) return std::nullopt;
  std::vector<float> have(static_cast<size_t>(rows * columns));
  found->stored->read(0, rows * columns, have.data());
  if (is_like(checkpoint, named.ref, named, have, rows)) return std::nullopt;
  for (size_t j = 0; j < experts.size(); ++j)
    if (is_like(checkpoint, (experts[j].*place.part).weight, named, have, rows))
      return OtherExpert{place.layer, place.expert, static_cast<int64_t>(j)};
  return std::nullopt;
}

}  // namespace anemone
