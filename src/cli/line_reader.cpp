#include "cli/line_reader.h"

#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#ifdef ANEMONE_EDITLINE
#include <editline/readline.h>
#endif

namespace anemone::cli {

LineReader::LineReader() : terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
  // So that the editor counts characters, not bytes.
  if (terminal_ && !(std::setlocale(LC_CTYPE, "") && MB_CUR_MAX > 1)) std::setlocale(LC_CTYPE, "C.UTF-8");
#ifdef ANEMONE_EDITLINE
  // The editor takes keys one by one, but only after its prompt is out. A terminal that collects lines until then
  // would turn a Ctrl-D typed early into a zero byte; so keys are never collected.
  termios modes{};
  if (terminal_ && ::tcgetattr(STDIN_FILENO, &modes) == 0) {
    before_ = modes;
    modes.c_lflag &= ~static_cast<tcflag_t>(ICANON);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
  }
#endif
}

LineReader::~LineReader() {
  if (before_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

std::optional<std::string> LineReader::read(const std::string& prompt) {
  interrupted_ = false;
#ifdef ANEMONE_EDITLINE
  if (terminal_) {
    errno = 0;
    char* typed = ::readline(prompt.c_str());
    if (!typed) {
      interrupted_ = errno == EINTR;
      if (interrupted_) return "";
      return std::nullopt;
    }
    std::string line(typed);
    std::free(typed);
    if (!line.empty()) ::add_history(line.c_str());
    return line;
  }
#endif
  if (terminal_) {
    std::fputs(prompt.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace anemone::cli
