// MilScanner: MIL text as characters, words and numbers, with the place of every fault.
//     MilScanner scan(text, "model.mil");
//     scan.expect_word("program");
//     scan.integer(DType::int32);                      // throws what the type does not hold
// Space and comments ("// …") may stand between any two of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "mil/type.h"

namespace anemone {

class MilScanner {
 public:
  // The text and its name, which is for messages, must outlive it.
  MilScanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // Where we are: "model.mil:12:102".
  std::string place() const;
  Error at_here(Error e) const;

  // The next character that is not space; 0 at the end.
  char peek();
  bool accept(char c);
  void expect(char c);

  std::string word();
  void expect_word(std::string_view expected);
  // The text goes on with this; nothing is taken.
  bool at_word(std::string_view expected);
  std::string string();
  double floating();
  // A whole number that `dtype` holds; a negative one in two's complement.
  uint64_t integer(DType dtype);
  bool boolean();

  size_t position() const { return pos_; }
  void go_back(size_t position) { pos_ = position; }

  // Counts how deep we are, so that hostile text cannot exhaust the stack.
  class Nest {
   public:
    explicit Nest(MilScanner& scanner);
    ~Nest() { --scanner_.depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    MilScanner& scanner_;
  };

 private:
  std::string number_token();

  const std::string_view text_;
  const std::string& name_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace anemone
