#include "placement/support.h"

#include "base/error.h"
#include "base/shape.h"
#include "placement/evidence.h"
#include "placement/product.h"
#include "placement/weight_form.h"

namespace anemone::placement {
namespace {

// Of operations that give indices only int32 was probed.
bool gives_int32(const OpView& v) { return v.results().empty() || v.results()[0].dtype == DType::int32; }

std::optional<Refusal> by_kind(const OpView& v) {
  const OpEvidence& row = evidence_of(v.type());
  const std::string_view rule = row.refused;
  if (rule.empty()) return std::nullopt;
  if (rule == "O05") {
    if (!gives_int32(v)) return std::nullopt;
    return Refusal{rule, v.type() == "argsort" ? "Unsupported tensor data type: int32"
                                               : "Output type int32 is not supported."};
  }
  if (row.evidence == Evidence::stated)
    return Refusal{rule, fmt::format("the engine does not take it ({})", row.source)};
  if (v.type() == "scatter")
    return Refusal{rule, "scatter MIL op is currently only supported on uANE targets"};
  if (v.type() == "sliding_windows") return Refusal{rule, "MIL converter not implemented."};
  return Refusal{rule, fmt::format("Unsupported MIL operation \"{}\".", v.type())};
}

std::optional<Refusal> by_chip(const OpView& v, const Chip& chip) {
  if ((v.type() == "sin" || v.type() == "cos") && chip.generation <= 13)
    return Refusal{"O15", fmt::format("the engine of {} has no {}; A15 and M2 are the first with it",
                                      chip.name, v.type())};
  return std::nullopt;
}

bool computed(const Tensor* t) { return t && !t->constant; }

std::optional<Refusal> by_index(const OpView& v) {
  const Tensor* indices = v.find("indices");
  if (v.type() == "gather" && computed(indices)) return Refusal{"O03", "Unsupported gather index type"};
  if (v.type().starts_with("gather") && computed(indices) && indices->dtype == DType::int32)
    return Refusal{"O03", "Unsupported tensor data type: int32"};
  if (v.type() == "slice_by_index" || v.type() == "slice_by_size")
    for (const char* param : {"begin", "end", "size", "stride"})
      if (computed(v.find(param)))
        return Refusal{"O04", fmt::format("invalid live-in: '{}' is known only at run time", param)};
  return std::nullopt;
}

// slice_update takes its place from integers that are computed, and is published on the engine all the same.
bool may_be_integer(const OpView& v, const Tensor& t) {
  return v.type() == "slice_update" && t.param != "x" && t.param != "update";
}

std::optional<Refusal> by_dtype(const OpView& v) {
  for (const auto* list : {&v.operands(), &v.results()})
    for (const Tensor& t : *list) {
      if (t.constant || may_be_integer(v, t)) continue;
      if (t.dtype == DType::fp32 && v.type() != "cast")
        return Refusal{"D01", "computes in fp32; the engine computes in fp16"};
      if (t.dtype == DType::int32 || t.dtype == DType::uint32 || t.dtype == DType::int64 ||
          t.dtype == DType::uint64 || t.dtype == DType::fp64 || t.dtype == DType::string)
        return Refusal{"D02", fmt::format("Unsupported tensor data type: {}", dtype_name(t.dtype))};
    }
  return std::nullopt;
}

// The size of one dimension: N, C and then D, H, W; a tensor of one or two dimensions has no spatial ones.
std::optional<Refusal> by_size(const OpView& v, const AneLimits& limits) {
  for (const auto* list : {&v.operands(), &v.results()})
    for (const Tensor& t : *list) {
      if (t.constant) continue;
      if (t.rank() > 5)
        return Refusal{"S01",
                       fmt::format("a tensor has rank {}: {}", t.rank(), shape_text(to_shape(t.dims)))};
      for (size_t i = 0; i < t.dims.size(); ++i) {
        const int64_t most = i == 0 ? limits.batch : i == 1 ? limits.channels : limits.spatial;
        if (t.dims[i] > most)
          return Refusal{
              t.dims[i] > AneLimits{}.spatial ? "S05" : "S06",
              fmt::format("Tensor dimensions {} are not within supported range, [1-{}] for dimension {}",
                          shape_text(to_shape(t.dims)), most, i)};
      }
    }
  for (const int64_t inner : inner_sizes(v))
    if (inner > limits.inner)
      return Refusal{"S07", fmt::format("the inner dimension {} can not fit the Kmem ({} at most)", inner,
                                        limits.inner)};
  return std::nullopt;
}

// A kernel of one dimension is one row: K is judged as 1 x K. Of three dimensions the first has the height's limit.
std::optional<Refusal> by_kernel(const OpView& v, const Chip& chip) {
  if (is_convolution(v.op())) {
    const Tensor* w = v.find("weight");
    if (!w || w->rank() < 3) return std::nullopt;
    const bool first = chip.generation <= 13;
    const std::vector<int64_t> kernel(w->dims.begin() + 2, w->dims.end());
    const int64_t width = kernel.back(), height = kernel.size() > 1 ? kernel[kernel.size() - 2] : 1,
                  depth = kernel.size() > 2 ? kernel[0] : 1;
    const bool square = height == 16 && width == 16 && !first;
    if ((!square && (width > (first ? 13 : 15) || height > 31)) || depth > 31)
      return Refusal{"O07", fmt::format("{} with large kernel {} does not meet decomposition preconditions",
                                        v.type(), shape_text(kernel))};
  }
  if (v.type() == "max_pool") {
    const std::vector<int64_t> kernel = v.integers("kernel_sizes");
    if (!kernel.empty() && kernel.back() > 8 && kernel.back() != 32)
      return Refusal{"O08",
                     fmt::format("Invalid Pool kernel width ({}), must be [1-8] or 32.", kernel.back())};
  }
  return std::nullopt;
}

std::optional<Refusal> by_weight(const OpView& v) {
  if (!is_convolution(v.op()) && v.type() != "linear" && v.type() != "matmul" && v.type() != "einsum")
    return std::nullopt;
  for (const Tensor& t : v.operands()) {
    if (!t.constant || !t.maker || t.maker->type == "const" || t.maker->outputs.empty()) continue;
    const WeightForm form = weight_form(*t.maker);
    const int axis = output_axis(v.op(), *t.maker->outputs.back());
    if (form.kind == WeightForm::Kind::integer && form.split_along_inputs(axis))
      return Refusal{"Q02", "ANE only support per-cout/per-tensor quantization: " + form.text()};
    if (form.kind == WeightForm::Kind::palette && form.vector > 1)
      return Refusal{"Q06", "a palette of vectors: " + form.text()};
    if (form.kind == WeightForm::Kind::palette && form.split_along_inputs(axis))
      return Refusal{"Q05", "palettes along more than the output channels: " + form.text()};
  }
  return std::nullopt;
}

}  // namespace

bool is_state_op(const Operation& op) {
  return op.type == "read_state" || op.type == "write_state" || op.type == "coreml_update_state";
}

bool was_probed(const OpView& view) {
  const OpEvidence& row = evidence_of(view.type());
  if (row.refused == "O05") return gives_int32(view);
  return row.evidence != Evidence::none;
}

std::optional<Refusal> ane_refuses(const OpView& view, const Chip& chip) {
  if (is_state_op(view.op())) return std::nullopt;
  if (auto r = by_kind(view)) return r;
  if (auto r = by_chip(view, chip)) return r;
  if (auto r = by_index(view)) return r;
  if (auto r = by_dtype(view)) return r;
  if (auto r = by_size(view, chip.limits())) return r;
  if (auto r = by_kernel(view, chip)) return r;
  return by_weight(view);
}

std::optional<Refusal> bnns_refuses(const OpView& view) {
  if (view.type() == "matmul" && !view.results().empty() && view.results()[0].dtype == DType::int32)
    return Refusal{"D02", "matmul takes FP16, BF16 or FP32"};
  return std::nullopt;
}

}  // namespace anemone::placement
