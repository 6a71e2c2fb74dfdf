#include "placement/cost.h"

#include <algorithm>

#include "base/error.h"
#include "placement/evidence.h"
#include "placement/op_view.h"
#include "placement/product.h"
#include "placement/rates.h"
#include "placement/support.h"

namespace anemone::placement {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kProbedBytes = 1310728;   // the largest operation on the default path that was probed
constexpr double kProbedFlops = 33554432;  // and the most flops
constexpr double kGeluFlops = 78;          // per element

// Times on the three processors, and where they come from.
struct Times {
  double ane = 0, bnns = 0, classic = 0;
  std::string formula, extrapolated;
};

double sum(const std::vector<Tensor>& tensors, double (*of)(const Tensor&)) {
  double total = 0;
  for (const Tensor& t : tensors) total += of(t);
  return total;
}

double product(const std::vector<int64_t>& values, size_t from = 0) {
  double out = 1;
  for (size_t i = from; i < values.size(); ++i) out *= static_cast<double>(values[i]);
  return out;
}

// A leaf of a tree: work over a rate. `own`: the rate was read on this platform.
Times by_leaf(const Leaf& leaf, double work, std::string formula, bool own) {
  Times t;
  t.ane = work / (leaf.rate.ane * 1e9) * 1e3;
  t.classic = work / (leaf.rate.classic * 1e9) * 1e3;
  t.bnns = t.classic * kBnnsTime;
  t.formula = std::move(formula);
  if (!leaf.probed(work))
    t.extrapolated =
        fmt::format("probed for work {:.3g} to {:.3g}, here {:.3g}", leaf.least, leaf.most, work);
  else if (!own)
    t.extrapolated = "rate read on H16G only";
  return t;
}

double elements(const Tensor& t) { return t.count; }

// 2 x the elements of every operand, the small parameters included.
Times by_elements(const OpView& v, const Leaf& leaf, bool own) {
  return by_leaf(leaf, 2 * sum(v.operands(), elements), "tree: 2 per element of the operands", own);
}

Times relu(const OpView& v, const Rates& r) {
  Times t = by_elements(v, r.relu, r.read.elementwise);
  t.bnns = t.classic;
  return t;
}

Times concat(const OpView& v, const Rates& r) {
  double count = 0;
  for (const Tensor& t : v.operands())
    if (t.param == "values") count += t.count;
  return by_leaf(r.concat, 2 * count, "tree: 2 per element of the values", r.read.elementwise);
}

Times transpose(const OpView& v, const Rates& r) {
  const Tensor* x = v.find("x");
  const double bytes = 2 * ((x ? x->count : 0) + (v.results().empty() ? 0 : v.results()[0].count));
  Times t = by_elements(v, bytes > kTransposeLargeBytes ? r.transpose_large : r.transpose_small,
                        r.read.elementwise);
  if (t.extrapolated.empty() && bytes > kTransposeSureSmall && bytes < kTransposeSureLarge)
    t.extrapolated = "between the two leaves that were probed";
  return t;
}

Times conv(const OpView& v, const Rates& r) {
  const Tensor* x = v.find("x");
  const Tensor* w = v.find("weight");
  if (!x || !w || v.results().empty()) return {};
  const double out = v.results()[0].count;
  const double flops = 2 * out * product(w->dims, 1) / product(v.integers("dilations"));
  const double intensity = flops / (2 * (x->count + out + w->count));
  const size_t leaf = intensity < kConvSlow.at ? 0 : intensity < kConvFast.at ? 1 : 2;
  constexpr const char* kNames[] = {"slow", "middle", "fast"};
  Times t = by_leaf(r.conv[leaf], flops,
                    fmt::format("conv tree, {} leaf: {:.3g} flop/byte", kNames[leaf], intensity),
                    leaf == 0 ? r.read.conv_slow : r.read.conv);
  if (t.extrapolated.empty() && (!kConvSlow.sure(intensity) || !kConvFast.sure(intensity)))
    t.extrapolated = "between two leaves that were probed";
  return t;
}

Times conv_transpose(const OpView& v, const Rates& r) {
  const Tensor* w = v.find("weight");
  if (!w || w->dims.empty() || v.results().empty()) return {};
  const Tensor& out = v.results()[0];
  const double flops = 2 * out.count * static_cast<double>(w->dims[0]) * product(w->dims, 2);
  return by_leaf(out.rank() == 4 ? r.deconv_2d : r.deconv, flops, "conv_transpose tree", r.read.elementwise);
}

// The work uses the input's width twice, whatever the output's is: so does Core ML.
Times linear(const OpView& v, const Rates& r) {
  const Tensor* x = v.find("x");
  const Tensor* w = v.find("weight");
  if (!x || !w || w->rank() != 2 || x->dims.empty()) return {};
  const auto outputs = static_cast<double>(w->dims[0]), inputs = static_cast<double>(w->dims[1]);
  const double flops = 2 * x->count * inputs + (v.find("bias") ? outputs : 0);
  const double rows = x->count / static_cast<double>(x->dims.back());
  const double intensity = flops / (2 * (x->count + w->count + rows * outputs));
  const size_t leaf = intensity < kLinearSlow.at                                  ? 0
                      : 2 * w->count >= kLinearLargeBytes && w->dims[0] % 16 == 0 ? 2
                                                                                  : 1;
  return by_leaf(r.linear[leaf], flops, fmt::format("linear tree: {:.3g} flop/byte", intensity),
                 r.read.linear);
}

// Which operands the default path counts.
double counted_bytes(const OpView& v) {
  const std::string& op = v.type();
  const bool pool = op == "max_pool" || op == "avg_pool";
  const bool only_computed =
      pool || op == "layer_norm" || op == "batch_norm" || op == "scaled_dot_product_attention";
  double bytes = v.results().empty() ? 0 : v.results()[0].bytes();  // the first result alone
  std::string_view last;
  for (const Tensor& t : v.operands()) {
    // Of several values under one parameter only the first counts, but for a product.
    const bool again = t.param == last && op != "einsum";
    last = t.param;
    if (again || (only_computed && t.constant)) continue;
    if (op == "matmul" && t.param != "x" && t.param != "y") continue;
    if (op == "einsum" && t.param != "values") continue;
    bytes += t.bytes();
  }
  return pool ? bytes + 4 * product(v.integers("kernel_sizes")) : bytes;
}

// einsum is counted as the matmul that it is.
bool is_matrix_product(const std::string& op) { return op == "matmul" || op == "einsum"; }

double counted_flops(const OpView& v) {
  const std::string& op = v.type();
  const double out = v.results().empty() ? 0 : v.results()[0].count;
  if (op.ends_with("_pool")) return out * product(v.integers("kernel_sizes"));
  const Tensor* x = v.find("x");
  if (op == "gelu") return x ? kGeluFlops * x->count : 0;
  if (!is_matrix_product(op)) return 0;
  const std::vector<int64_t> inner = inner_sizes(v);
  if (inner.empty()) return 0;
  const Tensor* y = v.find("y");
  return 2 * out * static_cast<double>(inner[0]) + (y && v.flag("transpose_y") ? y->count : 0) +
         (x && v.flag("transpose_x") ? x->count : 0);
}

Times by_default(const OpView& v, const Rates& r) {
  const double bytes = counted_bytes(v), flops = counted_flops(v);
  Times t;
  if (is_matrix_product(v.type()) && r.matmul_tree)
    return by_leaf({r.matmul, 0, 1e18}, flops, "matmul tree", r.read.matmul);
  t.ane = std::max(bytes / (r.ane_gib * kGib), flops / (r.peak.ane * 1e9)) * 1e3;
  t.classic = std::max(bytes / (r.classic_gib * kGib), flops / (r.peak.classic * 1e9)) * 1e3;
  t.bnns = std::max(bytes / (r.bnns_gib * kGib), flops / (r.peak.classic * 1e9) * kBnnsTime) * 1e3;
  t.formula = flops > 0 ? fmt::format("the larger of {:.4g} bytes and {:.4g} flops", bytes, flops)
                        : fmt::format("{:.4g} bytes", bytes);
  if (bytes > kProbedBytes)
    t.extrapolated = fmt::format("probed up to {:.3g} bytes, here {:.3g}", kProbedBytes, bytes);
  else if (flops > kProbedFlops)
    t.extrapolated = fmt::format("probed up to {:.3g} flops, here {:.3g}", kProbedFlops, flops);
  else if (!r.read.bandwidth)
    t.extrapolated = "rate read on H16G only";
  return t;
}

// The engine moves a gather's bytes; the CPU takes its elements from a tree.
Times gather(const OpView& v, const Rates& r) {
  Times t = by_default(v, r);
  t.classic = 2 * sum(v.operands(), elements) / (r.gather_classic * 1e9) * 1e3;
  t.bnns = t.classic * kBnnsTime;
  t.formula += "; on the CPU 2 per element";
  return t;
}

// No formula was found: the product of inputs and weights at the CPU's peak. Only the CPU takes them.
Times recurrent(const OpView& v, const Rates& r) {
  const Tensor* x = v.find("x");
  double weights = 0;
  for (const Tensor& t : v.operands())
    if (t.constant) weights += t.count;
  const double steps = x && !x->dims.empty() ? static_cast<double>(x->dims[0]) : 1;
  Times t = by_leaf({r.peak, 0, 0}, 2 * steps * weights, "no formula is known for recurrent layers", false);
  t.extrapolated = "no formula is known for recurrent layers";
  return t;
}

Times times_of(const OpView& v, const Rates& r) {
  const std::string& op = v.type();
  if (op == "relu") return relu(v, r);
  if (op == "add" || op == "sub") return by_elements(v, r.add, r.read.add);
  if (op == "mul") return by_elements(v, r.mul, r.read.elementwise);
  if (op == "concat") return concat(v, r);
  if (op == "transpose") return transpose(v, r);
  if (op == "gather") return gather(v, r);
  if (op == "upsample_bilinear") return by_elements(v, r.upsample, r.read.elementwise);
  if (op == "conv") return conv(v, r);
  if (op == "conv_transpose") return conv_transpose(v, r);
  if (op == "linear") return linear(v, r);
  if (op == "lstm" || op == "gru" || op == "rnn") return recurrent(v, r);
  return by_default(v, r);
}

bool has_compressed_weight(const OpView& v) {
  return std::any_of(v.operands().begin(), v.operands().end(),
                     [](const Tensor& t) { return t.maker && t.maker->type.starts_with("constexpr_"); });
}

}  // namespace

