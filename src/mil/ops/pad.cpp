// Elements added before and after the last dimensions.
#include <algorithm>

#include "base/shape.h"
#include "mil/loops.h"
#include "mil/ops/sizes.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

enum class Mode { constant, reflect, replicate };

Mode mode_of(const OpCall& c) {
  const std::string_view mode = c.text("mode");
  if (mode == "constant") return Mode::constant;
  if (mode == "reflect") return Mode::reflect;
  if (mode == "replicate") return Mode::replicate;
  throw errorf("unknown mode '{}'", mode).expected("constant, reflect or replicate");
}

// How many elements go before and after each dimension of x; `pad` holds pairs for the last ones.
struct Padding {
  std::vector<int64_t> before, after;
};

Padding padding(const OpCall& c) {
  const auto rank = c.type("x").shape.size();
  const std::vector<int64_t> pad = c.integers("pad");
  if (pad.size() % 2 != 0 || pad.size() > 2 * rank)
    throw errorf("'pad' must have two entries for each dimension padded")
        .found(fmt::format("{} for a tensor of rank {}", pad.size(), rank));
  Padding p{std::vector<int64_t>(rank, 0), std::vector<int64_t>(rank, 0)};
  const size_t skip = rank - pad.size() / 2;
  for (size_t i = 0; i < pad.size(); ++i) {
    if (pad[i] < 0) throw errorf("'pad' has a negative entry").found(fmt::format("{}", pad[i]));
    (i % 2 ? p.after : p.before)[skip + i / 2] = pad[i];
  }
  return p;
}

Types infer(const OpCall& c) {
  const Type& x = c.type("x");
  const Type& pad = c.type("pad");
  const Mode mode = mode_of(c);
  if (pad.rank() != 1) throw errorf("'pad' must be a vector").found(pad.text());
  if (!c.known("pad")) {
    Shape out = x.shape;
    const int64_t count = pad.dim(0).known() ? pad.dim(0).size() : 2 * x.rank();
    if (count % 2 != 0 || count > 2 * x.rank())
      throw errorf("'pad' must have two entries for each dimension padded").found(pad.text());
    std::fill(out.end() - count / 2, out.end(), Dim::unknown());
    return {Type::tensor(x.dtype, out)};
  }
  const Padding p = padding(c);
  Shape out;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (mode != Mode::constant && x.shape[i] == Dim(0) && p.before[i] + p.after[i] > 0)
      throw errorf("dimension {} is empty: there is nothing to pad it with", i);
    out.push_back(plus(plus(x.shape[i], p.before[i]), p.after[i]));
  }
  return {Type::tensor(x.dtype, out)};
}

// For each position of a padded dimension the position in x, or -1 for the constant.
std::vector<int64_t> sources(Mode mode, int64_t n, int64_t before, int64_t out) {
  std::vector<int64_t> at(static_cast<size_t>(out));
  const int64_t period = std::max<int64_t>(1, 2 * (n - 1));
  for (int64_t i = 0; i < out; ++i) {
    int64_t k = i - before;
    if (mode == Mode::constant) {
      if (k >= n) k = -1;
    } else if (mode == Mode::replicate) {
      k = std::clamp<int64_t>(k, 0, n - 1);
    } else {
      k = (k % period + period) % period;
      if (k >= n) k = period - k;
    }
    at[static_cast<size_t>(i)] = std::max<int64_t>(k, -1);
  }
  return at;
}

void run(const OpCall& c) {
  const std::vector<int64_t> dims = c.type("x").dims(), out_dims = c.out_type().dims();
  const int64_t count = c.out_type().size();
  if (count == 0) return;
  const float* x = c.floats("x");
  float* out = c.out_floats();
  if (dims.empty()) {
    out[0] = x[0];
    return;
  }
  const Mode mode = mode_of(c);
  const Padding p = padding(c);
  const std::vector<int64_t> strides = dense_strides(dims);
  std::vector<std::vector<int64_t>> from;  // offsets in x by dimension and position; -1: the constant
  for (size_t d = 0; d < dims.size(); ++d) {
    from.push_back(sources(mode, dims[d], p.before[d], out_dims[d]));
    for (int64_t& at : from.back()) at = at < 0 ? -1 : at * strides[d];
  }
  const auto fill = static_cast<float>(c.number("constant_val"));
  const size_t last = dims.size() - 1;
  const int64_t row = out_dims[last];
  c.pool().parallel_for(count / row, std::max<int64_t>(1, kMapGrain / row), [&](int64_t begin, int64_t end) {
    Walker walk(out_dims, {});
    for (int64_t r = begin; r < end; ++r) {
      walk.seek(r * row);
      int64_t base = 0;
      for (size_t d = 0; d < last && base >= 0; ++d) {
        const int64_t at = from[d][static_cast<size_t>(walk.index()[d])];
        base = at < 0 ? -1 : base + at;
      }
      for (int64_t i = 0; i < row; ++i) {
        const int64_t at = from[last][static_cast<size_t>(i)];
        out[r * row + i] = base < 0 || at < 0 ? fill : x[base + at];
      }
    }
  });
}

const Op kOps[] = {{
    "pad",
    {{Opset::ios15,
      {{"x", kFloat, 'T'},
       {"pad", kInt32},
       {"mode", kString, 0, kOptional | kConst, "constant"},
       {"constant_val", kFloat, 'T', kOptional | kConst, 0.0}}}},
    "x with pad[2i] elements before and pad[2i+1] after each of its last dimensions",
    infer,
    run,
}};

}  // namespace

std::span<const Op> ops_pad() { return kOps; }

}  // namespace anemone::ops
