// Numbers, indices, flags and words that stand in the program: an epsilon, an axis, the bounds of a slice.
#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/half.h"
#include "mil/stored.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

constexpr int64_t kMostElements = 16;  // larger ones are weights

// What a 1x1 convolution does not look at.
bool is_inert(const std::string& name) {
  for (const char* end : {"_strides", "_dilations", "_groups", "_pad_type"})
    if (name.ends_with(end)) return true;
  return false;
}

std::vector<std::string> users_of(const Function& f, const Operation& op) {
  std::vector<std::string> out;
  for (const auto& user : f.body.ops)
    for (const Input& in : user->inputs)
      for (const Binding& b : in.bindings)
        if (b.value && b.value->producer == &op) out.push_back(user->name());
  return out;
}

bool is_small(const Constant& c) {
  return !c.is_blob() && c.type.is_tensor() && c.type.fixed() && c.type.size() <= kMostElements;
}

// A new value for a constant; nothing where it stays the same.
using Remake = std::function<std::optional<Constant>(const Constant&)>;

Remake number_times(double factor) {
  return [factor](const Constant& c) -> std::optional<Constant> {
    if (!c.type.is_float()) return std::nullopt;
    std::vector<float> values = decode_floats(*stored_constant(c));
    bool changed = false;
    for (float& v : values) {
      const auto next = static_cast<float>(static_cast<double>(v) * factor);
      changed = changed || next != v;
      v = next;
    }
    if (!changed) return std::nullopt;
    return Constant::numbers(values, c.type.dtype, c.type.shape);
  };
}

