// Runs a test once for every SIMD target that this CPU has.
//     for_each_target([&](const char* name) { CAPTURE(name); … });
#pragma once

#include <hwy/highway.h>

namespace anemone::test {

template <class Body>
void for_each_target(Body body) {
#ifdef HWY_COMPILE_ONLY_STATIC
  body(hwy::TargetName(HWY_STATIC_TARGET));  // a cross build has one target and no run-time choice
#else
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#endif
}

}  // namespace anemone::test
