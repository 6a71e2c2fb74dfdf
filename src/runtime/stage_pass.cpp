#include "runtime/stage_pass.h"

#include <algorithm>

#include "base/error.h"
#include "bundle/check_info.h"

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

Call& StagePass::stage(size_t stage, const StageFunction& function, State* state,
                       const std::vector<Kept>* kept) {
  const Predictor& predictor = bundle_.predictor(stage, function.name);
  calls_.push_back(predictor.make_call(shapes_for(predictor.signature(), pass_.width)));
  Call& call = *calls_.back();
  for (const Port& port : function.interface.inputs) give(call, port, kept);
  call.run(state);
  for (const Port& port : function.interface.outputs)
    check_output(call.output(port.name).shape, port, bundle_.info(), pass_.width);
  if (call.fault() && !fault_) fault_ = call.fault();
  if (const Port* out = function.find_output(Role::Kind::stream)) stream_ = call.output(out->name);
  bundle_.saw(stage, function.name, call, pass_.tokens());
  return call;
}

void StagePass::give(Call& call, const Port& port, const std::vector<Kept>* kept) {
  if (port.role.kind == Role::Kind::stream && stream_) return call.lend(port.name, *stream_);
  if (kept)
    for (const Kept& k : *kept)
      if (k.role == port.role) return call.lend(port.name, TensorView::of(k.array));
  const auto same =
      std::find_if(given_.begin(), given_.end(), [&](const Given& g) { return g.role == port.role; });
  if (same != given_.end()) return call.lend(port.name, same->view);
  const TensorView view = call.input(port.name);
  fill_input(view, port.role, pass_, bundle_.info(), bundle_.embedding());
  given_.push_back({port.role, view});
}

const TensorView& StagePass::stream() const {
  if (!stream_) throw errorf("no stage gave a stream");
  return *stream_;
}

void StagePass::take_column(int64_t column) {
  const TensorView whole = stream();
  const int64_t bytes = dtype_bits(whole.dtype) / 8;
  TensorView one = whole;
  one.shape[2] = 1;
  one.data = static_cast<std::byte*>(whole.data) + column * whole.strides[2] * bytes;
  stream_ = one;
  pass_.width = 1;
  given_.clear();
}

uint64_t StagePass::copied_bytes() const {
  uint64_t total = 0;
  for (const auto& call : calls_) total += call->copied_bytes();
  return total;
}

}  // namespace anemone
