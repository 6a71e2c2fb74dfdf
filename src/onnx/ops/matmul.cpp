// Matrix products.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "onnx/lowering.h"

namespace anemone::onnx_ops {
namespace {

// numpy.matmul: a vector is a row on the left and a column on the right, and the extra dimension goes away again.
Value* numpy_matmul(OnnxCall& n, Value* a, Value* b) {
  const bool row = a->type.rank() == 1, column = b->type.rank() == 1;
  if (row) a = n.expand(a, {0});
  if (column) b = n.expand(b, {1});
  Value* y = n.matmul(a, b);
  if (row && column) return n.squeeze(y, {y->type.rank() - 2, y->type.rank() - 1});
  if (row) return n.squeeze(y, {y->type.rank() - 2});
  if (column) return n.squeeze(y, {y->type.rank() - 1});
  return y;
}

// A constant matrix [in, out] behind an activation: `linear` with the transposed weight, which Core ML runs best.
bool is_weight(const Value* v) { return v->constant() && v->type.rank() == 2; }

void matmul(OnnxCall& n) {
  Value *a = n.in(0), *b = n.in(1);
  if (a->type.is_float() && !a->constant() && is_weight(b) && a->type.rank() >= 2) {
    Value* weight = n.transpose(b, {1, 0});
    if (weight->constant()) return n.out(n.op("linear", {{"x", a}, {"weight", weight}}));
  }
  n.out(numpy_matmul(n, a, b));
}

std::vector<int64_t> swapped_last(int rank) {
  std::vector<int64_t> perm;
  for (int d = 0; d < rank; ++d) perm.push_back(d);
  if (rank >= 2) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return perm;
}

void fused_matmul(OnnxCall& n) {
  Value *a = n.in(0), *b = n.in(1);
  if (n.node.integer("transBatchA", 0) || n.node.integer("transBatchB", 0))
    throw n.refused("FusedMatMul with transBatchA or transBatchB");
  if (n.node.integer("transA", 0)) a = n.transpose(a, swapped_last(a->type.rank()));
  if (n.node.integer("transB", 0)) b = n.transpose(b, swapped_last(b->type.rank()));
  Value* y = numpy_matmul(n, a, b);
  const float alpha = n.node.number("alpha", 1);
  n.out(alpha == 1 ? y : n.mul(y, n.f(alpha)));
}

void gemm(OnnxCall& n) {
  Value *a = n.in(0), *b = n.in(1);
  const DType dtype = a->type.dtype;
  const bool ta = n.node.integer("transA", 0) != 0, tb = n.node.integer("transB", 0) != 0;
  const float alpha = n.node.number("alpha", 1), beta = n.node.number("beta", 1);
  Value* c = n.maybe(2);
  if (dtype == DType::fp32 && is_weight(b) && !a->constant()) {
    Value* x = ta ? n.transpose(a, {1, 0}) : a;
    Value* weight = tb ? b : n.transpose(b, {1, 0});
    if (alpha != 1) weight = n.mul(weight, n.f(alpha));
    if (c && beta != 1) c = n.mul(c, n.f(beta));
    const int64_t outs = n.dims(weight).at(0);
    Value* bias = nullptr;
    if (c && c->constant() && c->type.fixed()) {
      const std::vector<int64_t> have = c->type.dims();
      const bool vector = have == std::vector<int64_t>{outs} || have == std::vector<int64_t>{1, outs};
      if (vector) bias = n.reshape(c, {outs});
    }
    Value* y = n.op("linear", {{"x", x}, {"weight", weight}, {"bias", bias}});
    return n.out(c && !bias ? n.add(y, c) : y);
  }
  Value* y = n.matmul(a, b, ta, tb);
  if (alpha != 1) y = n.mul(y, n.one(dtype, alpha));
  if (c) y = n.add(y, beta == 1 ? c : n.mul(c, n.one(dtype, beta)));
  n.out(y);
}

// Letters of an equation, with "..." as capital letters that stand for the dimensions that it covers.
struct Equation {
  std::vector<std::string> terms;
  std::string out;
};

Equation parse_equation(OnnxCall& n, std::string text) {
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation e;
  for (size_t from = 0; from <= left.size();) {
    const size_t comma = std::min(left.find(',', from), left.size());
    e.terms.push_back(left.substr(from, comma - from));
    from = comma + 1;
  }
  if (e.terms.size() != n.count())
    throw errorf("the equation '{}' is for {} inputs", onnx_printable(text), e.terms.size());
  size_t widest = 0;
  std::vector<size_t> covered(e.terms.size(), 0);
  for (size_t k = 0; k < e.terms.size(); ++k)
    if (e.terms[k].find("...") != std::string::npos) {
      covered[k] = static_cast<size_t>(n.in(k)->type.rank()) - (e.terms[k].size() - 3);
      widest = std::max(widest, covered[k]);
    }
  const auto dots = [&](size_t count) {
    std::string letters;
    for (size_t k = 0; k < count; ++k) letters += static_cast<char>('A' + widest - count + k);
    return letters;
  };
  for (size_t k = 0; k < e.terms.size(); ++k)
    if (const size_t at = e.terms[k].find("..."); at != std::string::npos)
      e.terms[k].replace(at, 3, dots(covered[k]));
  if (arrow != std::string::npos) {
    e.out = text.substr(arrow + 2);
    if (const size_t at = e.out.find("..."); at != std::string::npos) e.out.replace(at, 3, dots(widest));
    return e;
  }
  // Without "->": the letters that occur once, in order.
  std::map<char, int> seen;
  for (const std::string& term : e.terms)
    for (const char c : term) ++seen[c];
  for (const auto& [c, count] : seen)
    if (count == 1 || c < 'a') e.out += c;
  return e;
}

// A term's repeated letters become its diagonal.
Value* diagonal(OnnxCall& n, Value* x, std::string& term) {
  for (size_t a = 0; a < term.size(); ++a)
    for (size_t b = a + 1; b < term.size(); ++b) {
      if (term[a] != term[b]) continue;
      std::vector<int64_t> dims = n.dims(x), perm;
      for (size_t d = 0; d < term.size(); ++d)
        if (d != a && d != b) perm.push_back(static_cast<int64_t>(d));
      perm.push_back(static_cast<int64_t>(a));
      perm.push_back(static_cast<int64_t>(b));
      const int64_t size = dims[a];
      std::vector<float> eye(static_cast<size_t>(size * size));
      for (int64_t k = 0; k < size; ++k) eye[static_cast<size_t>(k * size + k)] = 1;
      Value* mask = n.cast(n.float_values(eye, {size, size}), x->type.dtype);
      x = n.reduce("sum", n.mul(n.transpose(x, perm), mask), {static_cast<int64_t>(term.size()) - 1}, false);
      std::string rest;
      for (size_t d = 0; d < term.size(); ++d)
        if (d != a && d != b) rest += term[d];
      term = rest + term[a];
      return diagonal(n, x, term);
    }
  return x;
}

// Two terms: letters of both and of the result are a batch, letters of both alone are summed up, and the rest is rows
// and columns of a matrix product.
Value* product(OnnxCall& n, const Equation& e, Value* a, Value* b) {
  const std::string &ta = e.terms[0], &tb = e.terms[1];
  const auto has = [](const std::string& t, char c) { return t.find(c) != std::string::npos; };
  std::string batch, rows, columns, summed;
  for (const char c : ta) (has(tb, c) ? (has(e.out, c) ? batch : summed) : rows) += c;
  for (const char c : tb)
    if (!has(ta, c)) columns += c;
  for (const char c : rows + columns)
    if (!has(e.out, c)) return nullptr;
  std::map<char, int64_t> sizes;
  const std::vector<int64_t> da = n.dims(a), db = n.dims(b);
  for (size_t k = 0; k < ta.size(); ++k) sizes[ta[k]] = da[k];
  for (size_t k = 0; k < tb.size(); ++k) {
    if (sizes.contains(tb[k]) && sizes[tb[k]] != db[k]) return nullptr;
    sizes[tb[k]] = db[k];
  }
  const auto count = [&](const std::string& letters) {
    int64_t all = 1;
    for (const char c : letters) all *= sizes[c];
    return all;
  };
  const auto laid = [&](Value* v, const std::string& term, const std::string& first,
                        const std::string& last) {
    std::vector<int64_t> perm;
    for (const char c : batch + first + last) perm.push_back(static_cast<int64_t>(term.find(c)));
    return n.reshape(n.transpose(v, perm), {count(batch), count(first), count(last)});
  };
  Value* y = n.matmul(laid(a, ta, rows, summed), laid(b, tb, summed, columns));
  const std::string order = batch + rows + columns;
  std::vector<int64_t> dims, perm;
  for (const char c : order) dims.push_back(sizes[c]);
  for (const char c : e.out) perm.push_back(static_cast<int64_t>(order.find(c)));
  return n.transpose(n.reshape(y, dims), perm);
}

// All terms are laid out over all letters; the product is summed over those that the result does not have.
void einsum(OnnxCall& n) {
  Equation e = parse_equation(n, std::string(n.node.text("equation", "")));
  std::vector<Value*> values;
  for (size_t k = 0; k < e.terms.size(); ++k) values.push_back(diagonal(n, n.in(k), e.terms[k]));
  if (values.size() == 2 && !e.out.empty())
    if (Value* y = product(n, e, values[0], values[1])) return n.out(y);
  std::string summed;
  for (const std::string& term : e.terms)
    for (const char c : term)
      if (e.out.find(c) == std::string::npos && summed.find(c) == std::string::npos) summed += c;
  const std::string all = e.out + summed;
  if (all.size() > 5) throw n.refused("an equation with more than 5 letters");
  const auto laid_out = [&](size_t k) {
    std::vector<int64_t> perm, dims;
    const std::vector<int64_t> have = n.dims(values[k]);
    for (const char c : all)
      if (const size_t at = e.terms[k].find(c); at != std::string::npos)
        perm.push_back(static_cast<int64_t>(at));
    Value* x = n.transpose(values[k], perm);
    for (const char c : all) {
      const size_t at = e.terms[k].find(c);
      dims.push_back(at == std::string::npos ? 1 : have[at]);
    }
    return n.reshape(x, dims);
  };
  Value* y = laid_out(0);
  for (size_t k = 1; k < values.size(); ++k) y = n.mul(y, laid_out(k));
  std::vector<int64_t> axes;
  for (size_t d = e.out.size(); d < all.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  n.out(n.reduce("sum", y, axes, false));
}

const OnnxOp kOps[] = {
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Einsum", einsum},
    {"FusedMatMul", fused_matmul, "com.microsoft"},
};

}  // namespace

std::span<const OnnxOp> onnx_matmul() { return kOps; }

}  // namespace anemone::onnx_ops
