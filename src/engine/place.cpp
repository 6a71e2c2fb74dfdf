#include "engine/place.h"

#include <unordered_map>

#include "base/error.h"
#include "engine/arena.h"

namespace anemone {
namespace {

int64_t bytes_of(const Type& type) {
  const int64_t count = type.size();
  if (count > INT64_MAX / 8) throw errorf("a value of type {} is too large", type.text());
  return count * 4;
}

}  // namespace

void place_values(Plan& plan, const std::set<int>& staying) {
  std::unordered_map<int, int> views;
  for (const auto& [step, alias] : plan.aliases) views[alias.id] = alias.of;
  const auto root = [&](int id) {
    for (auto it = views.find(id); it != views.end(); it = views.find(id)) id = it->second;
    return id;
  };
  std::unordered_map<int, size_t> last;  // the last step that looks at a value
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    for (const int id : plan.steps[s].out) last[root(id)] = s;
    for (const Source& source : plan.steps[s].in)
      if (source.id >= 0) last[root(source.id)] = s;
  }
  for (const int id : staying) last[root(id)] = plan.steps.size();

  ArenaLayout layout;
  std::vector<std::vector<size_t>> ends(plan.steps.size() + 1);  // by step: indices of places
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    for (size_t i = 0; i < step.out.size(); ++i) {
      if (views.contains(step.out[i])) continue;
      ends[last[step.out[i]]].push_back(plan.places.size());
      plan.places.push_back({step.out[i], layout.take(bytes_of(step.types[i])), step.types[i]});
    }
    for (const size_t place : ends[s])
      layout.give_back(plan.places[place].offset, bytes_of(plan.places[place].type));
  }
  plan.arena_bytes = layout.size();
}

}  // namespace anemone
