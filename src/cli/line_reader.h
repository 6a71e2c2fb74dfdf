// LineReader: lines that a person types, with editing and history on a terminal, or the lines of a pipe.
//     LineReader reader;
//     while (auto line = reader.read("> ")) …
// What is pasted into a terminal stays one line, with the line breaks in it, until Enter is typed.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace anemone::cli {

class LineReader {
 public:
  LineReader();
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Nothing at the end of the input. After Ctrl-C an empty line, and interrupted() is true; SIGINT needs a handler
  // without SA_RESTART for that. The cursor then stands at the start of a line.
  std::optional<std::string> read(const std::string& prompt);
  bool interrupted() const { return interrupted_; }
  bool terminal() const { return terminal_; }

 private:
  class Editor;

  bool terminal_;
  bool interrupted_ = false;
  std::unique_ptr<Editor> editor_;
};

}  // namespace anemone::cli
