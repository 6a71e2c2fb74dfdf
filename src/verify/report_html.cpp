#include "verify/report.h"
namespace anemone {
std::string report_html(const VerifyReport& report) { return report_json(report); }
}  // namespace anemone
