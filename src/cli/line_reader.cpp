#include "cli/line_reader.h"

#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/line_editor.h"

namespace anemone::cli {

#ifndef ANEMONE_EDITLINE
class LineReader::Editor {};
#else
class LineReader::Editor : public LineEditor {};
#endif

LineReader::LineReader() : terminal_(::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO)) {
  // So that the editor counts characters, not bytes.
  if (terminal_ && !(std::setlocale(LC_CTYPE, "") && MB_CUR_MAX > 1) && !std::setlocale(LC_CTYPE, "C.UTF-8"))
    std::setlocale(LC_CTYPE, "UTF-8");  // its name on a Mac
#ifdef ANEMONE_EDITLINE
  if (terminal_) editor_ = std::make_unique<Editor>();
#endif
}

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::read(const std::string& prompt) {
  interrupted_ = false;
#ifdef ANEMONE_EDITLINE
  if (editor_) {
    std::optional<std::string> line = editor_->read(prompt);
    interrupted_ = editor_->interrupted();
    return interrupted_ ? "" : line;
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
