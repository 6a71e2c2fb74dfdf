// Reports of a check: for people at a terminal, for programs, and as one page that opens in any browser.
//     fmt::print("{}", report_text(report, {.verbose = true}));
//     write_file("report.html", report_html(report));
#pragma once

#include <string>
#include <string_view>

#include "check/check.h"

namespace anemone {

struct TextOptions {
  bool verbose = false;  // every operation and every place of a finding
  bool strict = false;   // warnings fail
  size_t width = 100;    // columns
};

std::string report_text(const CheckReport& report, const TextOptions& options = {});
// Its second line and its last one: "clean: all 2444 operations on the ANE; 10 hints, none needs action".
std::string verdict_text(const CheckReport& report, bool strict);
std::string report_json(const CheckReport& report, bool strict);
std::string report_html(const CheckReport& report, bool strict);

// Why an operation is where it is, and what would move it: for every function that has it. Error, with names like it,
// when none has.
std::string explain_op(const CheckReport& report, const std::string& name);
// The same for programs; an empty list when no function has it.
std::string explain_op_json(const CheckReport& report, const std::string& name);
std::string explain_rule_json(const Rule& rule);

}  // namespace anemone
