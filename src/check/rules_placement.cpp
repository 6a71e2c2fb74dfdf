// P: how Core ML places operations.
#include <algorithm>

#include "base/error.h"
#include "check/rule.h"

namespace anemone {
namespace {

constexpr double kGoodShare = 0.92;

// Operations that the engine takes and that stay on the CPU because moving them pays too little. Where nothing goes to
// the engine in a model that is small as a whole, that is its size and no fault (Z03).
void uneconomic(const FunctionSubject& s, Findings& out) {
  if (const auto missing = placement::missing_savings(s.placed)) {
    if (!small_model(s.package))
      out.add(Level::error,
              fmt::format("everything goes to the CPU: {:.3f} ms more must be saved before the engine pays",
                          *missing));
    return;
  }
  size_t left = 0;
  for (const auto& op : s.placed.ops)
    left += s.placed.ane_ops > 0 && op.device() == placement::Device::cpu &&
            op.cost[placement::Processor::ane].supported;
  if (left > 0)
    out.add(Level::hint,
            fmt::format("{} operations that the engine takes stay on the CPU: moving them saves less than a "
                        "switch costs",
                        left));
}

void fragments(const FunctionSubject& s, Findings& out) {
  const auto count =
      std::count_if(s.placed.segments.begin(), s.placed.segments.end(), [](const auto& g) { return g.ane; });
  if (count > 1)
    out.add(Level::warning, fmt::format("{} segments on the ANE; their switches cost {:.3f} ms", count,
                                        placement::kSwitchMs * s.placed.switches));
}

void share(const FunctionSubject& s, Findings& out) {
  if (s.placed.ane_ops > 0 && s.placed.ane_share() < kGoodShare)
    out.add(Level::warning,
            fmt::format("{:.1f}% of the estimated time{} is on the ANE", 100 * s.placed.ane_share(),
                        s.placed.unknown_ops > 0 ? " of the operations whose device is known" : ""));
}

constexpr Rule kRules[] = {
    {.id = "P01",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Core ML takes the cheapest path through the operations by its own estimates",
     .why = "Each operation has an estimate for each processor: the engine, and the CPU's two libraries. A "
            "change costs 0.125 ms, and a program begins and ends on the CPU.",
     .cost = "",
     .fix = "anemone check shows the path; --explain-op why one operation is where it is.",
     .sources = "M6 5.2"},
    {.id = "P02",
     .grade = Grade::B,
     .level = Level::error,
     .title = "A segment on the engine must save 0.25 ms of estimated time",
     .why = "Otherwise the switches cost more than it saves, and it stays on the CPU.",
     .cost = "the whole shard on the CPU",
     .fix = "Larger shards; convolutions instead of linear (H01); nothing unsupported in the middle.",
     .sources = "M6 5.2",
     .in_function = uneconomic},
    {.id = "P03",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "M6 uses M4's estimates; M1, M5 and later differ a little",
     .why = "",
     .cost = "one convolution: 6.52 (M1), 8.77 (M5), 5.43 µs (H19) instead of 4.67",
     .fix = "--target.",
     .sources = "M6 5.2"},
    {.id = "P04",
     .grade = Grade::A,
     .level = Level::warning,
     .title = "One CPU operation in the middle splits a shard, or moves a small shard to the CPU",
     .why = "In a large shard it costs two switches. A small shard runs completely on the CPU.",
     .cost = "0.25 ms for each split",
     .fix = "Remove what the engine refuses: the errors above name it.",
     .sources = "M6; AB",
     .in_function = fragments},
    {.id = "P05",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Load with CPU and Neural Engine, never with all units",
     .why = "A refusal then shows as CPU, not as GPU. Even so, a large refused shard was seen on the GPU.",
     .cost = "",
     .fix = "MLComputeUnits.cpuAndNeuralEngine.",
     .sources = "AB ch1, j109"},
    {.id = "P06",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "A successful compile proves nothing",
     .why = "Loading can succeed after ANECCompile failed, and the process is killed at predict.",
     .cost = "",
     .fix = "Run it once, and look at the compute plan.",
     .sources = "AB; ct#2758"},
    {.id = "P07",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "MLComputePlan may compile everything, and aborts on an .mlpackage path",
     .why = "",
     .cost = "212 to 229 s and 11.4 GiB for one 16 by 16 convolution",
     .fix = "Give it the compiled model.",
     .sources = "M6 5.2; ct#2757"},
    {.id = "P08",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "92% on the engine is good enough when the rest is a small tail",
     .why = "Published good models: 99.78, 99.8, 99.9, 92%.",
     .cost = "",
     .fix = "See what is on the CPU (--verbose).",
     .sources = "JR",
     .in_function = share},
};

}  // namespace

std::span<const Rule> placement_rules() { return kRules; }

}  // namespace anemone
