// LineReader: lines that a person types, with editing and history on a terminal, or the lines of a pipe.
//     LineReader reader;
//     while (auto line = reader.read("> ")) …
#pragma once

#include <optional>
#include <string>

namespace anemone::cli {

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Nothing at the end of the input. After Ctrl-C an empty line, and interrupted() is true.
  std::optional<std::string> read(const std::string& prompt);
  bool interrupted() const { return interrupted_; }
  bool terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool interrupted_ = false;
  bool owns_modes_ = false;  // changed the terminal's modes, and gives them back
};

}  // namespace anemone::cli
