#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/staged.h"
#include "cli/command.h"

namespace {

// A stream that was closed (">&-") gets a stand-in that can only be used the wrong way round: its use fails as it
// should, and no file that is opened later takes its number.
void fill_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF)
      ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  fill_closed_streams();
  anemone::remove_staged_outputs_on_signals();
  return anemone::cli::run(argc, argv);
}
