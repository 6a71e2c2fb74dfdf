#include "cli/line_editor.h"

#ifdef ANEMONE_EDITLINE

#include <histedit.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "base/staged.h"

namespace anemone::cli {
namespace {

// The terminal's modes as they were and as chat wants them, for signal handlers: one editor has the terminal.
termios before, wanted;
volatile std::sig_atomic_t changed = 0, resumed = 0;
sigset_t signals_before;  // those that were blocked before a line is read

// Bracketed paste: the terminal puts these around what is pasted, when it is asked to.
constexpr std::string_view kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

void tell_terminal(std::string_view codes) {
  if (::write(STDOUT_FILENO, codes.data(), codes.size()) < 0) return;  // it is gone: reading it will say so
}

// Only while this program has the terminal: from the background it would be the shell's modes.
bool has_terminal() { return changed != 0 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

void set_modes(const termios& modes) {
  if (has_terminal()) ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

void give_back() {
  if (has_terminal()) tell_terminal(kPasteOff);
  set_modes(before);
}

// Does what the signal does without a handler, once the terminal is as it was.
void pass_on(int signal) {
  const int error = errno;
  termios now = wanted;
  ::tcgetattr(STDIN_FILENO, &now);
  give_back();
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
  set_modes(now);
  resumed = 1;
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

// A byte from the terminal: 1, or as read() says.
ssize_t next_byte(unsigned char& byte) { return ::read(STDIN_FILENO, &byte, 1); }

LineEditor& owner(EditLine* editor) {
  void* self = nullptr;
  ::el_get(editor, EL_CLIENTDATA, &self);
  return *static_cast<LineEditor*>(self);
}

// Line breaks as ours, no other control characters, and none at the end.
std::wstring cleaned(const std::wstring& pasted) {
  std::wstring out;
  for (size_t i = 0; i < pasted.size(); ++i) {
    const wchar_t c = pasted[i];
    if (c == L'\r' && i + 1 < pasted.size() && pasted[i + 1] == L'\n') continue;
    if (c == L'\r' || c == L'\n')
      out += L'\n';
    else if (c >= L' ' || c == L'\t')
      out += c;
  }
  while (out.ends_with(L'\n')) out.pop_back();
  return out;
}

}  // namespace

LineEditor::LineEditor() {
  // The editor takes keys one by one, but only after its prompt is out. A terminal that collects lines until then
  // would turn a Ctrl-D typed early into a zero byte; so keys are never collected. Nor are control keys shown: a
  // Ctrl-C that stops an answer leaves no mark in it.
  if (changed == 0 && ::tcgetattr(STDIN_FILENO, &before) == 0) {
    wanted = before;
    wanted.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHOCTL);
    wanted.c_cc[VMIN] = 1;
    wanted.c_cc[VTIME] = 0;
    changed = 1;
    owns_modes_ = true;
    handle(SIGQUIT, pass_on);
    handle(SIGTSTP, pass_on);
    call_before_signal_exit(give_back);
    set_modes(wanted);
  }
  editor_ = ::el_init("anemone", stdin, stdout, stderr);
  history_ = ::history_init();
  HistEvent event{};
  ::history(history_, &event, H_SETSIZE, 1000);
  ::el_set(editor_, EL_CLIENTDATA, this);
  ::el_set(editor_, EL_PROMPT, &LineEditor::prompt);
  ::el_set(editor_, EL_EDITOR, "emacs");
  ::el_set(editor_, EL_HIST, ::history, history_);
  ::el_wset(editor_, EL_GETCFN, &LineEditor::next_key);
  ::el_wset(editor_, EL_ADDFN, L"anemone-paste", L"insert what is pasted", &LineEditor::paste);
  ::el_source(editor_, nullptr);  // the user's own ~/.editrc
  ::el_wset(editor_, EL_BIND, L"\x1b[200~", L"anemone-paste", nullptr);
}

LineEditor::~LineEditor() {
  ::history_end(history_);
  ::el_end(editor_);
  if (!owns_modes_) return;
  set_modes(before);
  changed = 0;
  call_before_signal_exit(nullptr);
  handle(SIGQUIT, SIG_DFL);
  handle(SIGTSTP, SIG_DFL);
}

char* LineEditor::prompt(editline* editor) { return owner(editor).prompt_.data(); }

// A character in UTF-8. Signals come while it waits for one and at no other time, so that none is missed.
int LineEditor::next_key(editline* editor, wchar_t* key) {
  fd_set input;
  FD_ZERO(&input);
  FD_SET(STDIN_FILENO, &input);
  while (::pselect(STDIN_FILENO + 1, &input, nullptr, nullptr, nullptr, &signals_before) < 0) {
    if (errno != EINTR) return -1;
    if (resumed == 0) {
      owner(editor).interrupted_ = true;
      return -1;
    }
    resumed = 0;
    tell_terminal(kPasteOn);
    ::el_set(editor, EL_REFRESH);
    FD_SET(STDIN_FILENO, &input);
  }
  unsigned char byte = 0;
  if (const ssize_t got = next_byte(byte); got <= 0) return static_cast<int>(got);
  const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
  auto code = static_cast<wchar_t>(more == 0 ? byte : byte & (0x3f >> more));
  for (int i = 0; i < more; ++i) {
    if (next_byte(byte) <= 0) return -1;
    code = static_cast<wchar_t>(code << 6 | (byte & 0x3f));
  }
  *key = code;
  return 1;
}

unsigned char LineEditor::paste(editline* editor, int) {
  std::wstring text;
  wchar_t key = 0;
  while (!text.ends_with(kPasteEnd)) {
    if (next_key(editor, &key) <= 0) return CC_EOF;
    text += key;
  }
  text.resize(text.size() - kPasteEnd.size());
  ::el_winsertstr(editor, cleaned(text).c_str());
  return CC_REFRESH;
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  interrupted_ = false;
  resumed = 0;
  prompt_ = prompt;
  set_modes(wanted);  // a shell may have changed them while the program stood still
  tell_terminal(kPasteOn);
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTSTP}) sigaddset(&held, signal);
  ::pthread_sigmask(SIG_BLOCK, &held, &signals_before);
  int count = 0;
  const char* const typed = ::el_gets(editor_, &count);
  ::pthread_sigmask(SIG_SETMASK, &signals_before, nullptr);
  set_modes(wanted);  // the editor gives back a terminal that collects lines
  tell_terminal(kPasteOff);
  if (!typed || count <= 0) {
    tell_terminal("\n");
    return std::nullopt;
  }
  std::string line(typed, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) ::history(history_, &event, H_ENTER, line.c_str());
  return line;
}

}  // namespace anemone::cli

#endif
