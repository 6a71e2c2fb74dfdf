#include "runtime/stage_calls.h"

#include <algorithm>

namespace anemone {
namespace {

// Flexible dimensions all count the columns of the pass.
InputShapes shapes_for(const Signature& signature, int64_t width) {
  InputShapes out;
  for (const TensorInfo& input : signature.inputs) {
    if (std::find(input.shape.begin(), input.shape.end(), -1) == input.shape.end()) continue;
    std::vector<int64_t> shape = input.shape;
    std::replace(shape.begin(), shape.end(), int64_t{-1}, width);
    out.emplace(input.name, std::move(shape));
  }
  return out;
}

}  // namespace

Call& StageCalls::get(const Bundle& bundle, size_t stage, const StageFunction& function, int64_t width) {
  std::unique_ptr<Call>& slot = calls_[{&function, width}];
  if (!slot) {
    const Predictor& predictor = bundle.predictor(stage, function.name);
    slot = predictor.make_call(shapes_for(predictor.signature(), width));
  }
  return *slot;
}

}  // namespace anemone
