// StopText: finds stop strings in text that comes in pieces, and holds back what may become one.
//     StopText stop({"\n\n"});
//     out += stop.feed("end.\n");      // "end."
//     out += stop.feed("\nNext");      // "", and stop.found() is "\n\n"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anemone {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);  // Error for an empty one

  // What may be given out now: nothing from the start of a stop string on.
  std::string feed(std::string_view piece);
  // What was held back in case it became a stop string.
  std::string finish();
  // The stop string that was met: of those whole by then the one that starts first, then the longest.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> found_;
};

}  // namespace anemone
