#include "engine/plan_edit.h"

#include <algorithm>

#include "base/error.h"

namespace anemone {

PlanEdit::PlanEdit(Plan& plan, const FunctionInfo& info, const Block& block, size_t begin,
                   std::set<int> staying, bool half, bool fast)
    : plan_(plan),
      info_(info),
      block_(block),
      begin_(begin),
      half_(half),
      fast_(fast),
      removed_(plan.steps.size(), false) {
  views_.reserve(plan.aliases.size());
  maker_.reserve(plan.steps.size());
  users_.reserve(plan.steps.size());
  for (const auto& [step, alias] : plan_.aliases)
    views_.emplace(alias.id, View{alias.of, alias.offset, alias.type});
  for (const int id : staying) staying_.insert(root(id));
  for (int i = 0; i < size(); ++i) add(i);
}

void PlanEdit::add(int i) {
  for (const int id : step(i).out)
    if (!views_.contains(id)) maker_[id] = i;
  for (const Source& source : step(i).in)
    if (source.id >= 0) look(i, source.id);
}

void PlanEdit::look(int i, int id) {
  auto& users = users_[root(id)];
  const auto place = std::lower_bound(users.begin(), users.end(), i);
  if (place == users.end() || *place != i) users.insert(place, i);
}

void PlanEdit::drop(int i) {
  for (const int id : step(i).out) maker_.erase(id);
  for (const Source& source : step(i).in)
    if (source.id >= 0) std::erase(users_[root(source.id)], i);
  removed_[static_cast<size_t>(i)] = true;
}

bool PlanEdit::is(int i, std::string_view op) const {
  if (i < 0 || removed_[static_cast<size_t>(i)]) return false;
  const auto* work = std::get_if<RunOp>(&step(i).work);
  return work && work->binding.op->name == op;
}

int PlanEdit::root(int id) const {
  for (auto it = views_.find(id); it != views_.end(); it = views_.find(id)) id = it->second.of;
  return id;
}

int64_t PlanEdit::offset(int id) const {
  int64_t offset = 0;
  for (auto it = views_.find(id); it != views_.end(); it = views_.find(id)) {
    offset += it->second.offset;
    id = it->second.of;
  }
  return offset;
}

const Type& PlanEdit::type(int id) const {
  if (const auto it = views_.find(id); it != views_.end()) return it->second.type;
  const Step& made = step(maker_.at(id));
  for (size_t i = 0; i < made.out.size(); ++i)
    if (made.out[i] == id) return made.types[i];
  throw errorf("value {} is not made here", id);
}

int PlanEdit::maker(int id) const {
  const int from = root(id);
  const auto it = maker_.find(from);
  if (it == maker_.end() || type(id).size() != type(from).size()) return -1;
  return it->second;
}

const std::vector<int>& PlanEdit::users(int id) const {
  static const std::vector<int> none;
  const auto it = users_.find(root(id));
  return it == users_.end() ? none : it->second;
}

bool PlanEdit::only_for(int id, int step) const {
  const std::vector<int>& all = users(id);
  return all.size() == 1 && all[0] == step && !stays(id);
}

bool PlanEdit::owns_state(int state) const {
  if (&block_ != &info_.function().body) return false;
  int writes = 0;
  for (const auto& [value, user] : info_.block(block_).users(state)) {
    const auto i = static_cast<size_t>(user);
    const Operation& op = *block_.ops[i];
    if (i < begin_ || i >= plan_.next || !op.blocks.empty()) return false;
    if (op.type == "write_state") ++writes;
  }
  return writes == 1;
}

bool PlanEdit::changed_between(int id, int first, int last) const {
  for (const int user : users(id)) {
    if (user <= first || user >= last) continue;
    const auto* fused = std::get_if<RunFused>(&step(user).work);
    if (writes_state(user) || (fused && fused->writes == root(id))) return true;
  }
  return false;
}

int PlanEdit::operand(int step, std::string_view param, int i) const {
  const auto* work = std::get_if<RunOp>(&this->step(step).work);
  if (!work) return -1;
  const OpBinding& b = work->binding;
  for (size_t p = 0; p < b.version->params.size(); ++p)
    if (b.version->params[p].name == param) return i < b.ranges[p].count ? b.ranges[p].begin + i : -1;
  return -1;
}

const Source& PlanEdit::input(int step, std::string_view param, int i) const {
  static const Source none;
  const int k = operand(step, param, i);
  return k < 0 ? none : this->step(step).in[static_cast<size_t>(k)];
}

const Type& PlanEdit::input_type(int step, std::string_view param, int i) const {
  static const Type none;
  const int k = operand(step, param, i);
  return k < 0 ? none : binding(step).operands[static_cast<size_t>(k)].type;
}

int PlanEdit::count(int step, std::string_view param) const {
  int n = 0;
  while (operand(step, param, n) >= 0) ++n;
  return n;
}

int PlanEdit::constant(int step, std::string_view param) const {
  const int k = operand(step, param, 0);
  const Binding* source = k < 0 ? nullptr : binding(step).sources[static_cast<size_t>(k)];
  return source && source->value && info_.is_constant(info_.id(source->value)) ? info_.id(source->value) : -1;
}

void PlanEdit::remove(int step) { drop(step); }

void PlanEdit::replace(const std::vector<int>& steps, Step fused, int at) {
  Plan plain;
  std::set<int> inner;  // what the operations make
  for (const int i : steps) {
    inner.insert(step(i).out.begin(), step(i).out.end());
    drop(i);
  }
  const auto behind = [](const auto& alias, size_t step) { return alias.first <= step; };
  for (size_t n = 0; n < steps.size(); ++n) {
    if (n > 0) {
      auto it = std::lower_bound(plan_.aliases.begin(), plan_.aliases.end(),
                                 static_cast<size_t>(steps[n - 1]), behind);
      for (; it != plan_.aliases.end() && it->first <= static_cast<size_t>(steps[n]); ++it)
        if (inner.contains(root(it->second.id))) plain.aliases.push_back({n, it->second});
    }
    plain.steps.push_back(std::move(plan_.steps[static_cast<size_t>(steps[n])]));
  }
  fused.operation = plain.steps.back().operation;
  std::get<RunFused>(fused.work).plain = std::make_shared<PlainWay>(std::move(plain));
  plan_.steps[static_cast<size_t>(at)] = std::move(fused);
  removed_[static_cast<size_t>(at)] = false;
  add(at);
}

void PlanEdit::make_view(int id, int of, int64_t offset, const Type& type, int at) {
  std::vector<int> users = std::move(users_[root(id)]);
  users_.erase(root(id));
  maker_.erase(id);
  views_[id] = {of, offset, type};
  for (const int user : users) look(user, id);
  const auto place = std::lower_bound(plan_.aliases.begin(), plan_.aliases.end(), static_cast<size_t>(at),
                                      [](const auto& a, size_t step) { return a.first < step; });
  plan_.aliases.insert(place, {static_cast<size_t>(at), {id, of, type, offset}});
}

std::vector<int> PlanEdit::finish() {
  std::stable_sort(inserted_.begin(), inserted_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Step> steps;
  std::vector<int> from;                              // new number → old
  std::vector<size_t> moved(plan_.steps.size() + 1);  // old number → new
  const auto take = [&](Step& step, size_t i) {
    steps.push_back(std::move(step));
    from.push_back(static_cast<int>(i));
  };
  auto next = inserted_.begin();
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    moved[i] = steps.size();
    for (; next != inserted_.end() && static_cast<size_t>(next->first) == i; ++next) take(next->second, i);
    if (!removed_[i]) take(plan_.steps[i], i);
  }
  moved[plan_.steps.size()] = steps.size();
  for (auto& [before, alias] : plan_.aliases) before = moved[before];
  plan_.steps = std::move(steps);
  return from;
}

}  // namespace anemone
