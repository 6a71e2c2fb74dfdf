#include "placement/product.h"

#include <algorithm>
#include <string>

namespace anemone::placement {
namespace {

// The labels of an einsum: "bhqc" and "bkhc" give "bkhq".
struct Labels {
  std::string operands[2], out;

  bool summed(char label) const { return out.find(label) == std::string::npos; }
  // In this operand and in the result, and not in the other.
  bool free(char label, size_t operand) const {
    return !summed(label) && operands[1 - operand].find(label) == std::string::npos;
  }
};

// Empty where the equation is not one of two operands.
std::optional<Labels> labels_of(const OpView& v) {
  std::string plain;
  for (const char c : v.text("equation"))
    if (c != ' ') plain += c;
  const size_t comma = plain.find(','), arrow = plain.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return std::nullopt;
  Labels out{{plain.substr(0, comma), plain.substr(comma + 1, arrow - comma - 1)}, plain.substr(arrow + 2)};
  std::vector<const Tensor*> operands = v.all("values");
  if (operands.size() != 2) return std::nullopt;
  for (size_t i = 0; i < 2; ++i)
    if (out.operands[i].size() != operands[i]->dims.size()) return std::nullopt;
  return out;
}

// Of a matrix that may be turned; a vector has one dimension only.
int64_t inner_of(const Tensor& x, bool turned) {
  if (x.dims.empty()) return 1;
  return x.rank() == 1 ? x.dims[0] : x.dims[x.dims.size() - (turned ? 2 : 1)];
}

int64_t einsum_inner(const OpView& v) {
  const auto labels = labels_of(v);
  if (!labels) return 1;
  const std::vector<const Tensor*> operands = v.all("values");
  int64_t inner = 1;
  std::string seen;
  for (size_t i = 0; i < 2; ++i)
    for (size_t k = 0; k < labels->operands[i].size(); ++k) {
      const char label = labels->operands[i][k];
      const int64_t size = operands[i]->dims[k];
      if (!labels->summed(label) || seen.find(label) != std::string::npos || size <= 1) continue;
      seen += label;
      if (inner <= INT64_MAX / size) inner *= size;
    }
  return inner;
}

// Of a product without spatial dimensions: rows of the input, a batch in front of them left out.
double rows_of(const Tensor& x, int64_t inner) {
  const double batch = x.rank() >= 3 ? static_cast<double>(x.dims[0]) : 1;
  return batch > 0 && inner > 0 ? x.count / batch / static_cast<double>(inner) : 1;
}

std::optional<Projection> convolution(const OpView& v) {
  const Tensor *x = v.find("x"), *w = v.find("weight");
  if (!x || !w || !w->constant || v.results().empty() || v.results()[0].rank() < 2) return std::nullopt;
  Projection p{x, w, v.results()[0].dims[1], 1};
  for (size_t i = 2; i < x->dims.size(); ++i) p.columns *= static_cast<double>(x->dims[i]);
  return p;
}

std::optional<Projection> matrices(const OpView& v, const Tensor* x, const Tensor* w) {
  if (!x || !w || w->constant == x->constant || v.results().empty()) return std::nullopt;
  if (x->constant) std::swap(x, w);
  if (w->rank() < 2 || x->dims.empty()) return std::nullopt;
  const std::vector<int64_t> inner = inner_sizes(v);
  const double inputs = inner.empty() || inner[0] < 1 ? 1 : static_cast<double>(inner[0]);
  return Projection{x, w, static_cast<int64_t>(std::min(w->count / inputs, 1e15)),
                    rows_of(*x, static_cast<int64_t>(inputs))};
}

int einsum_axis(const OpView& v, size_t operand) {
  const auto labels = labels_of(v);
  if (!labels || operand > 1) return 0;
  const std::string& own = labels->operands[operand];
  const auto it = std::find_if(own.begin(), own.end(), [&](char c) { return labels->free(c, operand); });
  return it == own.end() ? 0 : static_cast<int>(it - own.begin());
}

}  // namespace

bool is_convolution(const Operation& op) {
  return op.type == "conv" || op.type == "conv_transpose" || op.type == "conv_quantized";
}

bool is_product(const Operation& op) {
  return is_convolution(op) || op.type == "matmul" || op.type == "linear" || op.type == "einsum" ||
         op.type == "scaled_dot_product_attention";
}

std::vector<int64_t> inner_sizes(const OpView& view) {
  const std::string& op = view.type();
  if (op == "matmul") {
    const Tensor* x = view.find("x");
    return x ? std::vector{inner_of(*x, view.flag("transpose_x"))} : std::vector<int64_t>{};
  }
  if (op == "linear") {
    const Tensor* x = view.find("x");
    return x ? std::vector{inner_of(*x, false)} : std::vector<int64_t>{};
  }
  if (op == "einsum") return {einsum_inner(view)};
  if (op == "scaled_dot_product_attention") {  // over the width of a head, then over the keys
    const Tensor* key = view.find("key");
    if (key && key->rank() >= 2) return {key->dims[key->dims.size() - 1], key->dims[key->dims.size() - 2]};
  }
  return {};
}

std::optional<Projection> projection_of(const OpView& view) {
  const std::string& op = view.type();
  if (is_convolution(view.op())) return convolution(view);
  if (op == "linear") return matrices(view, view.find("x"), view.find("weight"));
  if (op == "matmul") return matrices(view, view.find("x"), view.find("y"));
  if (op != "einsum" || !labels_of(view)) return std::nullopt;
  const std::vector<const Tensor*> operands = view.all("values");
  return matrices(view, operands[0], operands[1]);
}

int output_axis(const Operation& op, const Value& weight) {
  if (op.type == "conv_transpose") return 1;
  if (op.type != "matmul" && op.type != "einsum") return 0;
  const OpView view(op);
  const int rank = weight.type.rank();
  if (op.type == "einsum") {
    const Input* values = op.input("values");
    for (size_t i = 0; values && i < values->bindings.size(); ++i)
      if (values->bindings[i].value == &weight) return einsum_axis(view, i);
    return 0;
  }
  if (op.value("x") == &weight) return view.flag("transpose_x") ? rank - 1 : rank - 2;
  return view.flag("transpose_y") ? rank - 2 : rank - 1;
}

}  // namespace anemone::placement
