#include "predict/arithmetic.h"

#include "base/error.h"

namespace anemone {
namespace {

constexpr Arithmetic kAll[] = {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast};

}  // namespace

const char* arithmetic_name(Arithmetic arithmetic) {
  switch (arithmetic) {  // without a default: the compiler names what is missing here
    case Arithmetic::fp32: return "fp32";
    case Arithmetic::fp16: return "fp16";
    case Arithmetic::fast: return "fast";
  }
  throw errorf("there is no arithmetic number {}", static_cast<int>(arithmetic));
}

Arithmetic parse_arithmetic(std::string_view name) {
  std::string known;
  for (const Arithmetic arithmetic : kAll) {
    if (name == arithmetic_name(arithmetic)) return arithmetic;
    known += (known.empty() ? "" : ", ") + std::string(arithmetic_name(arithmetic));
  }
  throw errorf("there is no arithmetic '{}'", name.substr(0, 40)).expected(known);
}

std::vector<std::string> arithmetic_names() {
  std::vector<std::string> out;
  for (const Arithmetic arithmetic : kAll) out.emplace_back(arithmetic_name(arithmetic));
  return out;
}

}  // namespace anemone
