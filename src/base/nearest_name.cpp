#include "base/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace anemone {
namespace {

// Letters to insert, delete or change.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& names) {
  const auto closer = [&](const std::string& a, const std::string& b) {
    return distance(given, a) < distance(given, b);
  };
  const auto best = std::min_element(names.begin(), names.end(), closer);
  return best != names.end() && distance(given, *best) * 3 <= best->size() ? *best : "";
}

}  // namespace anemone
