#include "check/numerics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "mil/stored.h"
#include "placement/product.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

constexpr double kAccumulator = 32768, kHalfMost = 65504;
constexpr double kTableError = 1e-2;
constexpr size_t kMostRows = 4;  // of a golden, the ones with the largest values

struct Spread {
  double largest = 0, rms = 0;
};

Spread spread(std::span<const float> values, double scale) {
  Spread s;
  double squares = 0;
  for (const float x : values) {
    s.largest = std::max(s.largest, std::abs(scale * x));
    squares += scale * x * scale * x;
  }
  s.rms = values.empty() ? 0 : std::sqrt(squares / static_cast<double>(values.size()));
  return s;
}

class GoldenRun {
 public:
  explicit GoldenRun(const PackageSubject& package)
      : arrays_(package.bundle.golden), values_(package.values) {}
  explicit operator bool() const { return arrays_ != nullptr; }

  // The array of a value, and the factor between it and what the program computes.
  const Array* find(const Value& value, double& scale) const {
    const Tap* tap = values_.find(value.name);
    scale = tap ? tap->scale : 1;
    if (const Array* exact = named(value.name)) return exact;
    if (!tap) return nullptr;
    if (tap->layer < 0) return named(tap->name);
    if (const Array* by_layer = named(fmt::format("{}_{}", tap->name, tap->layer))) return by_layer;
    // transformers counts what goes into the first layer too.
    return tap->name == "layer_out" ? named(fmt::format("hidden_states_{}", tap->layer + 1)) : nullptr;
  }

 private:
  const Array* named(const std::string& name) const {
    for (const auto& [key, array] : *arrays_)
      if (key == name && dtype_is_float(array.dtype())) return &array;
    return nullptr;
  }

  const NamedArrays* arrays_;
  const KnownValues& values_;
};

// Rows of `width` values: [R, width], or [1, width, R, 1] as the program holds them.
std::vector<std::vector<float>> rows_of(const Array& array, int64_t width) {
  const std::vector<float> values = array.to_float();
  const auto& shape = array.shape();
  std::vector<std::vector<float>> rows;
  const auto w = static_cast<size_t>(width);
  if (w == 0 || values.size() % w != 0) return rows;
  const size_t count = values.size() / w;
  const bool channels_first = shape.size() == 4 && shape[1] == width && shape[3] != width;
  for (size_t r = 0; r < count; ++r) {
    std::vector<float> row(w);
    for (size_t i = 0; i < w; ++i) row[i] = channels_first ? values[i * count + r] : values[r * w + i];
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return spread(a, 1).largest > spread(b, 1).largest; });
  if (rows.size() > kMostRows) rows.resize(kMostRows);
  return rows;
}

const StoredTensor* weight_of(const Operation& op, std::shared_ptr<const StoredTensor>& hold) {
  const Value* w = op.type == "conv_transpose" ? nullptr : op.value("weight");  // its rows are the inputs
  if (!w || !w->producer || !placement::is_constant(*w)) return nullptr;
  if (const Constant* plain = w->constant()) {
    if (!is_readable(*plain)) return nullptr;
    hold = stored_constant(*plain);
    return hold.get();
  }
  const placement::WeightForm form = placement::weight_form(*w->producer);
  if (form.kind != placement::WeightForm::Kind::integer || !form.data || !is_readable(*form.data))
    return nullptr;
  hold = stored_constant(*form.data);
  return hold.get();
}

// The largest sum of |w · x| over the rows of a 1x1 convolution's weight: no order of adding passes it.
double worst_sum(const Operation& op, const std::vector<std::vector<float>>& rows, double scale) {
  std::shared_ptr<const StoredTensor> hold;
  const StoredTensor* w = weight_of(op, hold);
  if (!w || rows.empty() || w->type().rank() < 2) return 0;
  const auto outputs = w->type().shape[0].size(), inputs = static_cast<int64_t>(rows[0].size());
  if (w->type().size() != outputs * inputs) return 0;
  const placement::WeightForm form = placement::weight_form(*op.value("weight")->producer);
  const std::vector<float> scales = constant_values(form.scale, outputs);
  if (form.kind == placement::WeightForm::Kind::integer && scales.empty()) return 0;
  const bool is_float = w->type().is_float();
  std::vector<uint32_t> room(static_cast<size_t>(inputs));
  double worst = 0;
  for (int64_t o = 0; o < outputs; ++o) {
    w->read(o * inputs, (o + 1) * inputs, room.data());
    const double factor =
        scales.empty() ? 1 : std::abs(scales[scales.size() == 1 ? 0 : static_cast<size_t>(o)]);
    for (const auto& row : rows) {
      double sum = 0;
      for (size_t i = 0; i < row.size(); ++i)
        sum += std::abs(static_cast<double>(row[i])) *
               std::abs(is_float ? static_cast<double>(std::bit_cast<float>(room[i]))
                                 : static_cast<double>(std::bit_cast<int32_t>(room[i])));
      worst = std::max(worst, sum * factor * scale);
    }
  }
  return worst;
}

