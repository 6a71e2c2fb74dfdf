#include "base/words.h"

#include <fmt/format.h>

namespace anemone {

std::string size_text(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    // 999.95 would be rounded to 1000.
    if (value < 999.5 || unit[0] == 'G') return fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, unit);
  }
  return "";
}

std::string counted(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace anemone
