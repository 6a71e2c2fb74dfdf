// Matrix products.
#include <algorithm>

#include "onnx/interpret/context.h"

namespace anemone::interpret {

OnnxArray matmul_of(OnnxArray a, OnnxArray b) {
  if (a.rank() == 0 || b.rank() == 0) throw errorf("a scalar is no matrix");
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

namespace {

OnnxArray turned(const OnnxArray& x) {
  if (x.rank() != 2) throw errorf("a matrix is needed").found(shape_text(x.dims));
  OnnxArray y = made(x.type, {x.dims[1], x.dims[0]});
  for (int64_t r = 0; r < x.dims[0]; ++r)
    for (int64_t q = 0; q < x.dims[1]; ++q)
      y.data[static_cast<size_t>(q * x.dims[0] + r)] = x.data[static_cast<size_t>(r * x.dims[1] + q)];
  return y;
}

Arrays matmul(const Context& c) { return {matmul_of(c[0], c[1])}; }

// com.microsoft: a product of factors whose last two dimensions may be swapped, times a number.
Arrays fused_matmul(const Context& c) {
  if (c.node.integer("transBatchA", 0) || c.node.integer("transBatchB", 0))
    throw errorf("FusedMatMul with transBatchA or transBatchB is not supported here");
  const auto swapped = [](const OnnxArray& x, bool swap) {
    if (!swap || x.rank() < 2) return x;
    const int64_t rows = x.dims[x.dims.size() - 2], columns = x.dims.back();
    OnnxArray y = x;
    std::swap(y.dims[y.dims.size() - 2], y.dims.back());
    for (int64_t k = 0; k < x.size(); ++k) {
      const int64_t matrix = k / (rows * columns), row = k / columns % rows, column = k % columns;
      y.data[static_cast<size_t>((matrix * columns + column) * rows + row)] = x.data[static_cast<size_t>(k)];
    }
    return y;
  };
  OnnxArray y = matmul_of(swapped(c[0], c.node.integer("transA", 0) != 0),
                          swapped(c[1], c.node.integer("transB", 0) != 0));
  for (double& v : y.data) v *= static_cast<double>(c.node.number("alpha", 1));
  return {y};
}

Arrays gemm(const Context& c) {
  const double alpha = static_cast<double>(c.node.number("alpha", 1)),
               beta = static_cast<double>(c.node.number("beta", 1));
  OnnxArray y = matmul_of(c.node.integer("transA", 0) ? turned(c[0]) : c[0],
                          c.node.integer("transB", 0) ? turned(c[1]) : c[1]);
  if (c.has(2) && broadcast_dims(y.dims, c[2].dims) != y.dims)
    throw errorf("{} does not fit {}", shape_text(c[2].dims), shape_text(y.dims));
  size_t k = 0;
  each_place(y.dims, [&](const std::vector<int64_t>& at) {
    double& v = y.data[k++];
    v = alpha * v + (c.has(2) ? beta * c[2].data[static_cast<size_t>(broadcast_at(at, c[2].dims))] : 0);
  });
  return {y};
}

struct Equation {
  std::vector<std::string> terms;
  std::string out;
};

// "..." stands for capital letters here, aligned at the right.
Equation parse_equation(const Context& c) {
  std::string text(c.node.text("equation", ""));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation e;
  for (size_t from = 0; from <= left.size();) {
    const size_t comma = std::min(left.find(',', from), left.size());
    e.terms.push_back(left.substr(from, comma - from));
    from = comma + 1;
  }
  if (e.terms.size() != c.in.size())
    throw errorf("the equation '{}' is for {} inputs", onnx_printable(text), e.terms.size());
  std::string widest;
  const auto fill = [&](std::string& term, size_t count) {
    const size_t at = term.find("...");
    if (at == std::string::npos) return;
    std::string letters;
    for (size_t k = 0; k < count; ++k) letters.insert(letters.begin(), static_cast<char>('Z' - k));
    term.replace(at, 3, letters);
    if (letters.size() > widest.size()) widest = letters;
  };
  for (size_t k = 0; k < e.terms.size(); ++k) {
    const size_t named = e.terms[k].size() - (e.terms[k].find("...") == std::string::npos ? 0 : 3);
    if (named > c[k].dims.size() || c[k].dims.size() - named > 20)
      throw errorf("'{}' does not fit {}", onnx_printable(e.terms[k]), shape_text(c[k].dims));
    fill(e.terms[k], c[k].dims.size() - named);
    if (e.terms[k].size() != c[k].dims.size())
      throw errorf("'{}' does not fit {}", onnx_printable(e.terms[k]), shape_text(c[k].dims));
  }
  if (arrow != std::string::npos) {
    e.out = text.substr(arrow + 2);
    fill(e.out, widest.size());
    return e;
  }
  // Without "->": what "..." stands for, then the letters that occur once, in order.
  std::map<char, int> seen;
  for (const std::string& term : e.terms)
    for (const char letter : term) ++seen[letter];
  e.out = widest;
  for (const auto& [letter, count] : seen)
    if (count == 1 && widest.find(letter) == std::string::npos) e.out += letter;
  return e;
}

// The sum over all letters that the result does not have, term by term.
Arrays einsum(const Context& c) {
  const Equation equation = parse_equation(c);
  const std::vector<std::string>& terms = equation.terms;
  const std::string& out = equation.out;
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); ++t)
    for (size_t d = 0; d < terms[t].size(); ++d) {
      int64_t& size = sizes.try_emplace(terms[t][d], 1).first->second;
      if (size != 1 && c[t].dims[d] != 1 && size != c[t].dims[d])
        throw errorf("a letter of the equation stands for {} and for {}", size, c[t].dims[d]);
      size = std::max(size, c[t].dims[d]);
    }
  for (const char letter : out)
    if (!sizes.contains(letter)) throw errorf("the result has a letter that no input has");
  std::string all = out;
  for (const auto& [letter, size] : sizes)
    if (out.find(letter) == std::string::npos) all += letter;
  std::vector<int64_t> dims, result;
  for (const char letter : all) dims.push_back(sizes[letter]);
  for (const char letter : out) result.push_back(sizes[letter]);
  // However small the inputs and the result are, the sum can be endless.
  double count = 1;
  for (const int64_t size : dims) count *= static_cast<double>(size);
  if (count > 4096.0 * static_cast<double>(most_elements()))
    throw errorf("the sum would have {:.0f} terms", count);
  OnnxArray y = made(c[0].type, result);
  const auto place = [&](const std::string& term, const std::vector<int64_t>& shape,
                         const std::vector<int64_t>& at) {
    int64_t p = 0;
    for (size_t d = 0; d < term.size(); ++d) p = p * shape[d] + (shape[d] == 1 ? 0 : at[all.find(term[d])]);
    return static_cast<size_t>(p);
  };
  each_place(dims, [&](const std::vector<int64_t>& at) {
    double v = 1;
    for (size_t t = 0; t < terms.size(); ++t) v *= c[t].data[place(terms[t], c[t].dims, at)];
    y.data[place(out, result, at)] += v;
  });
  return {y};
}

}  // namespace

void add_products(Table& t) {
  t["MatMul"] = matmul;
  t["Gemm"] = gemm;
  t["Einsum"] = einsum;
  t.microsoft("FusedMatMul") = fused_matmul;
}

}  // namespace anemone::interpret
