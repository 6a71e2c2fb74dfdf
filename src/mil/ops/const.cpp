// const: a value that is part of the program.
#include "base/error.h"
#include "mil/op.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) {
  const auto& attributes = c.operation().attributes;
  const auto it = attributes.find("val");
  if (it == attributes.end()) throw errorf("the constant has no attribute 'val'");
  return {it->second.type};
}

const Op kOps[] = {
    {"const", {{Opset::ios15, {}}}, "the value of the attribute `val`", infer},
};

}  // namespace

std::span<const Op> ops_const() { return kOps; }

}  // namespace anemone::ops
