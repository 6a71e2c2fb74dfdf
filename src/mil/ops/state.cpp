// read_state and write_state. The states belong to the engine, which does both itself.
#include "base/error.h"
#include "mil/op.h"

namespace anemone::ops {
namespace {

Types infer_read(const OpCall& c) { return {c.type("input").content()}; }

Types infer_write(const OpCall& c) {
  const Type state = c.type("input").content();
  if (!compatible(state, c.type("data")))
    throw errorf("'data' does not have the type of the state")
        .found(c.type("data").text())
        .expected(state.text());
  return {};
}

const Op kOps[] = {
    {"read_state",
     {{Opset::ios18, {{"input", kAnyDType, 0, kState}}}},
     "a copy of what the state holds",
     infer_read},
    {"write_state",
     {{Opset::ios18, {{"input", kAnyDType, 0, kState}, {"data", kAnyDType}}}},
     "makes `data` what the state holds; has no output",
     infer_write},
};

}  // namespace

std::span<const Op> ops_state() { return kOps; }

}  // namespace anemone::ops
