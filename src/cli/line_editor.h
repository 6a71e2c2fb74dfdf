// LineEditor: one line typed on a terminal, edited by libedit. It takes the terminal's modes while it lives and gives
// them back however the program ends or stops. Only where libedit is there (ANEMONE_EDITLINE).
//     LineEditor editor;
//     std::optional<std::string> line = editor.read("> ");
#pragma once

#ifdef ANEMONE_EDITLINE

#include <optional>
#include <string>

struct editline;
struct history;

namespace anemone::cli {

class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Nothing at the end of the input, and after a signal that has a handler: then interrupted() is true.
  std::optional<std::string> read(const std::string& prompt);
  bool interrupted() const { return interrupted_; }

 private:
  static int next_key(editline* editor, wchar_t* key);
  static unsigned char paste(editline* editor, int key);
  static char* prompt(editline* editor);

  editline* editor_ = nullptr;
  struct history* history_ = nullptr;  // libedit has a function of that name as well
  std::string prompt_;
  bool interrupted_ = false;
  bool owns_modes_ = false;  // changed the terminal's modes, and gives them back
};

}  // namespace anemone::cli

#endif
