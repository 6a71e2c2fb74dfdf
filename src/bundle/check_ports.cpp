#include "bundle/check_ports.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shape.h"

namespace anemone {
namespace {

using Kind = Role::Kind;

constexpr int64_t kAny = -1;  // of a dimension: bundle.json does not say it, or the package does not fix it

// The size that a port has in a call of `width` columns; empty where nothing is said.
std::vector<int64_t> expected_shape(const Role& role, const BundleInfo& info, int64_t width,
                                    int64_t context) {
  const auto layers = static_cast<int64_t>(role.layers.size());
  switch (role.kind) {
    case Kind::stream:
    case Kind::normed:
    case Kind::mixed: return {1, info.hidden, width, 1};
    case Kind::router:
    case Kind::shares: return {1, role.last - role.first, width, 1};
    case Kind::carried: return {1, kAny, width, 1};
    case Kind::cos:
    case Kind::sin: return {1, 1, width, static_cast<int64_t>(info.ropes.at(role.index).frequencies.size())};
    case Kind::mask:
      return {1, 1, info.masks.at(role.index).kind == Reach::Kind::full ? 1 : width,
              context ? context : width};
    case Kind::write: return {1, 1, context, width};
    case Kind::position: return {1};
    case Kind::advance: {
      const auto columns = static_cast<int64_t>(role.index);
      return {1, 1, columns ? columns : kAny, columns && width >= 0 ? columns + width : kAny};
    }
    case Kind::pool: return {1, 1, width, 1};
    case Kind::keys:
    case Kind::values: return {layers, kAny, context, kAny};
    case Kind::recurrent:
    case Kind::new_recurrent: return {1, 1, kAny, kAny};
    case Kind::new_keys:
    case Kind::new_values: return {1, kAny, width, kAny};
    case Kind::logits: return {1, role.last - role.first, width, 1};
    case Kind::best:
    case Kind::best_high:
    case Kind::best_low: return {1, 1, width, 1};
    case Kind::pooled: return {1, info.hidden, 1, 1};
    case Kind::classes: return {1, static_cast<int64_t>(info.labels.size()), info.pooling ? 1 : width, 1};
  }
  return {};
}

std::string text(const std::vector<int64_t>& shape) {
  std::string out;
  for (const int64_t d : shape) out += (out.empty() ? "" : ", ") + (d == kAny ? "any" : fmt::format("{}", d));
  return "[" + out + "]";
}

// The field of bundle.json that says the size of such a port; empty: several do.
std::string field_of(const Role& role) {
  switch (role.kind) {
    case Kind::stream:
    case Kind::normed:
    case Kind::mixed:
    case Kind::pooled: return "model.hidden";
    case Kind::cos:
    case Kind::sin: return fmt::format("ropes[{}].frequencies", role.index);
    case Kind::mask: return fmt::format("masks[{}]", role.index);
    default: return "";
  }
}

void expect_shape(const std::string& name, const std::vector<int64_t>& found,
                  const std::vector<int64_t>& expected, const std::string& field = "") {
  const bool fits = std::equal(found.begin(), found.end(), expected.begin(), expected.end(),
                               [](int64_t a, int64_t b) { return a == kAny || b == kAny || a == b; });
  if (!fits)
    throw errorf("'{}' has another shape than bundle.json says", name)
        .found(text(found))
        .expected(text(expected) + (field.empty() ? "" : fmt::format(" by tokens and {}", field)));
}

// A size that is not fixed must allow all numbers of tokens that the function is for.
void expect_range(const TensorInfo& info, const StageFunction& f) {
  for (size_t d = 0; d < info.shape.size() && d < info.range.size(); ++d) {
    const auto& [least, most] = info.range[d];
    if (info.shape[d] != kAny || (least <= f.least_tokens && (most < 0 || f.most_tokens <= most))) continue;
    throw errorf("'{}' does not allow the numbers of tokens that bundle.json says", info.name)
        .found(fmt::format("{} to {}", least, most))
        .expected(fmt::format("{} to {}", f.least_tokens, f.most_tokens));
  }
}

}  // namespace

void PortCheck::stage(const Stage& stage, const std::vector<Signature>& package) {
  std::map<std::string, Role> states;  // functions share them by name
  for (const StageFunction& f : stage.functions) {
    const auto signature = std::find_if(package.begin(), package.end(),
                                        [&](const Signature& s) { return s.function == f.name; });
    if (signature == package.end())
      throw errorf("the package '{}' has no function '{}'", stage.package, f.name);
    try {
      side(f, signature->inputs, f.interface.inputs, "input");
      side(f, signature->states, f.interface.states, "state");
      side(f, signature->outputs, f.interface.outputs, "output");
      for (const Port& port : f.interface.states)
        if (!(states.try_emplace(port.name, port.role).first->second == port.role))
          throw errorf("the state '{}' has another role, layer or slot than in another function", port.name);
    } catch (Error& e) {
      e.within(fmt::format("function '{}' of '{}'", f.name, stage.package));
      throw;
    }
  }
}

void PortCheck::side(const StageFunction& f, const std::vector<TensorInfo>& declared,
                     const std::vector<Port>& ports, const char* what) {
  const int64_t width = f.least_tokens == f.most_tokens ? f.least_tokens : kAny;
  std::set<std::string> left;
  for (const TensorInfo& info : declared)
    if (!info.optional) left.insert(info.name);
  for (const Port& port : ports) {
    const auto info = std::find_if(declared.begin(), declared.end(),
                                   [&](const TensorInfo& i) { return i.name == port.name; });
    if (info == declared.end()) throw errorf("the package has no {} '{}'", what, port.name);
    left.erase(port.name);
    expect_shape(port.name, info->shape, expected_shape(port.role, info_, width, f.context),
                 field_of(port.role));
    expect_range(*info, f);
    remember(port, info->shape);
  }
  // Outputs that nobody uses do no harm.
  if (!left.empty() && std::string_view(what) != "output")
    throw errorf("bundle.json has no role for the {} '{}' of the package", what, *left.begin());
}

void PortCheck::remember(const Port& port, std::vector<int64_t> shape) {
  const bool kept = port.role.kind == Kind::new_recurrent;
  if (!is_cache(port.role.kind) && port.role.kind != Kind::recurrent && !kept) return;
  if (is_cache(port.role.kind)) shape[0] = shape[2] = 1;
  for (const int64_t layer : port.role.layers) {
    const Memory memory{kept ? Kind::recurrent : port.role.kind, layer, port.role.index};
    const auto [it, fresh] = memories_.try_emplace(memory, shape);
    if (!fresh) expect_shape(port.name, shape, it->second);
  }
}

void check_output(const std::vector<int64_t>& shape, const Port& port, const BundleInfo& info,
                  int64_t width) {
  switch (port.role.kind) {
    case Kind::new_keys:
    case Kind::new_values:
    case Kind::new_recurrent: return;
    default: expect_shape(port.name, shape, expected_shape(port.role, info, width, 0));
  }
}

}  // namespace anemone
