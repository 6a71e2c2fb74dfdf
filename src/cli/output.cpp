#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace anemone::cli {

OutputError::OutputError(int reason)
    : Error(std::string("standard output cannot be written") +
            (reason ? std::string(": ") + std::strerror(reason) : "")),
      reason_(reason) {}

bool OutputError::broken_pipe() const { return reason_ == EPIPE; }

void flush_output() {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || output_failed()) throw OutputError(errno);
}

bool output_failed() { return std::ferror(stdout) != 0 || !std::cout; }

}  // namespace anemone::cli
