// einsum of two tensors: "bhcq,bkhc->bkhq". Both are laid out as [batch, rows, inner] and [batch, inner,
// columns], multiplied, and the result is laid out as the equation says.
#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/shape.h"
#include "mil/loops.h"
#include "mil/matrix.h"
#include "mil/rules.h"

namespace anemone::ops {
namespace {

struct Equation {
  std::string inputs[2], out;
};

Equation parse(std::string_view text) {
  Equation e;
  std::string plain;
  for (const char ch : text)
    if (ch != ' ') plain += ch;
  const size_t arrow = plain.find("->"), comma = plain.find(',');
  if (arrow == std::string::npos || comma == std::string::npos || comma > arrow)
    throw errorf("the equation is not understood")
        .found(std::string(text))
        .expected("two inputs, as in 'ab,bc->ac'");
  e.inputs[0] = plain.substr(0, comma);
  e.inputs[1] = plain.substr(comma + 1, arrow - comma - 1);
  e.out = plain.substr(arrow + 2);
  for (const std::string& part : {e.inputs[0], e.inputs[1], e.out})
    for (const char ch : part)
      if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')))
        throw errorf("the equation has an unknown character '{}'", ch).found(std::string(text));
  for (size_t i = 0; i < e.out.size(); ++i) {
    if (e.out.find(e.out[i], i + 1) != std::string::npos)
      throw errorf("the result of the equation names '{}' twice", e.out[i]).found(std::string(text));
    if (e.inputs[0].find(e.out[i]) == std::string::npos && e.inputs[1].find(e.out[i]) == std::string::npos)
      throw errorf("the result of the equation names '{}', which no input has", e.out[i])
          .found(std::string(text));
  }
  return e;
}

// The size of each label; 1 stretches to the other.
std::map<char, Dim> sizes(const OpCall& c, const Equation& e) {
  if (c.count("values") != 2)
    throw errorf("einsum takes two tensors").found(fmt::format("{}", c.count("values")));
  std::map<char, Dim> out;
  for (int i = 0; i < 2; ++i) {
    const Type& t = c.type("values", i);
    const std::string& labels = e.inputs[i];
    if (t.rank() != static_cast<int>(labels.size()))
      throw errorf("the equation gives input {} {} dimensions", i, labels.size()).found(t.text());
    for (size_t k = 0; k < labels.size(); ++k) {
      const auto [it, fresh] = out.emplace(labels[k], t.shape[k]);
      if (!fresh) it->second = broadcast({it->second}, {t.shape[k]})[0];
    }
  }
  return out;
}

Types infer(const OpCall& c) {
  const Equation e = parse(c.text("equation"));
  const std::map<char, Dim> size = sizes(c, e);
  const Type& x = c.type("values", 0);
  if (x.dtype != c.type("values", 1).dtype)
    throw errorf("the inputs of einsum must have the same element type")
        .found(fmt::format("{} and {}", dtype_name(x.dtype), dtype_name(c.type("values", 1).dtype)));
  Shape out;
  for (const char label : e.out) out.push_back(size.at(label));
  return {Type::tensor(x.dtype, out)};
}

// Strides of an input along `labels`: 0 where it lacks the label or is stretched, a sum where it has it
// twice.
std::vector<int64_t> strides_along(const std::string& labels, const std::string& input,
                                   std::span<const int64_t> dims) {
  const std::vector<int64_t> dense = dense_strides(dims);
  std::vector<int64_t> out(labels.size(), 0);
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t k = 0; k < input.size(); ++k)
      if (input[k] == labels[i] && dims[k] != 1) out[i] += dense[k];
  return out;
}

struct Layout {
  std::string labels[4];  // in both and in the result; rows; columns; summed over
  std::array<int64_t, 4> count{1, 1, 1, 1};
};

Layout lay_out(const Equation& e, const std::map<char, Dim>& size) {
  Layout l;
  for (const auto& [label, dim] : size) {
    const bool x = e.inputs[0].find(label) != std::string::npos,
               y = e.inputs[1].find(label) != std::string::npos;
    const size_t kind = e.out.find(label) == std::string::npos ? 3 : x && y ? 0 : x ? 1 : 2;
    l.labels[kind] += label;
    const int64_t both[] = {l.count[kind], dim.size()};
    l.count[kind] = element_count(both);
  }
  return l;
}

// An input copied to the order of `labels`.
std::vector<uint32_t> arranged(const OpCall& c, int i, const std::string& labels, const std::string& input,
                               const std::map<char, Dim>& size) {
  std::vector<int64_t> dims;
  for (const char label : labels) dims.push_back(size.at(label).size());
  std::vector<uint32_t> out(static_cast<size_t>(element_count(dims)));
  if (!out.empty())
    copy_strided(c.pool(), c.data("values", i), 0, strides_along(labels, input, c.type("values", i).dims()),
                 dims, out.data());
  return out;
}

void run(const OpCall& c) {
  const Equation e = parse(c.text("equation"));
  const std::map<char, Dim> size = sizes(c, e);
  const Layout l = lay_out(e, size);
  const auto [batches, m, n, k] = l.count;
  if (c.out_type().size() == 0) return;
  const std::vector<uint32_t> x = arranged(c, 0, l.labels[0] + l.labels[1] + l.labels[3], e.inputs[0], size);
  const std::vector<uint32_t> y = arranged(c, 1, l.labels[0] + l.labels[3] + l.labels[2], e.inputs[1], size);
  std::vector<uint32_t> result(static_cast<size_t>(batches * m * n));
  if (c.out_type().is_float()) {
    std::vector<int64_t> ax, by;
    for (int64_t b = 0; b < batches; ++b) {
      ax.push_back(b * m * k);
      by.push_back(b * k * n);
    }
    multiply(c.pool(), {.m = m,
                        .n = n,
                        .k = k,
                        .a = {Tiles(nullptr, x.data()), 0, k, 1},
                        .b = {Tiles(nullptr, y.data()), 0, n, 1},
                        .out = reinterpret_cast<float*>(result.data()),
                        .a_offsets = std::move(ax),
                        .b_offsets = std::move(by)});
  } else {
    for (int64_t b = 0; b < batches; ++b)
      multiply_integers(m, n, k, {reinterpret_cast<const int32_t*>(x.data()) + b * m * k, k, 1},
                        {reinterpret_cast<const int32_t*>(y.data()) + b * k * n, n, 1},
                        reinterpret_cast<int32_t*>(result.data()) + b * m * n);
  }
  const std::string order = l.labels[0] + l.labels[1] + l.labels[2];
  std::vector<int64_t> dims;
  for (const char label : order) dims.push_back(size.at(label).size());
  copy_strided(c.pool(), result.data(), 0, strides_along(e.out, order, dims), c.out_type().dims(), c.out());
}

const Op kOps[] = {{"einsum",
                    {{Opset::ios15, {{"values", kNumber, 0, kMany}, {"equation", kString, 0, kConst}}}},
                    "the sum of products that the equation writes down, for two tensors",
                    infer,
                    run}};

}  // namespace

std::span<const Op> ops_einsum() { return kOps; }

}  // namespace anemone::ops
