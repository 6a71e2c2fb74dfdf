// A line plot as SVG: small enough to be read on a phone.
//     Plot plot{.title = "Error", .axis = "relative error", .across = "layer", .ticks = {"0", "1", "2"}};
//     plot.lines.push_back({"stream", "a", false, values});
//     std::string svg = plot.svg();
// Colours are classes (a, b, c, limit) that the stylesheet defines for light and dark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anemone {

struct PlotLine {
  std::string name;
  std::string style;  // class of the colour
  bool dashed = false;
  std::vector<double> values;  // one a tick; not finite: a gap
};

struct PlotLimit {
  std::string name;
  double value = 0;
};

struct Plot {
  std::string title, axis;              // axis: what the values are
  std::string across = "layer";         // what the ticks are
  std::vector<std::string> ticks = {};  // below the plot, from left to right
  std::vector<double> places = {};      // where they stand, ascending; empty: evenly
  bool logarithmic = true;              // else from zero on
  std::vector<PlotLine> lines = {};
  std::vector<PlotLimit> limits = {};

  std::string svg() const;
  // In a frame, with its title; `keys` (HTML) explains the colours.
  std::string figure(const std::string& keys) const;
};

// One entry of the keys of a figure.
std::string plot_key(const std::string& style, const std::string& name);

}  // namespace anemone
