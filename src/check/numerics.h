// What a golden run tells about numbers on the engine: sums that come near the accumulator's end (D03), errors of
// activation tables (D07).
//     find_overflow(subject, findings);               // nothing without a golden run
// Arrays of the golden are matched by the name of a value of the program, or by the names that `anemone golden`
// gives (docs/verify.md): embed_out, attn_out_i, mlp_out_i, layer_out_i, final_norm.
#pragma once

#include "check/rule.h"

namespace anemone {

void find_overflow(const FunctionSubject& subject, Findings& out);
void find_table_errors(const FunctionSubject& subject, Findings& out);

}  // namespace anemone
