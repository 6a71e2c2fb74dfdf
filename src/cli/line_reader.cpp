#include "cli/line_reader.h"

#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/staged.h"

#ifdef ANEMONE_EDITLINE
#include <editline/readline.h>
#endif

namespace anemone::cli {
#ifdef ANEMONE_EDITLINE
namespace {

// The terminal's modes as they were and as chat wants them, for signal handlers: one reader has the terminal.
termios before, wanted;
volatile std::sig_atomic_t changed = 0;

// Only while this program has the terminal: from the background it would be the shell's modes.
void set_modes(const termios& modes) {
  if (changed != 0 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

// Does what the signal does without a handler, once the terminal is as it was.
void pass_on(int signal) {
  const int error = errno;
  set_modes(before);
  struct sigaction mine {
  }, plain{};
  plain.sa_handler = SIG_DFL;
  ::sigaction(signal, &plain, &mine);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, &old);  // here it ends or, after Ctrl-Z, stands still until it goes on
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::sigaction(signal, &mine, nullptr);
  set_modes(wanted);
  errno = error;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {
  }, old{};
  if (::sigaction(signal, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) return;  // nohup's wish
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace
#endif

LineReader::LineReader() : terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
  // So that the editor counts characters, not bytes.
  if (terminal_ && !(std::setlocale(LC_CTYPE, "") && MB_CUR_MAX > 1) && !std::setlocale(LC_CTYPE, "C.UTF-8"))
    std::setlocale(LC_CTYPE, "UTF-8");  // its name on a Mac
#ifdef ANEMONE_EDITLINE
  // The editor takes keys one by one, but only after its prompt is out. A terminal that collects lines until then
  // would turn a Ctrl-D typed early into a zero byte; so keys are never collected. However the program ends or
  // stops, the terminal gets its modes back.
  if (!terminal_ || changed != 0 || ::tcgetattr(STDIN_FILENO, &before) != 0) return;
  wanted = before;
  wanted.c_lflag &= ~static_cast<tcflag_t>(ICANON);
  wanted.c_cc[VMIN] = 1;
  wanted.c_cc[VTIME] = 0;
  changed = 1;
  owns_modes_ = true;
  handle(SIGQUIT, pass_on);
  handle(SIGTSTP, pass_on);
  call_before_signal_exit([] { set_modes(before); });
  set_modes(wanted);
#endif
}

LineReader::~LineReader() {
#ifdef ANEMONE_EDITLINE
  if (!owns_modes_) return;
  set_modes(before);
  changed = 0;
  call_before_signal_exit(nullptr);
  handle(SIGQUIT, SIG_DFL);
  handle(SIGTSTP, SIG_DFL);
#endif
}

std::optional<std::string> LineReader::read(const std::string& prompt) {
  interrupted_ = false;
#ifdef ANEMONE_EDITLINE
  if (terminal_) {
    set_modes(wanted);  // a shell may have changed them while the program stood still
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
