#include "bundle/check_experts.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace anemone {
namespace {

using Kind = Role::Kind;

constexpr int64_t kMostExperts = 1 << 16;

void check_rule(const ExpertRule& rule) {
  if (rule.experts < 1 || rule.experts > kMostExperts)
    throw errorf("the field 'rule.experts' is {}", rule.experts)
        .expected(fmt::format("1 to {}", kMostExperts));
  if (rule.used < 1 || rule.used > rule.choices())
    throw errorf("the field 'rule.used' is {}", rule.used).expected(fmt::format("1 to {}", rule.choices()));
  if (!std::isfinite(rule.skip_scale)) throw errorf("the field 'rule.skip_scale' is not a number");
  if (!rule.choice_bias.empty() && static_cast<int64_t>(rule.choice_bias.size()) != rule.choices())
    throw errorf("the field 'rule.choice_bias' has {} numbers", rule.choice_bias.size())
        .expected(fmt::format("one for each of {} choices", rule.choices()));
  for (const double b : rule.choice_bias)
    if (!std::isfinite(b)) throw errorf("the field 'rule.choice_bias' has something that is not a number");
}

const Port& need(const std::vector<Port>& ports, Kind kind, const char* side) {
  const Port* port = find_port(ports, kind);
  if (!port) throw errorf("no {} has the role '{}'", side, role_name(kind));
  return *port;
}

void check_route(const Stage& stage) {
  if (!stage.rule) throw errorf("the field 'rule' is missing").hint("a route needs a rule to choose by");
  if (!stage.has_layers()) throw errorf("a route has no layers");
  check_rule(*stage.rule);
  for (const StageFunction& f : stage.functions) {
    need(f.interface.outputs, Kind::normed, "output");
    const Role& router = need(f.interface.outputs, Kind::router, "output").role;
    if (router.first != 0 || router.last != stage.rule->choices())
      throw errorf("'{}' gives logits of choices {} to {}", f.name, router.first, router.last)
          .expected(fmt::format("{} choices, as the field 'rule' says", stage.rule->choices()));
  }
}

// The functions of a stage hold experts from `next` on; what the next stage begins with.
int64_t check_functions(const Stage& stage, int64_t next, int64_t experts) {
  int64_t end = next;
  for (const StageFunction& f : stage.functions) {
    need(f.interface.inputs, Kind::normed, "input");
    need(f.interface.outputs, Kind::mixed, "output");
    const Role& shares = need(f.interface.inputs, Kind::shares, "input").role;
    if (f.interface.inputs.size() != 2 || !f.interface.states.empty() || f.least_tokens != f.most_tokens)
      throw errorf("'{}' is no function of experts", f.name)
          .expected("two inputs, no states, and one number of tokens");
    // Functions of the same experts differ in the number of tokens.
    bool again = false;
    for (const StageFunction* other = stage.functions.data(); other != &f; ++other) {
      if (other->find_input(Kind::shares)->role != shares) continue;
      again = true;
      if (other->most_tokens == f.most_tokens)
        throw errorf("'{}' and '{}' are for the same experts and the same number of tokens", other->name,
                     f.name);
    }
    if (again) continue;
    if (shares.first != end || shares.last <= shares.first || shares.last > experts)
      throw errorf("'{}' holds experts {} to {}", f.name, shares.first, shares.last)
          .expected(fmt::format("experts from {} on, of {}", end, experts));
    end = shares.last;
  }
  return end;
}

}  // namespace

void check_experts(const BundleInfo& info) {
  const Stage* route = nullptr;  // the one whose experts come now
  int64_t next = 0;
  for (const Stage& stage : info.stages) {
    try {
      const bool behind = stage.behind_experts();
      if (stage.kind == StageKind::experts) {
        if (!route) throw errorf("there is no route before it");
        if (stage.first_layer != route->last_layer - 1 || stage.last_layer != route->last_layer)
          throw errorf("it has experts of layers {} to {}", stage.first_layer, stage.last_layer)
              .expected(fmt::format("of layer {}, whose router is before it", route->last_layer - 1));
        next = check_functions(stage, next, route->rule->experts);
        continue;
      }
      if (route && next != route->rule->experts)
        throw errorf("the stages before it hold {} experts", next)
            .expected(fmt::format("{}", route->rule->experts));
      for (const StageFunction& f : stage.functions)
        if ((f.find_input(Kind::mixed) != nullptr) != behind)
          throw errorf("some of its functions begin with a sum of experts, and others do not");
      if (behind != (route != nullptr))
        throw Error(behind ? "it begins with a sum of experts, and none come before it"
                           : "it does not begin with the sum of the experts before it");
      if (stage.kind == StageKind::sum && !behind) throw errorf("no input has the role 'mixed'");
      if (stage.kind == StageKind::run && behind) throw errorf("a stage of the kind 'run' adds no experts");
      if (stage.kind == StageKind::route) check_route(stage);
      route = stage.kind == StageKind::route ? &stage : nullptr;
      next = 0;
    } catch (Error& e) {
      e.within(fmt::format("the stage '{}'", stage.package));
      throw;
    }
  }
  if (route) throw errorf("nothing adds the experts of '{}'", route->package);
}

}  // namespace anemone
