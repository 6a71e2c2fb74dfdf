// Matrix products, and numbers as codes.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {
namespace {

OnnxArray matmul_of(OnnxArray a, OnnxArray b) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (row) a.dims.insert(a.dims.begin(), 1);
  if (column) b.dims.push_back(1);
  const std::vector<int64_t> batch_a(a.dims.begin(), a.dims.end() - 2),
      batch_b(b.dims.begin(), b.dims.end() - 2);
  std::vector<int64_t> dims = broadcast_dims(batch_a, batch_b);
  const std::vector<int64_t> batch = dims;
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  if (b.dims[b.dims.size() - 2] != k)
    throw errorf("{} and {} cannot be multiplied", shape_text(a.dims), shape_text(b.dims));
  dims.push_back(m);
  dims.push_back(n);
  OnnxArray y = made(a.type, dims);
  int64_t at_batch = 0;
  each_place(batch, [&](const std::vector<int64_t>& at) {
    const double* pa = a.data.data() + broadcast_at(at, batch_a) * m * k;
    const double* pb = b.data.data() + broadcast_at(at, batch_b) * k * n;
    double* out = y.data.data() + at_batch++ * m * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t q = 0; q < k; ++q)
        for (int64_t j = 0; j < n; ++j) out[i * n + j] += pa[i * k + q] * pb[q * n + j];
  });
  if (column) y.dims.pop_back();
  if (row) y.dims.erase(y.dims.end() - (column ? 1 : 2));
  return y;
}

OnnxArray turned(const OnnxArray& x) {
  OnnxArray y = made(x.type, {x.dims[1], x.dims[0]});
  for (int64_t r = 0; r < x.dims[0]; ++r)
    for (int64_t q = 0; q < x.dims[1]; ++q)
      y.data[static_cast<size_t>(q * x.dims[0] + r)] = x.data[static_cast<size_t>(r * x.dims[1] + q)];
  return y;
}

Arrays matmul(const Context& c) { return {matmul_of(c[0], c[1])}; }

Arrays gemm(const Context& c) {
  const double alpha = static_cast<double>(c.node.number("alpha", 1)),
               beta = static_cast<double>(c.node.number("beta", 1));
  OnnxArray y = matmul_of(c.node.integer("transA", 0) ? turned(c[0]) : c[0],
                          c.node.integer("transB", 0) ? turned(c[1]) : c[1]);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    double& v = y.data[k++];
    v = alpha * v + (c.has(2) ? beta * c[2].data[static_cast<size_t>(broadcast_at(at, c[2].dims))] : 0);
  });
  return {y};
}

// The sum over all letters that the result does not have, term by term.
Arrays einsum(const Context& c) {
  std::string text(c.node.text("equation", ""));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find('.') != std::string::npos)
    throw errorf("this equation is not supported here");
  std::vector<std::string> terms;
  for (size_t from = 0; from <= arrow;) {
    const size_t comma = std::min(text.find(',', from), arrow);
    terms.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  const std::string out = text.substr(arrow + 2);
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t d = 0; d < terms[t].size(); ++d) sizes[terms[t][d]] = c[t].dims.at(d);
  std::string all = out;
  for (const auto& [letter, size] : sizes)
    if (out.find(letter) == std::string::npos) all += letter;
  std::vector<int64_t> dims, result;
  for (const char letter : all) dims.push_back(sizes[letter]);
  for (const char letter : out) result.push_back(sizes[letter]);
  OnnxArray y = made(c[0].type, result);
  const auto place = [&](const std::string& term, const std::vector<int64_t>& at) {
    int64_t p = 0;
    for (const char letter : term) p = p * sizes[letter] + at[all.find(letter)];
    return static_cast<size_t>(p);
  };
  each_place(dims, [&](const std::vector<int64_t>& at) {
    double v = 1;
    for (size_t t = 0; t < terms.size(); ++t) v *= c[t].data[place(terms[t], at)];
    y.data[place(out, at)] += v;
  });
  return {y};
}

// The entry of a scale or zero point that belongs to a place.
double entry(const Context& c, size_t input, const std::vector<int64_t>& at, double fallback) {
  if (!c.has(input)) return fallback;
  const OnnxArray& v = c[input];
  if (v.size() == 1) return v.data[0];
  const int64_t axis = at_axis(c.node.integer("axis", 1), static_cast<int64_t>(at.size()));
  const int64_t block = c.node.integer("block_size", 0);
  if (block == 0) return v.data.at(static_cast<size_t>(at[static_cast<size_t>(axis)]));
  std::vector<int64_t> where = at;
  where[static_cast<size_t>(axis)] /= block;
  return v.data.at(static_cast<size_t>(broadcast_at(where, v.dims)));
}

Arrays quantize(const Context& c) {
  const OnnxType type = c.has(2) ? c[2].type : OnnxType::uint8;
  const OnnxTypeInfo& info = onnx_type_info(type);
  const double low = info.is_signed ? -std::ldexp(1.0, info.bits - 1) : 0,
               high = low + std::ldexp(1.0, info.bits) - 1;
  OnnxArray y = made(type, c[0].dims);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    // onnxruntime divides in fp32, and so do we: the rounding of halves depends on it.
    const float quotient = static_cast<float>(c[0].data[k]) / static_cast<float>(entry(c, 1, at, 1));
    y.data[k++] = std::clamp(static_cast<double>(std::nearbyint(quotient)) + entry(c, 2, at, 0), low, high);
  });
  return {y};
}

Arrays dequantize(const Context& c) {
  OnnxArray y = made(c[1].type, c[0].dims);
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    y.data[k] = (c[0].data[k] - entry(c, 2, at, 0)) * entry(c, 1, at, 1);
    ++k;
  });
  return {y};
}

}  // namespace

void add_products(Table& t) {
  t["MatMul"] = matmul;
  t["Gemm"] = gemm;
  t["Einsum"] = einsum;
  t["QuantizeLinear"] = quantize;
  t["DequantizeLinear"] = dequantize;
}

}  // namespace anemone::interpret
