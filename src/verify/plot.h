// A line plot as SVG, over layers, with a logarithmic axis: small enough to be read on a phone.
//     Plot plot{.title = "Error", .axis = "relative error"};
//     plot.lines.push_back({"stream", "a", false, values});
//     std::string svg = plot.svg();
// Colours are classes (a, b, c, limit) that the page defines for light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anemone {

struct PlotLine {
  std::string name;
  std::string style;  // class of the colour
  bool dashed = false;
  std::vector<double> values;  // by layer; not finite: a gap
};

struct PlotLimit {
  std::string name;
  double value = 0;
};

struct Plot {
  std::string title, axis;
  int64_t first_layer = 0;
  std::vector<PlotLine> lines = {};
  std::vector<PlotLimit> limits = {};

  std::string svg() const;
};

}  // namespace anemone
