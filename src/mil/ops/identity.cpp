// identity: the value as it is, whatever its kind.
#include <cstring>

#include "mil/op.h"

namespace anemone::ops {
namespace {

Types infer(const OpCall& c) { return {c.type("x")}; }

void run(const OpCall& c) {
  if (c.out_type().kind == Type::Kind::list) {
    c.out_list() = *c.list("x");
    return;
  }
  // Of a dictionary the elements are its values, see classify.cpp.
  const auto bytes = static_cast<size_t>(c.out_type().size()) * 4;
  if (bytes) std::memcpy(c.out(), c.data("x"), bytes);
}

const Op kOps[] = {
    {"identity",
     {{Opset::ios15, {{"x", kAnyDType, 0, kAnyKind}}}},
     "x: a tensor, a list or a dictionary",
     infer,
     run},
};

}  // namespace

std::span<const Op> ops_identity() { return kOps; }

}  // namespace anemone::ops
