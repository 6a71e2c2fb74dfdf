// PlacedFunction: a function as Core ML would lay it over the devices: for every operation who takes it, what it is
// thought to cost there, where it goes; the segments; what would be different.
//     PlacedFunction placed = place_function(function, *find_target("m4").chip);
//     fmt::print("{} of {} on the ANE", placed.ane_ops, placed.ops.size());
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "placement/cost.h"
#include "placement/segment.h"

namespace anemone::placement {

struct PlacedOp {
  const Operation* op = nullptr;
  OpCost cost;
  Processor chosen =
      Processor::classic_cpu;  // on the cheapest path; an assumption where the device is unknown
  int segment = 0;

  Device device() const;
  bool on_ane() const { return device() == Device::ane; }
  bool unknown() const { return device() == Device::unknown; }
};

// Neighbours on one side of the cheapest path.
struct Segment {
  bool ane = false;
  size_t first = 0, last = 0;  // operations [first, last)
  double ms = 0;
  size_t unknown = 0;  // operations among them that may be elsewhere
};

struct PlacedFunction {
  std::vector<PlacedOp> ops;  // those that are placed: no const, no constexpr
  std::vector<Segment> segments;
  int switches = 0;  // changes of device, the way in and the way out included
  double ms = 0;     // estimated, with switches
  // Of the operations alone, by device.
  double ane_ms = 0, cpu_ms = 0, unknown_ms = 0;
  size_t ane_ops = 0, cpu_ops = 0, unknown_ops = 0;
  size_t extrapolated = 0;

  // The engine's part of the estimated time of the operations whose device is known.
  double ane_share() const { return ane_ms + cpu_ms > 0 ? ane_ms / (ane_ms + cpu_ms) : 0; }
  // The cheapest path goes through the engine.
  bool uses_ane() const;
  const PlacedOp* find(std::string_view name) const;
};

PlacedFunction place_function(const Function& function, const Chip& chip);

// How many more milliseconds the whole would take with that operation on the other device; empty when the other
// device refuses it.
std::optional<double> price_of_moving(const PlacedFunction& placed, size_t op);
// How many milliseconds of savings are missing before any operation goes to the engine; empty when the path goes
// there already, or when it cannot.
std::optional<double> missing_savings(const PlacedFunction& placed);
// The same function if the engine refuses these operations too.
PlacedFunction if_refused(const PlacedFunction& placed, const std::function<bool(const PlacedOp&)>& refused);

// Gives the inputs these shapes and infers the types behind them again; sizes that stay unknown stay so.
void fix_shapes(Function& function, const std::map<std::string, std::vector<int64_t>>& inputs);

}  // namespace anemone::placement