std::string_view processor_name(Processor processor) {
  return processor == Processor::ane ? "ane" : processor == Processor::bnns ? "bnns" : "classic_cpu";
}

Device device_of(Processor processor) { return processor == Processor::ane ? Device::ane : Device::cpu; }

std::string_view device_text(Device device) {
  return device == Device::ane ? "ANE" : device == Device::cpu ? "CPU" : "unknown (not probed)";
}

double OpCost::cpu_ms() const {
  const Offer &a = (*this)[Processor::classic_cpu], &b = (*this)[Processor::bnns];
  return !b.supported ? a.ms : !a.supported ? b.ms : std::min(a.ms, b.ms);
}

OpCost estimate(const Operation& op, const Chip& chip) {
  const OpView view(op);
  OpCost cost;
  for (Offer& offer : cost.offers) offer.supported = true;
  cost.probed = was_probed(view);
  if (is_state_op(op)) {
    cost.formula = "nothing is counted for a state";
    cost.extrapolated = "no probe had states";
    return cost;
  }
  Times t = times_of(view, rates_for(chip.platform));
  cost[Processor::ane].ms = t.ane;
  cost[Processor::bnns].ms = t.bnns;
  cost[Processor::classic_cpu].ms = t.classic;
  cost.formula = std::move(t.formula);
  cost.extrapolated = std::move(t.extrapolated);
  if (cost.extrapolated.empty() && has_compressed_weight(view))
    cost.extrapolated = "no probe had compressed weights";
  if (cost.extrapolated.empty() && evidence_of(op.type).evidence == Evidence::stated)
    cost.extrapolated = "no probe had this kind of operation; where it goes is stated by a source";
  if (!cost.probed) cost.extrapolated = "nobody has probed this kind of operation";
  if (!view.fixed()) cost.extrapolated = "its sizes are not known before run time";
  const auto refuse = [&](Processor processor, std::optional<Refusal> refusal) {
    if (refusal) cost[processor] = {false, 0, std::move(refusal->message), refusal->rule};
  };
  refuse(Processor::ane, ane_refuses(view, chip));
  refuse(Processor::bnns, bnns_refuses(view));
  return cost;
}

}  // namespace anemone::placement
