// The graph of a package or a bundle as one page: every function as a picture of its operations, coloured by the
// device that Core ML is predicted to choose.
//     write_page("graph.html", graph_html(check("bundle", {.target = "m4"})));
#pragma once

#include <string>

#include "check/check.h"

namespace anemone {

std::string graph_html(const CheckReport& report);

}  // namespace anemone
