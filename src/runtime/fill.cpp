#include "runtime/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "kernels/convert.h"

namespace anemone {
namespace {

// Elements of a view [1, A, B, 1] or [1, 1, A, B], whatever their type: rows of A, columns of B.
class Writer {
 public:
  Writer(const TensorView& view, size_t first_axis)
      : view_(view), rows_(view.strides[first_axis]), columns_(view.strides[first_axis + 1]) {
    if (view.dtype != DType::fp32 && view.dtype != DType::fp16)
      throw errorf("an input of type {} cannot be filled", dtype_name(view.dtype));
  }

  void put(int64_t row, int64_t column, float value) const { fill(row, column, column + 1, value); }
  // Columns [begin, end) of a row.
  void fill(int64_t row, int64_t begin, int64_t end, float value) const {
    const int64_t at = row * rows_ + begin * columns_;
    if (view_.dtype == DType::fp32)
      spread(static_cast<float*>(view_.data) + at, columns_, end - begin, value);
    else
      spread(static_cast<uint16_t*>(view_.data) + at, columns_, end - begin, half_from_float(value));
  }
  void put_row(int64_t row, std::span<const float> values) const { put_all(row * rows_, columns_, values); }
  void put_column(int64_t column, std::span<const float> values) const {
    put_all(column * columns_, rows_, values);
  }

 private:
  template <class Element>
  static void spread(Element* to, int64_t stride, int64_t count, Element value) {
    if (stride == 1)
      std::fill_n(to, count, value);
    else
      for (int64_t i = 0; i < count; ++i) to[i * stride] = value;
  }

  void put_all(int64_t at, int64_t stride, std::span<const float> values) const {
    const auto count = static_cast<int64_t>(values.size());
    if (view_.dtype == DType::fp32) {
      float* to = static_cast<float*>(view_.data) + at;
      if (stride == 1)
        std::copy(values.begin(), values.end(), to);
      else
        for (int64_t i = 0; i < count; ++i) to[i * stride] = values[static_cast<size_t>(i)];
      return;
    }
    uint16_t* to = static_cast<uint16_t*>(view_.data) + at;
    if (stride == 1)
      floats_to_halves(values.data(), count, to);
    else
      for (int64_t i = 0; i < count; ++i) to[i * stride] = half_from_float(values[static_cast<size_t>(i)]);
  }