// A function by a table of 33 points on [low, high], clamped outside.
double table_error(double (*f)(double), double low, double high, std::span<const float> inputs) {
  double worst = 0;
  for (const float x : inputs) {
    const double at = std::clamp((static_cast<double>(x) - low) / (high - low), 0.0, 1.0) * 32;
    const double base = std::min(std::floor(at), 31.0), step = (high - low) / 32;
    const double a = f(low + base * step), b = f(low + (base + 1) * step);
    worst = std::max(worst, std::abs(a + (b - a) * (at - base) - f(x)));
  }
  return worst;
}

}  // namespace

void find_overflow(const FunctionSubject& s, Findings& out) {
  const GoldenRun golden(s.package);
  if (!golden) return;
  for (const auto& op : s.placed.ops) {
    if (op.op->outputs.empty()) continue;
    double scale = 1;
    const bool product = placement::is_product(*op.op);
    if (const Array* y = golden.find(*op.op->outputs[0], scale)) {
      const Spread found = spread(y->to_float(), scale);
      const std::string numbers =
          fmt::format("largest {:.4g}, root mean square {:.3g}, in the golden run", found.largest, found.rms);
      if (product && found.largest >= kAccumulator / 2)
        out.add(Level::warning, *op.op, fmt::format("{}: the accumulator ends at 32768", numbers));
      else if (found.largest >= kHalfMost / 2)
        out.add(Level::warning, *op.op, fmt::format("{}: fp16 ends at 65504; see --residual-scale", numbers));
    }
    const Value* x = product ? computed_operand(*op.op, "x") : nullptr;
    const Array* input = x ? golden.find(*x, scale) : nullptr;
    if (!input || x->type.rank() < 2 || !x->type.fixed()) continue;
    const int64_t width =
        placement::is_convolution(*op.op) ? x->type.shape[1].size() : x->type.shape.back().size();
    const double worst = worst_sum(*op.op, rows_of(*input, width), scale);
    if (worst >= kAccumulator)
      out.add(Level::warning, *op.op,
              fmt::format("Σ|w·x| reaches {:.4g} in the golden run, so a running sum may pass 32768", worst));
  }
}

void find_table_errors(const FunctionSubject& s, Findings& out) {
  const GoldenRun golden(s.package);
  if (!golden) return;
  for (const auto& op : s.placed.ops) {
    const Value* x = computed_operand(*op.op, "x");
    double scale = 1;
    const Array* input = x ? golden.find(*x, scale) : nullptr;
    if (!input) continue;
    std::vector<float> values = input->to_float();
    double error = 0;
    if (op.op->type == "sigmoid")
      error = table_error([](double v) { return 1 / (1 + std::exp(-v)); }, -8, 8, values);
    if (op.op->type == "silu")
      for (const float v : values) {
        const float one[] = {v};
        error = std::max(error, std::abs(static_cast<double>(v)) *
                                    table_error([](double u) { return 1 / (1 + std::exp(-u)); }, -8, 8, one));
      }
    if (op.op->type == "tanh" || op.op->type == "erf") {
      for (float& v : values) v = std::abs(v);
      error = op.op->type == "tanh" ? table_error([](double v) { return std::tanh(v); }, 0, 4, values)
                                    : table_error([](double v) { return std::erf(v); }, 0, 2, values);
    }
    if (error > 0)
      out.add(error > kTableError ? Level::warning : Level::hint, *op.op,
              fmt::format("the table is off by up to {:.2g} for the inputs of the golden run", error));
  }
}

}  // namespace anemone
