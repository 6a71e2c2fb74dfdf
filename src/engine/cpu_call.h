// CpuCall: a Call of the CPU engine. Its inputs and outputs are the engine's own memory, so a view of one
// engine's output is read in place by another.
//     CpuCall call(function, {{"x", {1, 64, 4, 1}}});
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu_function.h"
#include "engine/cpu_state.h"

namespace anemone {

class CpuCall : public Call {
 public:
  CpuCall(std::shared_ptr<CpuFunction> function, const InputShapes& shapes);
  ~CpuCall() override;
  CpuCall(const CpuCall&) = delete;
  CpuCall& operator=(const CpuCall&) = delete;

  TensorView input(const std::string& name) override;
  void lend(const std::string& name, const TensorView& view) override;
  void get_ready() override;
  void run(State* state) override;
  // run() in two parts, for calls that run together: the executor is ready to go; what it gave is looked at.
  Executor& prepare(State* state);
  void settle();
  std::vector<std::string> outputs() const override;
  TensorView output(const std::string& name) const override;
  std::vector<std::string> labels(const std::string& name) const override;
  const std::optional<NumericFault>& fault() const override { return fault_; }
  void rest() override;
  uint64_t copied_bytes() const override { return copied_bytes_; }

 private:
  using Memory = std::vector<std::pair<const std::byte*, const std::byte*>>;  // begin and end of each piece

  // Where an input comes from.
  struct Slot {
    enum class From : uint8_t { nowhere, own, lent };
    From from = From::nowhere;
    Type type;
    TensorView lent;
  };

  size_t index(const std::string& name) const;
  Workspace& work();
  uint64_t bytes_of(const Slot& slot) const { return static_cast<uint64_t>(slot.type.size()) * 4; }
  void* own_memory(size_t input);
  static bool inside(const Memory& memory, const void* data);
  bool rounds(size_t input) const;
  bool readable_in_place(size_t input) const;
  void* bind_input(size_t input);
  void bind_states(State* state);
  void settle_results();
  bool has(size_t result) const;
  size_t find_result(const std::string& name) const;
  void* keep(size_t result, uint64_t bytes) const;

  std::shared_ptr<CpuFunction> function_;
  Workspace* work_ = nullptr;       // borrowed when first needed, until rest()
  std::vector<Slot> slots_;         // by CpuFunction::inputs()
  Memory bound_;                    // of this run's inputs
  Memory given_;                    // of the last run's outputs
  mutable std::vector<bool> kept_;  // by CpuFunction::results(): those in Workspace::results
  bool ran_ = false;
  std::optional<NumericFault> fault_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace anemone
