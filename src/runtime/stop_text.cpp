#include "runtime/stop_text.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw errorf("a stop string is empty");
}

std::string StopText::feed(std::string_view piece) {
  if (found_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos || at > first || (at == first && stop.size() <= found_->size())) continue;
    first = at;
    found_ = stop;
  }
  if (found_) {
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  size_t hold = 0;  // the longest end that is a stop string's start
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > hold; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) {
        hold = n;
        break;
      }
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopText::finish() {
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace anemone
