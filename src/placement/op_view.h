// OpView: an operation as Core ML's cost model sees it: operands and results with numbers for their sizes.
//     OpView v(op);
//     v.find("weight")->dims;                        // {512, 256, 1, 1}
//     v.integers("strides");                         // {1, 1}; empty when it is left out or computed
// Counts are doubles: products of sizes from a file may be larger than any integer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mil/program.h"

namespace anemone::placement {

struct Tensor {
  std::string_view param;  // the parameter it is bound to; empty for a result
  DType dtype = DType::none;
  std::vector<int64_t> dims;  // 1 where a size is not known
  double count = 1;           // elements
  bool fixed = true;          // every size is known
  bool constant = false;      // part of the program: a const, or made by constexpr operations
  bool state = false;
  const Constant* value = nullptr;   // the bytes, when it is a const
  const Operation* maker = nullptr;  // the operation behind it

  int rank() const { return static_cast<int>(dims.size()); }
  double bytes() const;
};

class OpView {
 public:
  explicit OpView(const Operation& op);

  const Operation& op() const { return *op_; }
  const std::string& type() const { return op_->type; }
  const std::vector<Tensor>& operands() const { return operands_; }
  const std::vector<Tensor>& results() const { return results_; }
  const Tensor* find(std::string_view param) const;
  // Of a parameter that takes several values.
  std::vector<const Tensor*> all(std::string_view param) const;
  // Small parameters that are constants.
  std::vector<int64_t> integers(std::string_view param) const;
  bool flag(std::string_view param) const;
  std::string text(std::string_view param) const;  // empty when it is left out
  // Every operand and result has known sizes.
  bool fixed() const;

 private:
  const Operation* op_;
  std::vector<Tensor> operands_, results_;
};

// The value is part of the program.
bool is_constant(const Value& value);
// Operations that are only data for others: const and constexpr. They are placed nowhere.
bool is_data(const Operation& op);

}  // namespace anemone::placement
