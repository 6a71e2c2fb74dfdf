// Palettes of single values: tables from histograms, codes by rows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "compress/codebook.h"
#include "compress/encoded.h"
#include "compress/kmeans.h"
#include "kernels/convert.h"
#include "kernels/quantize.h"

namespace anemone {
namespace {

constexpr int64_t kChunk = 1 << 16;   // elements read at once
constexpr int64_t kLookupRun = 1024;  // from here on a table of all patterns pays off
constexpr int64_t kMostUnique = 256;

class PaletteFit {
 public:
  PaletteFit(const Weight& weight, const PaletteForm& form, std::shared_ptr<const Mask> mask,
             std::span<const float> importance)
      : form_(form),
        importance_(importance.begin(), importance.end()),
        values_(std::make_shared<WeightValues>(weight)),
        mask_(std::move(mask)),
        dims_(weight.dims()),
        axis_(axis_of(dims_, weight.output_axis)),
        group_(form.group ? form.group : axis_.slices),
        groups_(axis_.slices / group_),
        row_(values_->size() / std::max<int64_t>(1, dims_[0])) {}

  int64_t groups() const { return groups_; }
  int64_t channels() const { return axis_.slices; }
  const std::shared_ptr<WeightValues>& values() const { return values_; }

  // One scale for each channel, 1 for one of zeros.
  std::vector<float> channel_scales(ThreadPool& pool) const {
    std::vector<float> out(static_cast<size_t>(axis_.slices), 0.0f);
    pool.parallel_for(axis_.slices, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> room;
      for (int64_t c = begin; c < end; ++c)
        for (int64_t o = 0; o < axis_.outer; ++o) {
          const int64_t at = (o * axis_.slices + c) * axis_.inner;
          float& largest = out[static_cast<size_t>(c)];
          largest =
              std::max(largest, largest_magnitude(values_->floats(at, at + axis_.inner, room), axis_.inner));
        }
    });
    for (float& s : out) {
      if (!std::isfinite(s)) throw errorf("a weight is not finite");
      if (values_->half()) s = round_to_half(s);
      if (s == 0) s = 1;
    }
    return out;
  }

  // Tables of all groups. Empty where mode unique needs more than 256 entries; `bits` may grow less in that
  // mode.
  std::vector<std::vector<float>> tables(const std::vector<float>& scales, int& bits,
                                         ThreadPool& pool) const {
    std::vector<std::vector<float>> out(static_cast<size_t>(groups_));
    if (form_.mode == PaletteForm::Mode::given) {
      for (auto& table : out) {
        table = form_.table;
        if (values_->half())
          for (float& v : table) v = round_to_half(v);
      }
      return out;
    }
    if (form_.mode == PaletteForm::Mode::unique) return unique_tables(bits, pool);
    const bool wide = !values_->half() || !scales.empty();
    const auto fit = [&](const Histogram& h) {
      const int entries = 1 << bits;
      return form_.mode == PaletteForm::Mode::uniform
                 ? uniform_table(h, entries, values_->half())
                 : kmeans_table(h, entries, {form_.fast, values_->half()});
    };
    if (groups_ == 1 && !wide && !mask_ && importance_.empty()) {
      out[0] = fit(whole_histogram(pool));
      return out;
    }
    pool.parallel_for(groups_, 1, [&](int64_t begin, int64_t end) {
      HistogramBuilder builder(wide ? Grid::wide : Grid::half);
      for (int64_t g = begin; g < end; ++g) {
        gather(g, scales, builder);
        out[static_cast<size_t>(g)] = fit(builder.take());
      }
    });
    return out;
  }

  // Codes of the rows [begin, end): `book_of(channel group or channel)` gives the codebook.
  void codes(int64_t begin, int64_t end, const std::vector<Codebook>& books, uint8_t* out) const {
    const int64_t per_book = axis_.slices / static_cast<int64_t>(books.size());
    const int64_t stretch = per_book * axis_.inner, cycle = axis_.slices * axis_.inner;
    std::vector<uint16_t> room;
    std::vector<float> wide;
    std::vector<uint8_t> lookup;
    size_t filled = books.size();
    const int64_t stop = end * row_;
    for (int64_t at = begin * row_; at < stop;) {
      const int64_t within = at % cycle;
      const auto book = static_cast<size_t>(within / stretch);
      const int64_t next = std::min({stop, at + stretch - within % stretch, at + kChunk});
      if (values_->half() && stretch >= kLookupRun) {
        if (filled != book) {
          lookup.resize(65536);
          books[book].fill(lookup.data());
          filled = book;
        }
        const uint16_t* h = values_->halves(at, next, room);
        for (int64_t i = 0; i < next - at; ++i) out[i] = lookup[h[i]];
      } else {
        books[book].find(values_->floats(at, next, wide), next - at, out);
      }
      out += next - at;
      at = next;
    }
    values_->release(begin * row_, stop);
  }

