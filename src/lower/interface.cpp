#include "lower/interface.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace anemone {
namespace {

using Kind = Role::Kind;

constexpr std::pair<Kind, std::string_view> kNames[] = {
    {Kind::stream, "stream"},
    {Kind::carried, "carried"},
    {Kind::cos, "cos"},
    {Kind::sin, "sin"},
    {Kind::mask, "mask"},
    {Kind::write, "write"},
    {Kind::position, "position"},
    {Kind::keys, "keys"},
    {Kind::values, "values"},
    {Kind::new_keys, "new_keys"},
    {Kind::new_values, "new_values"},
    {Kind::recurrent, "recurrent"},
    {Kind::new_recurrent, "new_recurrent"},
    {Kind::advance, "advance"},
    {Kind::logits, "logits"},
    {Kind::best, "best"},
    {Kind::best_high, "best_high"},
    {Kind::best_low, "best_low"},
    {Kind::router, "router"},
    {Kind::normed, "normed"},
    {Kind::shares, "shares"},
    {Kind::mixed, "mixed"},
    {Kind::pool, "pool"},
    {Kind::pooled, "pooled"},
    {Kind::classes, "classes"},
};

}  // namespace

std::string_view role_name(Kind kind) {
  for (const auto& [value, name] : kNames)
    if (value == kind) return name;
  return "";
}

Kind role_from_name(std::string_view text) {
  std::string known;
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw errorf("there is no role '{}'", text.substr(0, 40)).expected(known);
}

const Port* find_port(const std::vector<Port>& ports, Kind kind) {
  const auto it = std::ranges::find_if(ports, [&](const Port& p) { return p.role.kind == kind; });
  return it == ports.end() ? nullptr : &*it;
}

const Port* find_port(const std::vector<Port>& ports, const Role& role) {
  const auto it = std::ranges::find_if(ports, [&](const Port& p) { return p.role == role; });
  return it == ports.end() ? nullptr : &*it;
}

}  // namespace anemone
