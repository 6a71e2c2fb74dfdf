// CpuState: the states of a function, in the engine's elements.
//     CpuState state(function, half);
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
    Type type;  // the state's content
    Buffer memory;
    mutable StateBounds bounds;
  };

  // `half`: fp16 arithmetic, in which states of that type hold halves.
  CpuState(const Function& function, bool half);

  std::vector<std::string> names() const override;
  Array get(const std::string& name) const override;
  void set(const std::string& name, const Array& value) override;
  std::unique_ptr<State> clone() const override;
  uint64_t bytes() const override;

  // By name, so that functions of one package can share a state (prefill, then decode).
  const Entry& find(const std::string& name) const;

 private:
  explicit CpuState(bool half) : half_(half) {}

  std::map<std::string, Entry> entries_;
  bool half_;
};

}  // namespace anemone
