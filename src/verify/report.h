// A verification as people and programs read it.
//     std::cout << report_text(report);
#pragma once

#include <string>

#include "verify/ladder.h"

namespace anemone {

// At most 100 columns. `detail`: every layer and the worst weights also where all is well; `brief`: the verdict.
std::string report_text(const VerifyReport& report, bool detail = false, bool brief = false);
std::string report_json(const VerifyReport& report);
// One page that needs nothing else: tables, and plots of error and of range per layer.
std::string report_html(const VerifyReport& report);

}  // namespace anemone