 private:
  // Calls f(begin, end) for stretches of a group's elements.
  template <class F>
  void stretches(int64_t g, F f) const {
    const int64_t stretch = group_ * axis_.inner;
    for (int64_t o = 0; o < axis_.outer; ++o) {
      const int64_t first = o * axis_.slices * axis_.inner + g * stretch;
      for (int64_t at = first; at < first + stretch; at += kChunk)
        f(at, std::min(first + stretch, at + kChunk));
    }
  }

  void gather(int64_t g, const std::vector<float>& scales, HistogramBuilder& builder) const {
    std::vector<uint16_t> halves;
    std::vector<float> floats;
    std::vector<uint8_t> kept;
    stretches(g, [&](int64_t begin, int64_t end) {
      if (mask_) keep_of(begin, end, kept);
      if (values_->half() && scales.empty()) {
        const uint16_t* h = values_->halves(begin, end, halves);
        if (!importance_.empty()) {
          std::vector<float> weights(static_cast<size_t>(end - begin));
          for (int64_t i = 0; i < end - begin; ++i) {
            const bool counts = !mask_ || kept[static_cast<size_t>(i)];
            weights[static_cast<size_t>(i)] =
                counts ? importance_[static_cast<size_t>((begin + i) % axis_.inner)] : 0;
          }
          return builder.add(h, weights.data(), end - begin);
        }
        if (!mask_) return builder.add(h, end - begin);
        std::vector<uint16_t> few;
        for (int64_t i = 0; i < end - begin; ++i)
          if (kept[static_cast<size_t>(i)]) few.push_back(h[i]);
        return builder.add(few.data(), static_cast<int64_t>(few.size()));
      }
      values_->floats(begin, end, floats);
      for (int64_t at = begin; at < end;) {
        const int64_t next = std::min(end, at - at % axis_.inner + axis_.inner);
        float* v = floats.data() + (at - begin);
        double weight = 1;
        if (!scales.empty()) {
          const float s = scales[static_cast<size_t>(at / axis_.inner % axis_.slices)];
          for (int64_t i = 0; i < next - at; ++i) v[i] /= s;
          weight = static_cast<double>(s) *
                   static_cast<double>(s);  // errors are of the values, not of their shares
        }
        for (int64_t i = 0; !importance_.empty() && i < next - at; ++i)
          if (!mask_ || kept[static_cast<size_t>(at - begin + i)])
            builder.add(
                v + i, weight * static_cast<double>(importance_[static_cast<size_t>((at + i) % axis_.inner)]),
                1);
        if (!importance_.empty()) {
          at = next;
          continue;
        }
        if (!mask_) builder.add(v, weight, next - at);
        for (int64_t i = 0; mask_ && i < next - at; ++i)
          if (kept[static_cast<size_t>(at - begin + i)]) builder.add(v + i, weight, 1);
        at = next;
      }
    });
  }

  void keep_of(int64_t begin, int64_t end, std::vector<uint8_t>& out) const {
    const int64_t first = begin / row_, last = (end - 1) / row_ + 1;
    std::vector<uint8_t> rows(static_cast<size_t>((last - first) * row_));
    mask_->rows(first, last, rows.data());
    const auto* from = rows.data() + (begin - first * row_);
    out.assign(from, from + (end - begin));
  }

  Histogram whole_histogram(ThreadPool& pool) const {
    const int64_t parts = std::min<int64_t>(pool.threads(), 1 + values_->size() / (1 << 18));
    std::vector<HistogramBuilder> builders(static_cast<size_t>(parts), HistogramBuilder(Grid::half));
    pool.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      std::vector<uint16_t> room;
      for (int64_t p = begin; p < end; ++p) {
        const int64_t stop = values_->size() * (p + 1) / parts;
        for (int64_t at = values_->size() * p / parts; at < stop; at += kChunk) {
          const int64_t next = std::min(stop, at + kChunk);
          builders[static_cast<size_t>(p)].add(values_->halves(at, next, room), next - at);
          values_->release(at, next);
        }
      }
    });
    for (size_t p = 1; p < builders.size(); ++p) builders[0].merge(builders[p]);
    return builders[0].take();
  }

  std::vector<std::vector<float>> unique_tables(int& bits, ThreadPool& pool) const {
    std::vector<std::set<float>> found(static_cast<size_t>(groups_));
    pool.parallel_for(groups_, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> room;
      std::vector<uint8_t> kept;
      for (int64_t g = begin; g < end; ++g)
        stretches(g, [&](int64_t b, int64_t e) {
          std::set<float>& set = found[static_cast<size_t>(g)];
          if (static_cast<int64_t>(set.size()) > kMostUnique) return;
          values_->floats(b, e, room);
          if (mask_) keep_of(b, e, kept);
          for (int64_t i = 0; i < e - b && static_cast<int64_t>(set.size()) <= kMostUnique; ++i) {
            const float v = room[static_cast<size_t>(i)];
            if (!std::isfinite(v)) throw errorf("a weight is not finite");
            if (!mask_ || kept[static_cast<size_t>(i)]) set.insert(v + 0.0f);
          }
        });
    });
    size_t most = 0;
    for (const auto& set : found) most = std::max(most, set.size());
    std::vector<std::vector<float>> out;
    int need = 0;
    for (const int b : {bits, 6, 4, 2, 1})  // no 3: iOS 16 does not know it
      if (most <= size_t{1} << b && b <= bits) need = b;
    if (need == 0) return out;
    bits = need;
    for (const auto& set : found) {
      out.emplace_back(set.begin(), set.end());
      out.back().resize(size_t{1} << bits, 0.0f);
    }
    return out;
  }

  const PaletteForm form_;
  std::vector<float> importance_;  // of each column; empty: all alike
  std::shared_ptr<WeightValues> values_;
  std::shared_ptr<const Mask> mask_;
  std::vector<int64_t> dims_;
  Axis axis_;
  int64_t group_, groups_, row_;
};

