// Standard output, checked: what cannot be written is an Error, not silence.
//     fmt::print("{}", piece);
//     flush_output();
#pragma once

#include "anemone/error.h"

namespace anemone::cli {

class OutputError : public Error {
 public:
  explicit OutputError(int reason);  // errno's number; 0: not known
  // Whoever was reading has enough, as `head` has: no fault, and nothing to say.
  bool broken_pipe() const;

 private:
  int reason_;
};

// As the shell says it of programs that the signal ended.
inline constexpr int kBrokenPipeStatus = 128 + 13;

// Writes what is held back; OutputError where that, or something before it, was lost.
void flush_output();
bool output_failed();

}  // namespace anemone::cli
