// Op: everything about one operation of MIL in one place: its parameters per opset, its type rule, its plain
// kernel. A file in mil/ops/ holds one op or a tight family and exports them under the file's name; CMake
// makes the table:
//
//     const Op kOps[] = {{
//         .name = "silu",
//         .versions = {{Opset::ios15, {{"x", kFloat, 'T'}}}},
//         .doc = "x * sigmoid(x), element by element",
//         .infer = [](const OpCall& c) -> Types { return {c.type("x")}; },
//         .run = [](const OpCall& c) { map_float(c, "x", [](float x) { return x / (1 + std::exp(-x)); }); },
//     }};
//     std::span<const Op> ops_silu() { return kOps; }
//
// Values at run time are dense, row-major, 4 bytes an element: float for every floating type, int32 for
// integers and bool. What a declared fp16 means is decided by the engine (it rounds after the op, or does
// not), not by the kernel.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mil/op_call.h"
#include "mil/op_params.h"

namespace anemone {

using Types = std::vector<Type>;

struct Op {
  std::string_view name;
  std::vector<OpVersion> versions;  // oldest first; each holds until the next
  std::string_view doc;
  // The types of the outputs. Dimensions that depend on values not known yet are unknown; at run time, when
  // the values are there, the same rule gives them as numbers.
  Types (*infer)(const OpCall&) = nullptr;
  // The plain kernel; empty for what the engine does itself (const, constexpr, control flow, state).
  void (*run)(const OpCall&) = nullptr;
  // constexpr ops: output `index` as a stored tensor over the inputs'.
  std::shared_ptr<const StoredTensor> (*store)(const OpCall&, int index) = nullptr;
  bool random = false;            // gives another result each time: never folded
  bool value_from_type = false;   // the result follows from the input's type alone: shape
  std::string_view view_of = {};  // the output is this input's elements in another shape: no copy is needed
  // Where `view_of` holds for some calls only: the place of the first element, when the output's elements lie
  // one after the other in the input.
  std::optional<int64_t> (*view_at)(const OpCall&) = nullptr;

  // The definition that holds in that opset; empty when the op came later.
  const OpVersion* version(Opset opset) const;
};

// The op of that name, or empty. `all_ops` is sorted by name.
const Op* find_op(std::string_view name);
std::span<const Op* const> all_ops();

}  // namespace anemone
