// Terminal: runs the command on a terminal of its own, as a person would: types, waits, reads.
//     Terminal t({"chat", bundle});
//     t.wait_for("> ");
//     t.type("/quit\r");
//     CHECK(t.exit_status() == 0);
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace anemone::e2e {

class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys);
  // What was shown up to and with `text`; fails the test when it does not come within a minute.
  std::string wait_for(const std::string& text);
  // Whether that is shown within so many seconds.
  bool shows(const std::string& text, int seconds);
  void send(int signal);
  // Whether the terminal collects lines and shows what is typed, as it does before a program changes it.
  bool is_plain() const;
  // Waits for the end, a minute at most; 256 + the signal that ended it.
  int exit_status();

 private:
  bool more();

  int master_ = -1;
  pid_t child_ = -1;
  std::string shown_;  // not yet waited for
};

}  // namespace anemone::e2e
