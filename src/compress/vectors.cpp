// Palettes of vectors: an entry stands for `vector` neighbouring output channels at one place.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/encoded.h"
#include "compress/vector_kmeans.h"

namespace anemone {
namespace {

constexpr int64_t kMostPoints = 1 << 20;  // that a table is fitted on: what is in memory at once

class VectorFit {
 public:
  VectorFit(const Weight& weight, const PaletteForm& form)
      : values_(weight), width_(form.vector), rows_(weight.dims()[0]), inner_(values_.size() / rows_) {
    group_ = form.group ? form.group : rows_;
  }

  int64_t groups() const { return rows_ / group_; }

  // The vectors of a group, or as many of them as fit, evenly spread.
  std::vector<float> points(int64_t g) const {
    const int64_t first = g * group_ / width_, count = group_ / width_;  // rows of codes
    const int64_t stride = std::max<int64_t>(1, count * inner_ / kMostPoints);
    std::vector<float> out, room;
    for (int64_t r = first; r < first + count; r += stride) {
      const float* v = values_.floats(r * width_ * inner_, (r + 1) * width_ * inner_, room);
      for (int64_t i = 0; i < inner_; ++i)
        for (int64_t k = 0; k < width_; ++k) {
          out.push_back(v[k * inner_ + i]);
          if (!std::isfinite(out.back())) throw errorf("a weight is not finite");
        }
    }
    return out;
  }

  void codes(int64_t begin, int64_t end, const std::vector<float>& tables, uint8_t* out) const {
    const size_t size = tables.size() / static_cast<size_t>(groups());
    std::vector<float> room;
    for (int64_t r = begin; r < end; ++r, out += inner_) {
      const float* v = values_.floats(r * width_ * inner_, (r + 1) * width_ * inner_, room);
      const auto group = static_cast<size_t>(r * width_ / group_);
      nearest_vectors(v, inner_, inner_, width_, std::span(tables).subspan(group * size, size), out);
    }
    values_.release(begin * width_ * inner_, end * width_ * inner_);
  }

 private:
  WeightValues values_;
  int64_t width_, rows_, inner_, group_ = 1;
};

}  // namespace

void encode_vectors(Encoded& e, const Weight& weight, const PaletteForm& form, ThreadPool& pool) {
  if (weight.output_axis != 0)
    throw errorf("vectors run across the output channels, which are not the first dimension of '{}'",
                 weight.name)
        .hint(fmt::format("leave it out with --skip {}", weight.name));
  if (e.mask)
    throw errorf("'{}' is stored sparse, and a palette of vectors has no sparse form", weight.name)
        .hint("leave out --vector, or bring the package back to plain values with --decompress first");
  const auto fit = std::make_shared<VectorFit>(weight, form);
  const int k = 1 << form.bits;
  std::vector<std::vector<float>> tables(static_cast<size_t>(fit->groups()));
  const bool half = weight.half();
  const auto make = [&](int64_t g) {
    auto& table = tables[static_cast<size_t>(g)];
    table = form.mode == PaletteForm::Mode::given ? form.table
                                                  : vector_kmeans(fit->points(g), form.vector, k, pool);
    if (half)
      for (float& v : table) v = round_to_half(v);
  };
  if (fit->groups() == 1)
    make(0);
  else
    pool.parallel_for(fit->groups(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) make(g);
    });
  for (const auto& table : tables) e.tables.insert(e.tables.end(), table.begin(), table.end());
  e.code_dims = e.dims;
  e.code_dims[0] /= form.vector;
  e.code_dtype = dtype_from_name(fmt::format("uint{}", form.bits));
  e.table_dims.assign(e.dims.size(), 1);
  e.table_dims[0] = fit->groups();
  e.table_dims.insert(e.table_dims.end(), {k, form.vector});
  e.vector_axis = 0;
  e.codes = [fit, tables = e.tables](int64_t begin, int64_t end, uint8_t* out) {
    fit->codes(begin, end, tables, out);
  };
}

}  // namespace anemone
