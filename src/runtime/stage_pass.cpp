#include "runtime/stage_pass.h"

#include <algorithm>

#include "base/error.h"
#include "bundle/check_ports.h"

namespace anemone {

StagePass::~StagePass() {
  for (Call* call : ran_)
    if (call) call->rest();
}

Call& StagePass::stage(size_t stage, const StageFunction& function, State* state,
                       const std::vector<Kept>* kept) {
  begin(stage, function, kept).run(state);
  return end(stage, function);
}

Call& StagePass::begin(size_t stage, const StageFunction& function, const std::vector<Kept>* kept) {
  Call& call = calls_.get(bundle_, stage, function, pass_.width);
  ran_[stage] = &call;
  copied_before_ = call.copied_bytes();
  for (const Port& port : function.interface.inputs) give(call, port, kept);
  return call;
}

Call& StagePass::end(size_t stage, const StageFunction& function) {
  Call& call = *ran_[stage];
  copied_bytes_ += call.copied_bytes() - copied_before_;
  for (const Port& port : function.interface.outputs)
    check_output(call.output(port.name).shape, port, bundle_.info(), pass_.width);
  if (call.fault() && !fault_) fault_ = call.fault();
  if (const Port* out = function.find_output(Role::Kind::stream)) {
    streaming_ = &call;
    stream_port_ = out;
    column_.reset();
  }
  if (const Port* out = function.find_output(Role::Kind::carried)) {
    carrying_ = &call;
    carried_port_ = out;
  }
  if (const Stage& s = bundle_.info().stages[stage]; s.kind == StageKind::route) {
    experts_.clear();  // the sum of the layer before was taken
    experts_.push_back(std::make_unique<ExpertPass>(bundle_, calls_, s, function, call, pass_.tokens()));
  }
  bundle_.saw(stage, function.name, call, pass_.tokens());
  return call;
}

void StagePass::experts(size_t stage) {
  if (experts_.empty())
    throw errorf("no stage chose the experts of '{}'", bundle_.info().stages[stage].package);
  ExpertPass& experts = *experts_.back();
  const uint64_t before = experts.copied_bytes();
  experts.stage(stage);
  copied_bytes_ += experts.copied_bytes() - before;
  if (experts.fault() && !fault_) fault_ = experts.fault();
}

void StagePass::give(Call& call, const Port& port, const std::vector<Kept>* kept) {
  if (port.role.kind == Role::Kind::stream && column_) return call.lend(port.name, *column_);
  if (port.role.kind == Role::Kind::stream && streaming_)
    return call.chain(port.name, *streaming_, stream_port_->name);
  if (port.role.kind == Role::Kind::carried) {
    if (!carrying_) throw errorf("no stage gave what '{}' takes over", port.name);
    return call.chain(port.name, *carrying_, carried_port_->name);
  }
  if (port.role.kind == Role::Kind::mixed) {
    if (experts_.empty()) throw errorf("no experts gave what '{}' adds", port.name);
    return call.lend(port.name, experts_.back()->sum(pass_.width));
  }
  if (kept)
    for (const Kept& k : *kept)
      if (k.role == port.role) return call.lend(port.name, TensorView::of(k.array));
  const auto same =
      std::find_if(given_.begin(), given_.end(), [&](const Given& g) { return g.role == port.role; });
  if (same != given_.end()) return call.share(port.name, *same->owner, *same->input, same->view);
  const TensorView view = call.input(port.name);
  fill_input(view, port.role, pass_, bundle_.info(), bundle_.embedding());
  given_.push_back({port.role, view, &call, &port.name});
}

TensorView StagePass::stream() const {
  if (!streaming_) throw errorf("no stage gave a stream");
  return column_ ? *column_ : streaming_->output(stream_port_->name);
}

void StagePass::take_column(int64_t column) {
  TensorView one = stream();
  const int64_t bytes = dtype_bits(one.dtype) / 8;
  one.shape[2] = 1;
  one.data = static_cast<std::byte*>(one.data) + column * one.strides[2] * bytes;
  column_ = one;
  pass_.width = 1;
  given_.clear();
}

}  // namespace anemone
