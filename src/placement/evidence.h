// Evidence: for every kind of operation, whether anybody saw where Core ML puts it. The one table of this folder that
// says so; what the engine never takes is part of it.
//     evidence_of("conv").evidence;                    // Evidence::read
//     evidence_of("crop").evidence;                    // Evidence::none: its device is unknown
// A kind without evidence is not guessed. It takes part in the prediction with an estimate, so that the rest can be
// predicted at all, and its own device is "unknown (not probed)".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace anemone::placement {

enum class Evidence : uint8_t {
  none,    // nobody published where Core ML puts it, or only for one of several modes
  data,    // const and constexpr: part of the program, placed nowhere
  stated,  // a source says it without figures, or published models run it
  read,    // Core ML's own compute plan has it, in the study that the estimates come from (M6 5.2)
};

struct OpEvidence {
  std::string_view op;
  Evidence evidence = Evidence::none;
  std::string_view refused = {};  // the rule, where the engine takes it in no shape and type: "O01"
  std::string_view source = {};   // of what is only stated; short names as in check's rules
};

// Every kind of operation in the schema, sorted.
std::span<const OpEvidence> all_evidence();
// A kind that is not in the table has none.
const OpEvidence& evidence_of(std::string_view op);

}  // namespace anemone::placement
