#include "engine/widen_states.h"

#include <algorithm>
#include <unordered_map>

#include "engine/fused.h"

namespace anemone {
namespace {

// Who looks at a view of a state.
struct Looks {
  size_t first;         // step
  bool floats = false;  // one of them takes nothing but floats
};

bool takes_halves(const Step& step, size_t input) {
  const auto* fused = std::get_if<RunFused>(&step.work);
  return fused && fused->kernel->takes_halves(input);
}

// The plain way of a fused step that gives this view writes the state itself: there the view keeps its memory, under a
// number of its own. True where there is such a step.
bool rename_in_plain_way(Plan& plan, int id, int renamed) {
  for (Step& step : plan.steps) {
    auto* fused = std::get_if<RunFused>(&step.work);
    if (!fused || !fused->plain) continue;
    const auto gives = [&](const Step& s) { return std::ranges::find(s.out, id) != s.out.end(); };
    if (std::ranges::none_of(fused->plain->plan().steps, gives)) continue;
    Plan plain = fused->plain->plan();
    for (Step& s : plain.steps) {
      for (Source& in : s.in)
        if (in.id == id) in.id = renamed;
      std::ranges::replace(s.out, id, renamed);
    }
    for (auto& [before, alias] : plain.aliases)
      if (alias.of == id) alias.of = renamed;
    fused->plain = std::make_shared<PlainWay>(std::move(plain));
    return true;
  }
  return false;
}

}  // namespace

void widen_states(Plan& plan, const Cells& cells, const std::set<int>& staying, const Operation* last) {
  const auto halves = [&](int id) {
    return static_cast<size_t>(id) < cells.size() && cells[static_cast<size_t>(id)].halves;
  };
  // Views of views become views of the state itself, so that each can be copied on its own.
  std::unordered_map<int, Looks> looks;
  std::unordered_map<int, const Plan::Alias*> views;
  for (auto& [before, alias] : plan.aliases) {
    if (const auto it = views.find(alias.of); it != views.end()) {
      alias.offset += it->second->offset;
      alias.of = it->second->of;
    }
    if (!halves(alias.of)) continue;
    views.emplace(alias.id, &alias);
    looks.emplace(alias.id, Looks{plan.steps.size(), staying.contains(alias.id)});
  }
  if (looks.empty()) return;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    for (size_t i = 0; i < plan.steps[s].in.size(); ++i) {
      const auto it = looks.find(plan.steps[s].in[i].id);
      if (it == looks.end()) continue;
      it->second.first = std::min(it->second.first, s);
      it->second.floats |= !takes_halves(plan.steps[s], i);
    }
  std::vector<std::vector<Step>> copies(plan.steps.size() + 1);  // before each step
  std::vector<std::pair<size_t, Plan::Alias>> rest;
  for (auto& [before, alias] : plan.aliases) {
    const auto it = looks.find(alias.id);
    if (it == looks.end() || !it->second.floats) {
      rest.emplace_back(before, std::move(alias));
      continue;
    }
    if (rename_in_plain_way(plan, alias.id, plan.values)) {
      Plan::Alias view = alias;
      view.id = plan.values++;
      rest.emplace_back(before, std::move(view));
    }
    const size_t at = it->second.first;
    copies[at].push_back({ReadState{alias.offset},
                          {{alias.of, nullptr}},
                          {alias.type},
                          {alias.id},
                          at < plan.steps.size() ? plan.steps[at].operation : last});
  }
  std::vector<Step> steps;
  std::vector<size_t> moved(plan.steps.size() + 1);  // old number → new
  for (size_t s = 0; s <= plan.steps.size(); ++s) {
    moved[s] = steps.size();
    for (Step& copy : copies[s]) steps.push_back(std::move(copy));
    if (s < plan.steps.size()) steps.push_back(std::move(plan.steps[s]));
  }
  for (auto& [before, alias] : rest) before = moved[before];
  plan.steps = std::move(steps);
  plan.aliases = std::move(rest);
}

}  // namespace anemone
