// Scaled dot-product attention: softmax(q kᵀ / √E + mask) v, a tile of query rows at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/gemm.h"
#include "mil/loops.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

constexpr int64_t kRowTile = 32;  // query rows whose scores are held at once

Shape batch_of(const Type& t) { return Shape(t.shape.begin(), t.shape.end() - 2); }

Shape score_shape(const OpCall& c) {
  const Type& q = c.type("query");
  const Type& k = c.type("key");
  Shape out = broadcast(broadcast(batch_of(q), batch_of(k)), batch_of(c.type("value")));
  out.push_back(q.dim(q.rank() - 2));
  out.push_back(k.dim(k.rank() - 2));
  return out;
}

void check_equal(Dim a, Dim b, std::string_view what) {
  if (a.known() && b.known() && a != b)
    throw errorf("{} differ", what).found(fmt::format("{} and {}", a.text(), b.text()));
}

Types infer(const OpCall& c) {
  const Type& q = c.type("query");
  const Type& k = c.type("key");
  const Type& v = c.type("value");
  const int rank = q.rank();
  if (rank < 3 || k.rank() != rank || v.rank() != rank)
    throw errorf("query, key and value must have the same rank, 3 or more")
        .found(fmt::format("{}, {}, {}", q.text(), k.text(), v.text()));
  check_equal(q.dim(rank - 1), k.dim(rank - 1), "the sizes of a query and a key");
  check_equal(k.dim(rank - 2), v.dim(rank - 2), "the numbers of keys and values");
  Shape out = score_shape(c);
  if (c.has("attn_mask")) {
    const Shape both = broadcast(out, c.type("attn_mask").shape);
    bool wider = both.size() != out.size();
    for (size_t i = 0; !wider && i < out.size(); ++i) wider = out[i].known() && both[i] != out[i];
    if (wider)
      throw errorf("'attn_mask' does not fit the scores")
          .found(c.type("attn_mask").text())
          .expected(shape_text(out));
  }
  out.back() = v.dim(rank - 1);
  return {Type::tensor(q.dtype, out)};
}

// Scales, masks and normalises one row of scores. A row that is masked wholly becomes NaN, as in PyTorch.
template <class Allowed>
void softmax_row(float* row, int64_t count, float scale, Allowed mask) {
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    row[i] = mask(row[i] * scale, i);
    top = std::max(top, row[i]);
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += row[i] = std::exp(row[i] - top);
  const auto factor = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < count; ++i) row[i] *= factor;
}

void softmax_rows(const OpCall& c, float* scores, int64_t rows, int64_t keys, float scale,
                  const int64_t* mask_rows, int64_t mask_step) {
  for (int64_t r = 0; r < rows; ++r) {
    float* row = scores + r * keys;
    if (!c.has("attn_mask")) {
      softmax_row(row, keys, scale, [](float v, int64_t) { return v; });
    } else if (c.type("attn_mask").is_float()) {
      const float* mask = c.floats("attn_mask") + mask_rows[r];
      softmax_row(row, keys, scale, [=](float v, int64_t i) { return v + mask[i * mask_step]; });
    } else {
      const int32_t* mask = c.ints("attn_mask") + mask_rows[r];
      softmax_row(row, keys, scale, [=](float v, int64_t i) {
        return mask[i * mask_step] ? v : -std::numeric_limits<float>::infinity();
      });
    }
  }
}

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> out;
  for (const Dim d : shape) out.push_back(d.size());
  return out;
}

void run(const OpCall& c) {
  if (c.out_type().size() == 0) return;
  const std::vector<int64_t> scores = dims_of(score_shape(c));
  const int rank = c.type("query").rank();
  const int64_t queries = scores[scores.size() - 2], keys = scores.back();
  const int64_t size = c.type("query").dim(rank - 1).size(),
                value_size = c.type("value").dim(rank - 1).size();
  const std::vector<int64_t> batch(scores.begin(), scores.end() - 2);
  const auto strides = [&](const char* param) {
    return broadcast_strides(dims_of(batch_of(c.type(param))), batch);
  };
  const std::vector<int64_t> batch_strides[] = {strides("query"), strides("key"), strides("value")};
  std::vector<std::vector<int64_t>> mask_strides(1, std::vector<int64_t>(scores.size(), 0));
  if (c.has("attn_mask")) mask_strides[0] = broadcast_strides(c.type("attn_mask").dims(), scores);
  const int64_t tiles = (queries + kRowTile - 1) / kRowTile;
  const int64_t batches = c.out_type().size() / (queries * value_size);
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  c.pool().parallel_for(batches * tiles, 1, [&](int64_t begin, int64_t end) {
    GemmScratch scratch;
    std::vector<float> score(static_cast<size_t>(kRowTile * keys));
    Walker where(batch, batch_strides), mask(scores, mask_strides);
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t r0 = unit % tiles * kRowTile, rows = std::min(kRowTile, queries - r0), b = unit / tiles;
      where.seek(b);
      int64_t mask_rows[kRowTile];
      for (int64_t r = 0; r < rows && keys > 0; ++r) {
        mask.seek((b * queries + r0 + r) * keys);
        mask_rows[r] = mask.offset(0);
      }
      const float* q = c.floats("query") + (where.offset(0) * queries + r0) * size;
      const float* k = c.floats("key") + where.offset(1) * keys * size;
      const float* v = c.floats("value") + where.offset(2) * keys * value_size;
      gemm(rows, keys, size, {q, size, 1}, {k, 1, size}, score.data(), keys, false, scratch);
      softmax_rows(c, score.data(), rows, keys, scale, mask_rows, mask_strides[0].back());
      gemm(rows, value_size, keys, {score.data(), keys, 1}, {v, value_size, 1},
           c.out_floats() + (b * queries + r0) * value_size, value_size, false, scratch);
    }
  });
}

const Op kOps[] = {{"scaled_dot_product_attention",
                    {{Opset::ios18,
                      {{"query", kFloat, 'T'},
                       {"key", kFloat, 'T'},
                       {"value", kFloat, 'T'},
                       {"attn_mask", kFloat | kBool, 0, kOptional}}}},
                    "softmax(query keyᵀ / √E + mask) value; a bool mask says what takes part",
                    infer,
                    run}};

}  // namespace

std::span<const Op> ops_attention() { return kOps; }

}  // namespace anemone::ops
