// Error: the one exception type of the library.
//     catch (const anemone::Error& e) { std::cerr << "error: " << e.what() << "\n"; }
// It carries what went wrong, where, what was found, what was expected and what to do about it; what() is all
// of that in one line.
#pragma once

#include <exception>
#include <string>

namespace anemone {

class Error : public std::exception {
 public:
  explicit Error(std::string message);

  // Each sets one part and returns the error, so that an error is made and thrown in one statement:
  //     throw Error("the blob has the wrong dtype").at(path).found("fp32").expected("fp16").hint("re-export
  //     it");
  Error& at(std::string where) &;
  Error& found(std::string value) &;
  Error& expected(std::string value) &;
  Error& hint(std::string advice) &;
  Error&& at(std::string where) && { return std::move(at(std::move(where))); }
  Error&& found(std::string value) && { return std::move(found(std::move(value))); }
  Error&& expected(std::string value) && { return std::move(expected(std::move(value))); }
  Error&& hint(std::string advice) && { return std::move(hint(std::move(advice))); }

  // Puts an outer place in front of the one already known: "model.mlpackage: function main: op 'conv_3'".
  Error& within(std::string outer) &;

  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& found() const { return found_; }
  const std::string& expected() const { return expected_; }
  const std::string& hint() const { return hint_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  void compose();

  std::string message_, where_, found_, expected_, hint_, line_;
};

}  // namespace anemone
