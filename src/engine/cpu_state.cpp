#include "engine/cpu_state.h"

#include <cstring>

#include "base/error.h"
#include "kernels/convert.h"

namespace anemone {

CpuState::CpuState(const Function& function, bool half) : half_(half) {
  for (const auto& input : function.inputs) {
    if (input->type.kind != Type::Kind::state) continue;
    try {
      Entry entry{input->type.content(), Buffer::zeros(static_cast<uint64_t>(input->type.size()) * 4),
                  StateBounds(input->type.content())};
      entries_.emplace(input->name, std::move(entry));
    } catch (Error& e) {
      e.within(fmt::format("state '{}'", input->name));
      throw;
    }
  }
}

std::vector<std::string> CpuState::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

Array CpuState::get(const std::string& name) const {
  const Entry& entry = find(name);
  return view_elements(entry.type, entry.memory.data()).copy();
}

void CpuState::set(const std::string& name, const Array& value) {
  const Entry& entry = find(name);
  const TensorInfo info{name, entry.type.dtype, entry.type.dims(), {}, {}, false};
  check_shape("state", info, value.shape());
  // Converted beside the state: one that is refused leaves it as it was.
  std::vector<uint32_t> elements(static_cast<size_t>(entry.type.size()));
  take_elements("state", info, TensorView::of(value), elements.data());
  if (!elements.empty()) std::memcpy(entry.memory.data(), elements.data(), elements.size() * 4);
  if (!entry.type.is_float()) {
    entry.bounds.forget();
    return;
  }
  auto* values = reinterpret_cast<float*>(entry.memory.data());
  if (half_ && entry.type.dtype == DType::fp16) round_halves(values, entry.type.size());
  entry.bounds.reset(values);
}

std::unique_ptr<State> CpuState::clone() const {
  std::unique_ptr<CpuState> out(new CpuState(half_));
  for (const auto& [name, entry] : entries_) {
    Entry copy{entry.type, Buffer(entry.memory.size()), entry.bounds};
    if (copy.memory.size()) std::memcpy(copy.memory.data(), entry.memory.data(), copy.memory.size());
    out->entries_.emplace(name, std::move(copy));
  }
  return out;
}

uint64_t CpuState::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry.memory.size();
  return sum;
}

const CpuState::Entry& CpuState::find(const std::string& name) const {
  const auto it = entries_.find(name);
  if (it != entries_.end()) return it->second;
  std::string known;
  for (const auto& [other, entry] : entries_) known += (known.empty() ? "" : ", ") + other;
  throw errorf("there is no state '{}'", name).expected(known.empty() ? "a function without states" : known);
}

}  // namespace anemone
