// States that are kept as fp16: who cannot read them so is given a copy in floats.
//     widen_states(plan, cells, staying, last);    // behind the patterns, before memory is given out
#pragma once

#include <set>

#include "engine/plan.h"

namespace anemone {

// `cells` say which states are halves; `staying`: values that are looked at behind the plan. A view of a state holds as
// long as somebody looks at it, so a copy is made just before the first look. `last`: the operation that copies at the
// end are said to belong to.
void widen_states(Plan& plan, const Cells& cells, const std::set<int>& staying, const Operation* last);

}  // namespace anemone
