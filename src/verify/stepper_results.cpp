// What a call gives: logits, choices, results of a text, and the values inside.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "package/package.h"
#include "verify/stepper.h"

namespace anemone {

// A value that nothing uses says nothing about the result.
const Stepper::TapList& Stepper::taps_of(size_t index, const std::string& function) const {
  const auto [it, fresh] = taps_.try_emplace({index, function});
  TapList& out = it->second;
  const Function* f = fresh ? bundle_->package(index).program.find_function(function) : nullptr;
  if (!f) return out;
  std::set<const Value*> used(f->body.outputs.begin(), f->body.outputs.end());
  for_each_op(f->body, [&](const Operation& op) {
    for (const Input& in : op.inputs)
      for (const Binding& b : in.bindings) used.insert(b.value);
  });
  std::set<std::string> names;
  for (const auto& op : f->body.ops)
    for (const auto& value : op->outputs)
      if (used.contains(value.get())) names.insert(value->name);
  for (const Tap& tap : info().stages[index].taps) {
    const InnerName name{tap.name, tap.layer < 0 ? -1 : tap.layer - first_layer_};
    const bool logits = tap.name == "logits";
    if (!names.contains(tap.value)) {
      if (!logits) out.unused.push_back(name);
    } else if (options_.taps || logits) {
      out.used.emplace_back(tap, name);
    }
  }
  return out;
}

// Tapped values as [tokens, width], padding left out.
void Stepper::take_inner(size_t index, const std::string& function, const Prediction& result,
                         const Pass& pass, StepResult& out) const {
  if (!options_.taps) return;
  const TapList& taps = taps_of(index, function);
  out.unused.insert(out.unused.end(), taps.unused.begin(), taps.unused.end());
  for (const auto& [tap, name] : taps.used) {
    const Array& array = result.at(tap.value);
    const std::vector<int64_t>& shape = array.shape();
    if (shape.size() != 4 || shape[0] != 1 || shape[2] != pass.width || tap.name == "logits") continue;
    const int64_t outer = shape[1], inner = shape[3];
    std::vector<float> values(static_cast<size_t>(pass.tokens * outer * inner));
    double largest = 0;
    for (int64_t a = 0; a < outer; ++a)
      for (int64_t t = 0; t < pass.tokens; ++t)
        for (int64_t b = 0; b < inner; ++b) {
          const float v = array.values<float>()[static_cast<size_t>((a * pass.width + t) * inner + b)];
          largest = std::isfinite(v) ? std::max(largest, std::abs(static_cast<double>(v))) : INFINITY;
          values[static_cast<size_t>((t * outer + a) * inner + b)] =
              static_cast<float>(static_cast<double>(v) / tap.scale);
        }
    out.magnitudes[name] = largest;
    out.inner[name] = std::move(values);
  }
}

// What recurrent layers remember, after a call of one token: of several it is known for the last alone.
void Stepper::take_memory(const StageFunction& function, const Pass& pass, const Caches& caches,
                          StepResult& out) const {
  if (!options_.taps || pass.tokens != 1) return;
  for (const auto* ports : {&function.interface.states, &function.interface.inputs})
    for (const Port& port : *ports)
      if (port.role.kind == Role::Kind::recurrent) {
        const int64_t layer = port.role.layers.front() - first_layer_;
        out.inner[{"recurrent", layer}] = caches.layers.at(static_cast<size_t>(layer)).recurrent;
      }
}

void Stepper::take_text(const StageFunction& function, const Prediction& result, const Pass& pass,
                        StepResult& out) const {
  const auto rows = [&](const Port& port, int64_t count) {
    const Array& array = result.at(port.name);
    const int64_t width = array.shape().at(1), columns = array.shape().at(2);
    std::vector<float> values(static_cast<size_t>(count * width));
    for (int64_t t = 0; t < count; ++t)
      for (int64_t c = 0; c < width; ++c)
        values[static_cast<size_t>(t * width + c)] =
            array.values<float>()[static_cast<size_t>(c * columns + t)];
    return values;
  };
  for (const Port& port : function.interface.outputs) {
    if (port.role.kind == Role::Kind::stream) out.hidden = rows(port, pass.tokens);
    if (port.role.kind == Role::Kind::pooled) out.pooled = rows(port, 1);
    if (port.role.kind == Role::Kind::classes) out.classes = rows(port, info().pooling ? 1 : pass.tokens);
  }
}

// Of a bundle that picks, its logits are looked up inside, where they have names.
void Stepper::take_logits(const StageFunction& function, size_t stage, const Prediction& result,
                          const Pass& pass, StepResult& out) const {
  const auto take = [&](const Array& logits, int64_t first, int64_t last) {
    if (out.logits.empty()) return;
    for (int64_t t = 0; t < pass.tokens; ++t)
      for (int64_t r = 0; r < last - first; ++r)
        out.logits[static_cast<size_t>(t * info().vocab + first + r)] =
            logits.values<float>()[static_cast<size_t>(r * pass.width + t)];
  };
  size_t piece = 0;
  for (const Port& port : function.interface.outputs) {
    if (port.role.kind == Role::Kind::logits) take(result.at(port.name), port.role.first, port.role.last);
    if (port.role.kind != Role::Kind::best) continue;
    const Array* inside = nullptr;
    for (const Tap& tap : info().stages[stage].taps)
      if (tap.name == "logits" && tap.layer == static_cast<int64_t>(piece))
        if (const auto it = result.outputs.find(tap.value); it != result.outputs.end()) inside = &it->second;
    ++piece;
    if (inside)
      take(*inside, port.role.first, port.role.last);
    else
      out.logits.clear();
  }
}

void Stepper::take_best(const StageFunction& function, const Prediction& result, const Pass& pass,
                        std::vector<float>& best_value, StepResult& out) const {
  const auto& outputs = function.interface.outputs;
  for (const Port& port : outputs) {
    if (port.role.kind != Role::Kind::best) continue;
    const Port* high = find_port(outputs, port.role.as(Role::Kind::best_high));
    const Port* low = find_port(outputs, port.role.as(Role::Kind::best_low));
    if (!high || !low)
      throw errorf("'{}' has no numbers that say where it is", port.name).at(path().string());
    for (int64_t t = 0; t < pass.tokens; ++t) {
      const auto at = [&](const Port& p) {
        return result.at(p.name).values<float>()[static_cast<size_t>(t)];
      };
      float& best = best_value[static_cast<size_t>(t)];
      int64_t& row = out.best[static_cast<size_t>(t)];
      if (row >= 0 && !(at(port) > best)) continue;
      best = at(port);
      const float h = at(*high), l = at(*low);
      const bool sane = h >= 0 && h < 1e6f && l >= 0 && l < 1e6f;
      row = sane ? port.role.first + static_cast<int64_t>(h) * kIndexBase + static_cast<int64_t>(l) : -1;
    }
  }
}

}  // namespace anemone
