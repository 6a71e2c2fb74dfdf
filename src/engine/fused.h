// FusedKernel: several operations of a plan run as one. It gives what they give, beyond the order of fp32
// sums: in fp16 arithmetic it rounds where they round, and whatever it does not take (odd inputs, a result
// that is not finite and so may be a fault) it leaves to the operations themselves.
//     if (!fused.kernel->run(call)) run the operations of fused.plain one by one
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/thread_pool.h"
#include "engine/plan.h"

namespace anemone {

class FusedCall {
 public:
  FusedCall(const Step& step, const Cells& cells, ThreadPool& pool, bool half, bool watch)
      : step_(step), cells_(cells), pool_(pool), half_(half), watch_(watch) {}

  const void* data(size_t i) const {
    const Source& s = step_.in[i];
    return s.fixed ? s.fixed : s.id >= 0 ? cells_[static_cast<size_t>(s.id)].data : nullptr;
  }
  const float* floats(size_t i) const { return static_cast<const float*>(data(i)); }
  float* state(size_t i) const { return static_cast<float*>(cell(i).data); }
  const Cell& cell(size_t i) const { return cells_[static_cast<size_t>(step_.in[i].id)]; }
  float* out(size_t i = 0) const {
    return static_cast<float*>(cells_[static_cast<size_t>(step_.out[i])].data);
  }
  ThreadPool& pool() const { return pool_; }
  bool half() const { return half_; }  // fp16 arithmetic: results of fp16 type are rounded
  // fp16 arithmetic, and no fault was seen yet: a result that is not finite is left to the plain way.
  bool watch() const { return watch_; }

 private:
  const Step& step_;
  const Cells& cells_;
  ThreadPool& pool_;
  bool half_, watch_;
};

class FusedKernel;
class LayerMap;

// One of several calls that run together.
struct FusedTurn {
  const FusedKernel* kernel;
  FusedCall call;
  bool done = false;  // as FusedKernel::run() says
};

class FusedKernel : public std::enable_shared_from_this<FusedKernel> {
 public:
  virtual ~FusedKernel() = default;
  virtual std::string_view name() const { return "fused"; }  // for profiles: "attention"
  // False: not a case for this kernel. Nothing has been changed that the plain way reads.
  virtual bool run(const FusedCall& call) const = 0;

  // This kernel for a layer that has other weights (layers.h); empty: it cannot be had so, and every layer is planned.
  virtual std::shared_ptr<const FusedKernel> for_layer(const LayerMap&) const { return nullptr; }
  // Memory that the kernel keeps beside the stored weights.
  virtual uint64_t held_bytes() const { return 0; }
  // Takes input i where it is a state, or a view of one, that is kept as fp16 (Cell::halves).
  virtual bool takes_halves(size_t) const { return false; }

  // Calls of this kernel gain by running together with others, because they read the same weights.
  virtual bool shareable() const { return false; }
  // With those of that kernel, too: it may be another function's.
  virtual bool shares(const FusedKernel& other) const { return this == &other; }
  // What a call of its own can do before run_together(), on a thread of its own.
  virtual void prepare(const FusedCall&) const {}
  // Prepared calls of kernels that share with this one, each with the results that run() gives it, bit by bit.
  virtual void run_together(std::span<FusedTurn> turns) const {
    for (FusedTurn& turn : turns) turn.done = turn.kernel->run(turn.call);
  }
};

// A kernel that holds no weights, nor anything else that belongs to one layer.
class WeightlessKernel : public FusedKernel {
 public:
  std::shared_ptr<const FusedKernel> for_layer(const LayerMap&) const override { return shared_from_this(); }
};

}  // namespace anemone
