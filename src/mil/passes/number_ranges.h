// NumberRanges: what the numbers of a function's values can be, as far as its operations say it.
//     const NumberRanges ranges(function);
//     const NumberRange r = ranges.of(value);
//     if (r.whole && r.most() <= 2048) …       // fp16 has all of these numbers
// Nothing is assumed of inputs: their numbers have the range of their type.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "mil/program.h"

namespace anemone {

struct NumberRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool whole = false;    // there are no fractions
  bool counted = false;  // they come from values of an integer type, perhaps by way of sums and products

  double most() const { return std::max(std::fabs(low), std::fabs(high)); }
};

// The numbers of a constant. Those that are not finite count for `finite` alone.
struct ConstantNumbers {
  double low = 0, high = 0;
  bool whole = true, finite = true;

  double most() const { return std::max(std::fabs(low), std::fabs(high)); }
};

// Whether the results of an operation of that type are some of the numbers that it is given: it moves or selects them.
bool only_chooses(std::string_view type);

class NumberRanges {
 public:
  explicit NumberRanges(const Function& function);

  NumberRange of(const Value* value) const;
  NumberRange of(const Binding& binding) const;
  // Each constant is read once, in pieces.
  const ConstantNumbers& numbers(const Constant& constant) const;

 private:
  NumberRange result(const Operation& op) const;
  NumberRange product(const Operation& op) const;
  NumberRange binary(const Operation& op) const;
  NumberRange input(const Operation& op, std::string_view name) const;

  std::unordered_map<const Value*, NumberRange> ranges_;
  mutable std::unordered_map<const Constant*, ConstantNumbers> numbers_;
};

}  // namespace anemone
