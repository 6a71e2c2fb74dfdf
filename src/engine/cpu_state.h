// CpuState: the states of a function, in the engine's elements.
//     CpuState state(function, Arithmetic::fast);
//     const CpuState::Entry& keys = state.find("k_cache_0");
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/buffer.h"
#include "engine/state_bounds.h"
#include "mil/program.h"
#include "predict/predictor.h"

namespace anemone {

class CpuState : public State {
 public:
  struct Entry {
    Type type;            // the state's content
    bool halves = false;  // elements of 2 bytes, fp16; else of 4
    Buffer memory;
    mutable StateBounds bounds;
  };

  // States of type fp16 are kept as fp16, as on the device; in fp32 arithmetic, which rounds nothing, as fp32.
  CpuState(const Function& function, Arithmetic arithmetic);
  static bool keeps_halves(const Type& content, Arithmetic arithmetic) {
    return content.dtype == DType::fp16 && arithmetic != Arithmetic::fp32;
  }

  std::vector<std::string> names() const override;
  Array get(const std::string& name) const override;
  void set(const std::string& name, const Array& value) override;
  std::unique_ptr<State> clone() const override;
  uint64_t bytes() const override;

  // By name, so that functions of one package can share a state (prefill, then decode).
  const Entry& find(const std::string& name) const;

 private:
  CpuState() = default;

  std::map<std::string, Entry> entries_;
};

}  // namespace anemone
