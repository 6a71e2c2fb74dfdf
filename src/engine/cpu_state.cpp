#include "engine/cpu_state.h"

#include <cstring>

#include "base/error.h"
#include "base/shape.h"
#include "kernels/convert.h"

namespace anemone {

CpuState::CpuState(const Function& function, Arithmetic arithmetic) {
  for (const auto& input : function.inputs) {
    if (input->type.kind != Type::Kind::state) continue;
    try {
      const Type content = input->type.content();
      const bool halves = keeps_halves(content, arithmetic);
      Entry entry{content, halves, Buffer::zeros(packed_bytes(content.size(), halves ? 16 : 32)),
                  StateBounds(content)};
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
  if (!entry.halves) return view_elements(entry.type, entry.memory.data()).copy();
  std::vector<float> values(static_cast<size_t>(entry.type.size()));
  halves_to_floats(entry.memory.data(), entry.type.size(), values.data());
  return view_elements(entry.type, values.data()).copy();
}

void CpuState::set(const std::string& name, const Array& value) {
  const Entry& entry = find(name);
  const TensorInfo info{name, entry.type.dtype, entry.type.dims(), {}, {}, false};
  check_shape("state", info, value.shape());
  // Converted beside the state: one that is refused leaves it as it was.
  std::vector<uint32_t> elements(static_cast<size_t>(entry.type.size()));
  take_elements("state", info, TensorView::of(value), elements.data());
  auto* values = reinterpret_cast<float*>(elements.data());
  if (entry.halves) {
    round_halves(values, entry.type.size());
    floats_to_halves(values, entry.type.size(), reinterpret_cast<uint16_t*>(entry.memory.data()));
  } else if (!elements.empty()) {
    std::memcpy(entry.memory.data(), elements.data(), elements.size() * 4);
  }
  entry.type.is_float() ? entry.bounds.reset(values) : entry.bounds.forget();
}

std::unique_ptr<State> CpuState::clone() const {
  std::unique_ptr<CpuState> out(new CpuState);
  for (const auto& [name, entry] : entries_) {
    Entry copy{entry.type, entry.halves, Buffer(entry.memory.size()), entry.bounds};
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
