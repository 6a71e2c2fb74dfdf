// The inputs that docs/bundle.md lets a host fill, made by its table of roles from bundle.json and the tables alone.
//     DocPass pass{.info = info, .tables = tables, .ids = ids, .position = 1, .width = 4};
//     Array mask = pass.make(port, {1, 1, 4, 16});
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "anemone/array.h"
#include "base/half.h"

namespace anemone::test {

// What the columns behind the last token hold: the page lets them be any of these.
enum class DocPadding { zeros, repeated, rubbish };

inline void put_half(Array& a, int64_t at, double value) {
  const uint16_t bits = half_from_float(static_cast<float>(value));
  std::memcpy(a.bytes().data() + at * 2, &bits, 2);
}

struct DocPass {
  using Json = nlohmann::json;

  const Json& info;
  const std::map<std::string, std::string>& tables;  // "tokens" → the bytes of its file
  std::span<const int32_t> ids;
  int64_t position = 0, width = 1;
  DocPadding padding = DocPadding::zeros;
  std::string pooling = "mean";

  int64_t count() const { return static_cast<int64_t>(ids.size()); }
  int64_t last() const { return count() - 1; }

  Array make(const Json& port, const std::vector<int64_t>& shape) const {
    const std::string role = port["role"];
    if (role == "position") return Array::from<int32_t>({1}, {static_cast<int32_t>(position)});
    Array a(DType::fp16, shape);
    if (role == "stream") fill_stream(a);
    if (role == "cos" || role == "sin")
      fill_rope(a, info["ropes"][port["rope"].get<size_t>()], role == "cos");
    if (role == "mask") fill_mask(a, info["masks"][port["mask"].get<size_t>()]);
    for (int64_t t = 0; role == "write" && t < count(); ++t) put_half(a, (position + t) * width + t, 1);
    for (int64_t r = 0; role == "advance" && r < shape[2]; ++r) put_half(a, r * shape[3] + r + count(), 1);
    for (int64_t t = 0; role == "pool" && t < count(); ++t)
      put_half(a, t, pooling == "mean" ? 1.0 / static_cast<double>(count()) : t == 0 ? 1 : 0);
    return a;
  }

 private:
  double table(const std::string& name, int64_t row, int64_t column) const {
    uint16_t bits;
    const int64_t hidden = info["model"]["hidden"];
    std::memcpy(&bits, tables.at(name).data() + (row * hidden + column) * 2, 2);
    return half_to_float(bits);
  }

  void fill_stream(Array& a) const {
    const Json& e = info["embedding"];
    const double scale = e["scale"], stream = info["choices"]["residual_scale"];
    for (int64_t t = 0; t < width; ++t)
      for (int64_t c = 0; c < a.shape()[1]; ++c) {
        const bool real = t < count();
        double value = std::sin(static_cast<double>(c * 7 + t));  // rubbish
        if (!real && padding == DocPadding::zeros) value = 0;
        if (const int64_t at = std::min(t, last()); real || padding == DocPadding::repeated) {
          value = table("tokens", ids[static_cast<size_t>(at)], c) * scale;
          if (e.contains("positions"))
            value += table("positions", position + at + e["positions"]["first"].get<int64_t>(), c) * stream;
          if (e.contains("types")) value += table("types", 0, c) * stream;
        }
        put_half(a, c * width + t, value);
      }
  }

  void fill_rope(Array& a, const Json& rope, bool cosine) const {
    const auto f = rope["frequencies"].get<std::vector<double>>();
    const auto pairs = static_cast<int64_t>(f.size());
    const double factor = rope["attention_factor"];
    for (int64_t t = 0; t < width; ++t)
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t at = padding == DocPadding::repeated ? std::min(t, last()) : t;
        const double angle = static_cast<double>(position + at) * f[static_cast<size_t>(i)];
        const bool rubbish = t >= count() && padding == DocPadding::rubbish;
        put_half(a, t * pairs + i, rubbish ? 0.25 : (cosine ? std::cos(angle) : std::sin(angle)) * factor);
      }
  }

  void fill_mask(Array& a, const Json& mask) const {
    const std::string reach = mask["reach"];
    const int64_t rows = a.shape()[2], columns = a.shape()[3], size = mask.value("size", int64_t{0});
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t i = position + std::min(t, last());
        bool seen = reach == "causal"   ? j <= i
                    : reach == "window" ? j <= i && i - j < size
                    : reach == "full"   ? j < count()
                                        : j < count() && std::abs(i - j) <= size;
        if (t >= count() && padding == DocPadding::rubbish) seen = j == 0;
        if (!seen) put_half(a, t * columns + j, -10000);
      }
  }
};

}  // namespace anemone::test