// The tables as they will be stored and read back, a codebook each.
std::vector<Codebook> store_tables(Encoded& e, const std::vector<std::vector<float>>& tables,
                                   const std::vector<float>& channel_scales, const PaletteForm& form) {
  const bool half = e.dtype == DType::fp16;
  const auto rounded = [&](float v) { return half ? round_to_half(v) : v; };
  const size_t count = channel_scales.empty() ? tables.size() : channel_scales.size();
  std::vector<Codebook> books;
  for (size_t i = 0; i < count; ++i) {
    const std::vector<float>& table = tables[i * tables.size() / count];
    float scale = channel_scales.empty() ? 1.0f : channel_scales[i];
    std::vector<float> read_back;
    if (form.int8_table) {
      const float largest = largest_magnitude(table.data(), static_cast<int64_t>(table.size()));
      scale = rounded(scale * largest / 127.0f);
      if (scale == 0) scale = half ? 0x1p-24f : 1.0f;
      const float unit = channel_scales.empty() ? scale : scale / channel_scales[i];
      for (const float v : table) {
        const float q = std::clamp(std::nearbyint(v / unit), -127.0f, 127.0f);
        e.int8_tables.push_back(static_cast<int8_t>(q));
        read_back.push_back(rounded(scale * q));
      }
    } else {
      for (const float v : table) {
        e.tables.push_back(v);
        read_back.push_back(channel_scales.empty() ? v : rounded(scale * v));
      }
    }
    if (form.int8_table || !channel_scales.empty()) e.scales.push_back(scale);
    books.emplace_back(read_back);
  }
  return books;
}

}  // namespace

bool encode_palette(Encoded& e, const Weight& weight, const PaletteForm& form, ThreadPool& pool,
                    std::span<const float> importance) {
  auto fit = std::make_shared<PaletteFit>(weight, form, e.mask, importance);
  std::vector<float> channel_scales;
  if (form.channel_scale) channel_scales = fit->channel_scales(pool);
  int bits = form.bits;
  const auto tables = fit->tables(channel_scales, bits, pool);
  if (tables.empty()) return false;
  e.form.palette->bits = bits;
  e.code_dims = e.dims;
  e.code_dtype = dtype_from_name(fmt::format("uint{}", bits));
  const int64_t books_along_axis = form.channel_scale ? fit->channels() : fit->groups();
  e.table_dims.assign(e.dims.size(), 1);
  e.table_dims[static_cast<size_t>(weight.output_axis)] = books_along_axis;
  e.scale_dims = e.table_dims;
  e.scale_dims.insert(e.scale_dims.end(), {1, 1});
  e.table_dims.insert(e.table_dims.end(), {int64_t{1} << bits, 1});
  auto books = std::make_shared<const std::vector<Codebook>>(store_tables(e, tables, channel_scales, form));
  if (weight.is_matrix()) {
    const int64_t rows = e.dims[0] / static_cast<int64_t>(books->size());
    e.nearest = [books, rows](int64_t row, int64_t, float value, uint8_t& code) {
      const Codebook& book = (*books)[static_cast<size_t>(row / rows)];
      code = book.find(value);
      return book.value(code);
    };
    e.value = [books, rows](int64_t row, int64_t, uint8_t code) {
      return (*books)[static_cast<size_t>(row / rows)].value(code);
    };
  }
  e.codes = [fit, books](int64_t begin, int64_t end, uint8_t* out) { fit->codes(begin, end, *books, out); };
  return true;
}

}  // namespace anemone
