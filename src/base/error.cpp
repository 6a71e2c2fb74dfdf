#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace anemone {

Error::Error(std::string message) : message_(std::move(message)) { compose(); }

Error& Error::at(std::string where) & {
  where_ = std::move(where);
  compose();
  return *this;
}

Error& Error::found(std::string value) & {
  found_ = std::move(value);
  compose();
  return *this;
}

Error& Error::expected(std::string value) & {
  expected_ = std::move(value);
  compose();
  return *this;
}

Error& Error::hint(std::string advice) & {
  hint_ = std::move(advice);
  compose();
  return *this;
}

Error& Error::within(std::string outer) & {
  where_ = where_.empty() ? std::move(outer) : outer + ": " + where_;
  compose();
  return *this;
}

void Error::compose() {
  line_ = where_.empty() ? message_ : where_ + ": " + message_;
  if (!found_.empty()) line_ += "; found " + found_;
  if (!expected_.empty()) line_ += (found_.empty() ? "; expected " : ", expected ") + expected_;
  if (!hint_.empty()) line_ += "; " + hint_;
  // Names come from files and may hold anything. An error stays one line and sends no control codes to a terminal.
  for (char& c : line_)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
}

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "anemone: internal error: %s does not hold at %s:%d; please report this\n", expression,
               file, line);
  std::abort();
}

}  // namespace anemone
