// MilLiterals: types and literals of MIL text.
//     MilLiterals read(text, "model.mil", resolve);
//     read.type();                                     // tensor<fp16, [1, ?]>
//     read.literal();                                  // tensor<fp16, [2]>([0x1p+0, 0x1.8p+1])
#pragma once

#include "mil/text.h"
#include "mil/text_scanner.h"

namespace anemone {

class MilLiterals : public MilScanner {
 public:
  // All must outlive it.
  MilLiterals(std::string_view text, const std::string& name, const BlobResolver& resolve)
      : MilScanner(text, name), resolve_(resolve) {}

  Type type();
  Constant literal();

 private:
  Dim dim();
  Shape shape();
  DType dtype(const std::string& name);
  // What stands between the parentheses of a literal.
  Constant value(Type t);
  Constant compound(Type t);
  Constant blob(Type t);
  Constant tensor(Type t);
  void check_count(const Type& t, int64_t count);
  template <class Element>
  void elements(const Element& element);

  const BlobResolver& resolve_;
};

}  // namespace anemone