Remake with_ints(const std::function<bool(std::vector<int32_t>&)>& change) {
  return [change](const Constant& c) -> std::optional<Constant> {
    if (c.type.dtype != DType::int32) return std::nullopt;
    std::vector<int32_t> values = decode_ints(*stored_constant(c));
    if (!change(values)) return std::nullopt;
    Constant::Bytes bytes(values.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return Constant::from_bytes(c.type, std::move(bytes));
  };
}

Remake entry_plus(size_t at, int32_t more) {
  return with_ints([=](std::vector<int32_t>& v) {
    if (at >= v.size()) return false;
    v[at] += more;
    return true;
  });
}

Remake entries_swapped(size_t a, size_t b) {
  return with_ints([=](std::vector<int32_t>& v) {
    if (b >= v.size() || v[a] == v[b]) return false;
    std::swap(v[a], v[b]);
    return true;
  });
}

Remake flag_flipped(size_t at) {
  return [at](const Constant& c) -> std::optional<Constant> {
    if (c.type.dtype != DType::boolean || c.is_strings()) return std::nullopt;
    std::vector<int32_t> values = decode_ints(*stored_constant(c));
    if (at >= values.size()) return std::nullopt;
    values[at] = values[at] ? 0 : 1;
    Constant::Bytes bytes;
    for (const int32_t v : values) bytes.push_back(static_cast<std::byte>(v));
    return Constant::from_bytes(c.type, std::move(bytes));
  };
}

Remake word_changed() {
  return [](const Constant& c) -> std::optional<Constant> {
    static const std::map<std::string, std::string> kOther = {{"EXACT", "TANH_APPROXIMATION"},
                                                              {"TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"},
                                                              {"SIGMOID_APPROXIMATION", "EXACT"},
                                                              {"constant", "replicate"},
                                                              {"valid", "same_lower"}};
    if (!c.is_strings()) return std::nullopt;
    const auto& strings = std::get<Constant::Strings>(c.data);
    const auto it = strings.size() == 1 ? kOther.find(strings[0]) : kOther.end();
    if (it == kOther.end()) return std::nullopt;
    return Constant::text(it->second);
  };
}

// Whether an operation's type rule still holds when constants that it takes are others.
using NewConstants = std::map<const Value*, Constant>;
bool holds_with(const Operation& op, const NewConstants& next, Opset opset) {
  Operation changed;
  changed.type = op.type;
  changed.inputs = op.inputs;
  changed.attributes = op.attributes;
  for (Input& in : changed.inputs)
    for (Binding& b : in.bindings)
      if (const auto it = next.find(b.value); it != next.end())
        b = {nullptr, std::make_shared<Constant>(it->second), ""};
  for (const auto& value : op.outputs) {
    changed.outputs.push_back(std::make_unique<Value>());
    changed.outputs.back()->type = value->type;
  }
  return types_hold(changed, opset);
}

bool users_hold(const Function& f, const NewConstants& next) {
  for (const auto& user : f.body.ops)
    for (const Input& in : user->inputs)
      for (const Binding& b : in.bindings)
        if (b.value && next.contains(b.value) && !holds_with(*user, next, f.opset)) return false;
  return true;
}

// What the value of a `const` operation becomes; empty where it cannot.
NewConstants remade(const Function& f, const Operation& op, const Remake& remake) {
  NewConstants out;
  if (op.type != "const") return out;
  if (std::optional<Constant> next = remake(op.attributes.at("val"))) {
    out.emplace(op.outputs[0].get(), std::move(*next));
    if (!users_hold(f, out)) out.clear();
  }
  return out;
}

// Both bounds of a slice move by one along an axis.
NewConstants slice_moved(const Function& f, const Operation& op, size_t axis, int32_t by) {
  NewConstants out;
  for (const char* bound : {"begin", "end"}) {
    const Value* value = op.value(bound);
    if (!value || !value->constant()) return {};
    std::optional<Constant> next = entry_plus(axis, by)(*value->constant());
    if (!next) return {};
    const std::vector<int32_t> now = decode_ints(*stored_constant(*next));
    const Dim size = op.input("x")->bindings[0].type().dim(static_cast<int>(axis));
    if (now[axis] < 0 || !size.known() || now[axis] > size.size()) return {};
    out.emplace(value, std::move(*next));
  }
  if (!users_hold(f, out)) out.clear();
  return out;
}

// Finds the operation by its name in any function and gives its constants their new values.
Change changed(const std::string& name,
               const std::function<NewConstants(const Function&, const Operation&)>& make) {
  return [=](Function& f) {
    const Operation* op = find_op(f, name);
    if (!op) return false;
    NewConstants next = make(f, *op);
    for (auto& [value, constant] : next) value->producer->attributes.at("val") = std::move(constant);
    return !next.empty();
  };
}

struct Kind {
  std::string name, detail;
  Remake remake;
};

std::vector<Kind> kinds_for(const Constant& c) {
  std::vector<Kind> out;
  if (c.is_strings()) return {{"word changed", "", word_changed()}};
  const auto n = static_cast<size_t>(c.type.size());
  if (c.type.is_float()) {
    out = {{"number times 1.05", "", number_times(1.05)},
           {"number times 100", "", number_times(100)},
           {"number negated", "", number_times(-1)},
           {"number zeroed", "", number_times(0)}};
  } else if (c.type.dtype == DType::int32) {
    for (size_t i = 0; i < n; ++i) {
      out.push_back({"index one more", fmt::format("entry {}", i), entry_plus(i, 1)});
      out.push_back({"index one less", fmt::format("entry {}", i), entry_plus(i, -1)});
      for (size_t j = i + 1; j < n; ++j)
        out.push_back({"indices swapped", fmt::format("entries {} and {}", i, j), entries_swapped(i, j)});
    }
  } else if (c.type.dtype == DType::boolean) {
    for (size_t i = 0; i < n; ++i)
      out.push_back({"flag flipped", fmt::format("entry {}", i), flag_flipped(i)});
  }
  return out;
}

}  // namespace

std::vector<GraphSite> constant_graph_sites(const Subject& subject, Rng&) {
  std::vector<GraphSite> out;
  each_op(subject, [&](const std::string& package, const Function& f, const Operation& op) {
    if (op.type == "const" && is_small(op.attributes.at("val")) && !is_inert(op.name()))
      for (const Kind& kind : kinds_for(op.attributes.at("val")))
        if (!remade(f, op, kind.remake).empty())
          out.push_back({kind.name, package, op.name(), kind.detail,
                         changed(op.name(),
                                 [remake = kind.remake](const Function& g, const Operation& o) {
                                   return remade(g, o, remake);
                                 }),
                         users_of(f, op)});
    if (op.type != "slice_by_index") return;
    for (size_t axis = 0; axis < op.outputs[0]->type.shape.size(); ++axis)
      for (const int32_t by : {1, -1})
        if (!slice_moved(f, op, axis, by).empty())
          out.push_back({"slice moved", package, op.name(), fmt::format("axis {} by {}", axis, by),
                         changed(op.name(), [=](const Function& g, const Operation& o) {
                           return slice_moved(g, o, axis, by);
                         })});
  });
  return out;
}

std::vector<Mutation> constant_sites(const Subject& subject, Rng& rng) {
  return mutations_of("constants", subject, constant_graph_sites(subject, rng));
}

}  // namespace anemone::mutation
