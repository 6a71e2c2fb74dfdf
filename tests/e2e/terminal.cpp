#include "e2e/terminal.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace anemone::e2e {

Terminal::Terminal(const std::vector<std::string>& arguments) {
  master_ = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(master_ >= 0);
  REQUIRE(::grantpt(master_) == 0);
  REQUIRE(::unlockpt(master_) == 0);
  const std::string name = ::ptsname(master_);
  std::vector<char*> argv = {const_cast<char*>(ANEMONE_BINARY)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  child_ = ::fork();
  REQUIRE(child_ >= 0);
  if (child_ == 0) {
    ::setsid();
    const int slave = ::open(name.c_str(), O_RDWR);
    ::ioctl(slave, TIOCSCTTY, 0);
    for (const int fd : {0, 1, 2}) ::dup2(slave, fd);
    ::close(master_);
    ::setenv("TERM", "xterm", 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(master_);
}

void Terminal::type(const std::string& keys) {
  REQUIRE(::write(master_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
}

// Reads what comes within a fifth of a second; false at the end.
bool Terminal::more() {
  pollfd fd{master_, POLLIN, 0};
  if (::poll(&fd, 1, 200) <= 0) return true;
  char buffer[4096];
  const ssize_t got = ::read(master_, buffer, sizeof buffer);
  if (got <= 0) return false;
  shown_.append(buffer, static_cast<size_t>(got));
  return true;
}

bool Terminal::shows(const std::string& text, int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (shown_.find(text) == std::string::npos)
    if (!more() || std::chrono::steady_clock::now() > end) break;
  return shown_.find(text) != std::string::npos;
}

std::string Terminal::wait_for(const std::string& text) {
  if (!shows(text, 60)) FAIL("waited for '" << text << "', shown: " << shown_);
  const size_t after = shown_.find(text) + text.size();
  std::string out = shown_.substr(0, after);
  shown_.erase(0, after);
  return out;
}

void Terminal::send(int signal) { REQUIRE(::kill(child_, signal) == 0); }

bool Terminal::is_plain() const {
  termios modes{};
  REQUIRE(::tcgetattr(master_, &modes) == 0);
  return (modes.c_lflag & ICANON) && (modes.c_lflag & ECHO);
}

int Terminal::exit_status() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  int status = 0;
  // What it still shows has to be read: a full terminal would keep it from ending.
  while (::waitpid(child_, &status, WNOHANG) != child_) {
    if (std::chrono::steady_clock::now() > end) FAIL("it does not end; shown: " << shown_);
    if (!more()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

}  // namespace anemone::e2e