  const TensorView& view_;
  int64_t rows_, columns_;
};

// The package takes what bundle.json says: nothing is written beside it.
void expect_shape(const TensorView& view, const Role& role, const std::vector<int64_t>& shape) {
  if (view.shape != shape)
    throw errorf("the package takes another shape for the role '{}' than bundle.json says",
                 role_name(role.kind))
        .found(shape_text(view.shape))
        .expected(shape_text(shape));
}

// Column t stands for this token of the pass.
int64_t token_at(const Pass& pass, int64_t t) { return std::min(t, pass.tokens() - 1); }

void fill_stream(const TensorView& view, const Pass& pass, const EmbeddingReader& embedding) {
  std::vector<float> row(static_cast<size_t>(view.shape[1]));
  const Writer out(view, 1);
  for (int64_t t = 0; t < pass.width; ++t) {
    if (const int64_t at = token_at(pass, t); at == t)
      embedding.read({.id = pass.ids[static_cast<size_t>(at)],
                      .position = pass.position + at,
                      .type = pass.types.empty() ? 0 : pass.types[static_cast<size_t>(at)]},
                     row);
    out.put_column(t, row);
  }
}

void fill_rope(const TensorView& view, const RopeTable& rope, bool cosine, const Pass& pass) {
  const auto& f = pass.long_rope && !rope.long_frequencies.empty() ? rope.long_frequencies : rope.frequencies;
  std::vector<float> row(f.size());
  const Writer out(view, 2);
  for (int64_t t = 0; t < pass.width; ++t) {
    const auto at = static_cast<double>(pass.position + token_at(pass, t));
    for (size_t i = 0; i < f.size(); ++i)
      row[i] =
          static_cast<float>((cosine ? std::cos(at * f[i]) : std::sin(at * f[i])) * rope.attention_factor);
    out.put_row(t, row);
  }
}

// The columns [begin, end) that a token at position `at` sees: always one stretch.
std::pair<int64_t, int64_t> seen_by(const Reach& reach, int64_t at) {
  constexpr int64_t kFar = int64_t{1} << 40;  // behind every position
  const int64_t size = std::min(reach.size, kFar);
  switch (reach.kind) {
    case Reach::Kind::causal: return {0, at + 1};
    case Reach::Kind::window: return {at + 1 - size, at + 1};
    case Reach::Kind::full: return {0, kFar};
    case Reach::Kind::band: return {at - size, at + size + 1};
  }
  throw errorf("a mask has no reach");
}

// Rows are tokens, columns are rows of the cache; where there is no cache, the tokens of the pass, and its padding is
// hidden from all.
void fill_mask(const TensorView& view, const Reach& reach, const Pass& pass) {
  const int64_t rows = view.shape[2], columns = view.shape[3];
  const int64_t most = reach.causal() ? columns : std::min(columns, pass.tokens());
  const Writer out(view, 2);
  for (int64_t t = 0; t < rows; ++t) {
    const auto [first, last] = seen_by(reach, (reach.causal() ? pass.position : 0) + token_at(pass, t));
    const int64_t begin = std::clamp<int64_t>(first, 0, most), end = std::clamp<int64_t>(last, begin, most);
    out.fill(t, 0, begin, kMaskedOut);
    out.fill(t, begin, end, 0);
    out.fill(t, end, columns, kMaskedOut);
  }
}

void fill_zeros(const TensorView& view) {
  const Writer out(view, 2);
  if (view.dense()) {  // zero has no bits in either type
    std::memset(view.data, 0, static_cast<size_t>(view.size() * dtype_bits(view.dtype) / 8));
    return;
  }
  for (int64_t r = 0; r < view.shape[2]; ++r) out.fill(r, 0, view.shape[3], 0);
}

void fill_write(const TensorView& view, const Pass& pass) {
  if (pass.position + pass.tokens() > view.shape[2])
    throw errorf("rows {} to {} are behind the end of a cache of {}", pass.position,
                 pass.position + pass.tokens() - 1, view.shape[2]);
  fill_zeros(view);
  for (int64_t t = 0; t < pass.tokens(); ++t) Writer(view, 2).put(pass.position + t, t, 1);
}

// Of the old columns and the new tokens, in a row, the last real ones stay.
void fill_advance(const TensorView& view, const Pass& pass) {
  fill_zeros(view);
  for (int64_t r = 0; r < view.shape[2]; ++r) Writer(view, 2).put(r, r + pass.tokens(), 1);
}

void fill_pool(const TensorView& view, const Pass& pass, const BundleInfo& info) {
  const Pooling pooling = pass.pooling.value_or(info.pooling.value_or(Pooling::mean));
  const Writer out(view, 2);
  for (int64_t t = 0; t < pass.width; ++t) {
    const bool counts = pooling == Pooling::first ? t == 0 : t < pass.tokens();
    out.put(t, 0,
            !counts                     ? 0.0f
            : pooling == Pooling::first ? 1.0f
                                        : 1.0f / static_cast<float>(pass.tokens()));
  }
}

}  // namespace

void fill_input(const TensorView& view, const Role& role, const Pass& pass, const BundleInfo& info,
                const EmbeddingReader& embedding) {
  const std::vector<int64_t>& shape = view.shape;
  const int64_t last = shape.empty() ? 0 : shape.back();
  switch (role.kind) {
    case Role::Kind::stream:
      expect_shape(view, role, {1, info.hidden, pass.width, 1});
      return fill_stream(view, pass, embedding);
    case Role::Kind::cos:
    case Role::Kind::sin: {
      const RopeTable& rope = info.ropes.at(role.index);
      expect_shape(view, role, {1, 1, pass.width, static_cast<int64_t>(rope.frequencies.size())});
      return fill_rope(view, rope, role.kind == Role::Kind::cos, pass);
    }
    case Role::Kind::mask: {
      const Reach& reach = info.masks.at(role.index);
      expect_shape(view, role, {1, 1, reach.kind == Reach::Kind::full ? 1 : pass.width, last});
      return fill_mask(view, reach, pass);
    }
    case Role::Kind::write:
      expect_shape(view, role, {1, 1, shape.size() == 4 ? shape[2] : 0, pass.width});
      return fill_write(view, pass);
    case Role::Kind::advance: {
      // Bundles that were written before there could be several do not say for how many columns it is.
      const int64_t columns = role.index ? static_cast<int64_t>(role.index) : last - pass.width;
      expect_shape(view, role, {1, 1, columns, columns + pass.width});
      return fill_advance(view, pass);
    }
    case Role::Kind::pool:
      expect_shape(view, role, {1, 1, pass.width, 1});
      return fill_pool(view, pass, info);
    case Role::Kind::position:
      expect_shape(view, role, {1});
      view.values<int32_t>()[0] = static_cast<int32_t>(pass.position);
      return;
    default: throw errorf("an input of the role '{}' is not the host's to make", role_name(role.kind));
  }
}

void fill_column(const TensorView& view, int64_t t, std::span<const float> values) {
  Writer(view, 1).put_column(t, values);
}

}  // namespace anemone
