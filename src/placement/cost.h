// Cost: what Core ML's segmenter would think of one operation: which processors take it, and its estimate in ms
// on each. Nothing is timed: the estimates are formulas over shapes, and only they decide the placement.
//     OpCost c = estimate(op, *find_target("m4").chip);
//     c[Processor::ane].ms;                           // 0.0047
//     c[Processor::ane].why;                          // the refusal, where it is not offered
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "mil/program.h"
#include "target/chips.h"

namespace anemone::placement {

// Who may compute an operation, as the segmenter sees it: the engine, or one of the CPU's two libraries.
enum class Processor : uint8_t { ane, classic_cpu, bnns };
inline constexpr std::array kProcessors = {Processor::ane, Processor::classic_cpu, Processor::bnns};
std::string_view processor_name(Processor processor);

// What users meet: the engine, the CPU whichever library it runs, or that nobody knows.
enum class Device : uint8_t { ane, cpu, unknown };
Device device_of(Processor processor);
std::string_view device_text(Device device);  // "ANE", "CPU", "unknown (not probed)"

struct Offer {
  bool supported = false;
  double ms = 0;
  std::string why;        // of a refusal
  std::string_view rule;  // of a refusal: "D02"
};

struct OpCost {
  std::array<Offer, 3> offers;  // by Processor
  std::string formula;          // in words: "conv tree, slow leaf: 0.8 flop/byte"
  bool probed = true;           // somebody saw where Core ML puts this kind of operation
  std::string extrapolated;     // why the estimate lies outside what was probed; empty when it does not

  const Offer& operator[](Processor p) const { return offers[static_cast<size_t>(p)]; }
  Offer& operator[](Processor p) { return offers[static_cast<size_t>(p)]; }
  // On the cheaper of the CPU's two libraries.
  double cpu_ms() const;
};

// Not for const and constexpr operations: they are data and go nowhere.
OpCost estimate(const Operation& op, const Chip& chip);

}  // namespace anemone::placement
