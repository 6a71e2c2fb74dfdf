#include "page/plot.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "page/page.h"

namespace anemone {
namespace {

constexpr double kWidth = 430, kHeight = 270, kLeft = 46, kRight = 16, kTop = 12, kBottom = 36;
constexpr double kTickRoom = 34;  // of a label below the plot

// The least and the most that is drawn, and the lines between them.
struct Axis {
  bool logarithmic = true;
  double low = 0, high = 1;  // of logarithms where they are drawn
  double step = 1;

  double y(double value) const {
    const double at = ((logarithmic ? std::log10(value) : value) - low) / (high - low);
    return kHeight - kBottom - std::clamp(at, 0.0, 1.0) * (kHeight - kTop - kBottom);
  }
  std::string text(double mark) const {
    if (!logarithmic) return fmt::format("{:g}", mark);
    const int exponent = static_cast<int>(mark);
    if (exponent >= 0 && exponent <= 5) return fmt::format("{:.0f}", std::pow(10, exponent));
    if (exponent < 0 && exponent >= -3) return fmt::format("{:g}", std::pow(10, exponent));
    return fmt::format("1e{}", exponent);
  }
};

// The values that can be drawn.
class Range {
 public:
  explicit Range(const Plot& plot) : logarithmic_(plot.logarithmic) {
    for (const PlotLine& line : plot.lines)
      for (const double v : line.values) take(v);
    for (const PlotLimit& limit : plot.limits) take(limit.value);
  }
  Axis axis() const {
    if (!(high_ > 0)) return {.logarithmic = logarithmic_};
    if (!logarithmic_) {
      const double rough = high_ / 5, power = std::pow(10, std::floor(std::log10(rough)));
      const double step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
      return {.logarithmic = false, .low = 0, .high = step * std::ceil(high_ / step - 1e-9), .step = step};
    }
    Axis out{.low = std::floor(std::log10(low_)), .high = std::ceil(std::log10(high_) + 1e-9)};
    if (out.high <= out.low) out.high = out.low + 1;
    out.step = std::max(1.0, std::floor((out.high - out.low + 5) / 6));
    return out;
  }
  bool drawn(double value) const {
    return std::isfinite(value) && (value > 0 || (!logarithmic_ && value == 0));
  }

 private:
  void take(double v) {
    if (!drawn(v)) return;
    low_ = std::min(low_, v);
    high_ = std::max(high_, v);
  }

  bool logarithmic_;
  double low_ = INFINITY, high_ = 0;
};

std::string grid(const Axis& axis) {
  std::string out;
  for (double mark = axis.low; mark <= axis.high + axis.step / 1000; mark += axis.step) {
    const double y = axis.y(axis.logarithmic ? std::pow(10, mark) : mark);
    out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                       kWidth - kRight, y, y);
    out += fmt::format("<text class=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLeft - 6, y + 4,
                       axis.text(mark));
  }
  return out;
}

}  // namespace

std::string Plot::svg() const {
  const Range range(*this);
  const Axis scale = range.axis();
  const double span = kWidth - kLeft - kRight, all = places.empty() ? 0 : places.back() - places.front();
  const auto x = [&](size_t i) {
    if (ticks.size() < 2) return kLeft + span / 2;
    return kLeft + (all > 0 ? span * (places[i] - places.front()) / all
                            : span * static_cast<double>(i) / static_cast<double>(ticks.size() - 1));
  };
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                                kHeight, html_escaped(title));
  out += grid(scale);
  double free = -kWidth;  // where the next label has room
  for (size_t i = 0; i < ticks.size(); ++i) {
    if (x(i) < free) continue;
    free = x(i) + kTickRoom;
    out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>", x(i), kHeight - kBottom + 16,
                       html_escaped(ticks[i]));
  }
  out += fmt::format("<text class=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 4, html_escaped(across));
  for (const PlotLimit& limit : limits) {
    const double y = scale.y(limit.value);
    out += fmt::format(
        "<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"><title>{}: {:.4g}</title>"
        "</line>\n",
        kLeft, kWidth - kRight, y, y, html_escaped(limit.name), limit.value);
  }
  for (const PlotLine& line : lines) {
    std::string path, points;
    bool pen = false;
    for (size_t i = 0; i < std::min(line.values.size(), ticks.size()); ++i) {
      if (!range.drawn(line.values[i])) {
        pen = false;
        continue;
      }
      const double y = scale.y(line.values[i]);
      path += fmt::format("{}{:.1f} {:.1f}", pen ? "L" : "M", x(i), y);
      pen = true;
      if (!line.dashed)
        points += fmt::format(
            "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{} {}, {}: {:.4g}"
            "</title></circle>",
            line.style, x(i), y, html_escaped(across), html_escaped(ticks[i]), html_escaped(line.name),
            line.values[i]);
    }
    out += fmt::format("<path class=\"{}{}\" d=\"{}\"/>\n{}\n", line.style, line.dashed ? " dashed" : "",
                       path, points);
  }
  return out + "</svg>\n";
}

std::string Plot::figure(const std::string& keys) const {
  return fmt::format(
      "<figure><figcaption>{}</figcaption><div class=\"axis\">{}</div>\n{}<div class=\"lines\">{}</div>"
      "</figure>\n",
      html_escaped(title), html_escaped(axis), svg(), keys);
}

std::string plot_key(const std::string& style, const std::string& name) {
  return fmt::format("<span class=\"{}\"><i></i>{}</span>", style, html_escaped(name));
}

}  // namespace anemone
