#include "verify/plot.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "page/page.h"

namespace anemone {
namespace {

constexpr double kWidth = 430, kHeight = 270, kLeft = 46, kRight = 12, kTop = 12, kBottom = 36;

// Whole powers of ten around the values.
struct LogAxis {
  int low = 0, high = 1;

  double y(double value) const {
    const double at = (std::log10(value) - low) / (high - low);
    return kHeight - kBottom - std::clamp(at, 0.0, 1.0) * (kHeight - kTop - kBottom);
  }
};

std::string power(int exponent) {
  if (exponent >= 0 && exponent <= 5) return fmt::format("{:.0f}", std::pow(10, exponent));
  if (exponent < 0 && exponent >= -3) return fmt::format("{:g}", std::pow(10, exponent));
  return fmt::format("1e{}", exponent);
}

bool drawn(double value) { return std::isfinite(value) && value > 0; }

LogAxis axis_for(const Plot& plot) {
  double low = INFINITY, high = 0;
  const auto take = [&](double v) {
    if (!drawn(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  };
  for (const PlotLine& line : plot.lines)
    for (const double v : line.values) take(v);
  for (const PlotLimit& limit : plot.limits) take(limit.value);
  if (!(high > 0)) return {};
  LogAxis axis{static_cast<int>(std::floor(std::log10(low))),
               static_cast<int>(std::ceil(std::log10(high) + 1e-9))};
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  return axis;
}

}  // namespace

std::string Plot::svg() const {
  size_t count = 0;
  for (const PlotLine& line : lines) count = std::max(count, line.values.size());
  const LogAxis scale = axis_for(*this);
  const auto x = [&](size_t i) {
    const double span = kWidth - kLeft - kRight;
    return kLeft + (count > 1 ? span * static_cast<double>(i) / static_cast<double>(count - 1) : span / 2);
  };
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                                kHeight, html_escaped(title));
  const int step = std::max(1, (scale.high - scale.low + 5) / 6);
  for (int e = scale.low; e <= scale.high; e += step) {
    const double y = scale.y(std::pow(10, e));
    out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                       kWidth - kRight, y, y);
    out += fmt::format("<text class=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLeft - 6, y + 4, power(e));
  }
  const size_t every = std::max<size_t>(1, (count + 9) / 10);
  for (size_t i = 0; i < count; i += every)
    out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>", x(i), kHeight - kBottom + 16,
                       first_layer + static_cast<int64_t>(i));
  out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">layer</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 4);
  for (const PlotLimit& limit : limits) {
    const double y = scale.y(limit.value);
    out += fmt::format(
        "<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"><title>{}: {:g}</title>"
        "</line>\n",
        kLeft, kWidth - kRight, y, y, html_escaped(limit.name), limit.value);
  }
  for (const PlotLine& line : lines) {
    std::string path;
    bool pen = false;
    for (size_t i = 0; i < line.values.size(); ++i) {
      if (!drawn(line.values[i])) {
        pen = false;
        continue;
      }
      path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", x(i), scale.y(line.values[i]));
      pen = true;
    }
    out += fmt::format("<path class=\"{}{}\" d=\"{}\"/>\n", line.style, line.dashed ? " dashed" : "", path);
    if (line.dashed) continue;
    for (size_t i = 0; i < line.values.size(); ++i)
      if (drawn(line.values[i]))
        out += fmt::format(
            "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>layer {}, {}: {:.4g}"
            "</title></circle>",
            line.style, x(i), scale.y(line.values[i]), first_layer + static_cast<int64_t>(i),
            html_escaped(line.name), line.values[i]);
    out += "\n";
  }
  return out + "</svg>\n";
}

}  // namespace anemone
