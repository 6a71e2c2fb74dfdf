// Experts. All of them computed: the router's choice is a mask over what they give. No gather, no topk, no integers:
// the Neural Engine takes every operation. Or some of them, over shares that the host has chosen.
#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "lower/ops.h"
#include "lower/scope.h"

namespace anemone::lower {
namespace {

constexpr float kFar = 60000;  // beyond all logits, and inside fp16

class ExpertsBuilder {
 public:
  ExpertsBuilder(Scope& scope, size_t layer, const Experts& experts)
      : s_(scope), b_(scope.builder()), e_(experts), layer_(layer), at_(fmt::format("l{}_", layer)) {}

  Value* build(Value* h, double factor) {
    Value* weights = shares(router_logits(h));
    s_.list(weights, "shares", static_cast<int64_t>(layer_));
    return with_shared(sum_up(0, e_.choices(), weights, h, factor), h, factor);
  }

  // What the chosen experts gave, and what the one that every token uses gives.
  Value* with_shared(Value* sum, Value* h, double factor) {
    if (!e_.shared) return sum;
    const auto index = static_cast<int64_t>(layer_);
    const std::string at = at_ + "shared_";
    s_.tap(sum, "chosen_out", index, factor);
    Value* y = s_.project(gated(s_, e_.shared->mlp, h, at).product, e_.shared->mlp.down, factor, at + "down");
    s_.tap(y, "shared_out", index, factor);
    if (e_.shared->share.weight) {
      Value* share =
          b_.op("sigmoid", {{"x", project(h, e_.shared->share, at + "share")}}, at + "share_sigmoid");
      s_.tap(share, "shared_share", index);
      y = mul(b_, y, share, at + "weighted");
    }
    return add(b_, sum, y, at + "sum");
  }

  // Choices [first, last), whose shares are the rows of `weights`.
  Value* sum_up(int64_t first, int64_t last, Value* weights, Value* h, double factor) {
    Value* sum = nullptr;
    for (int64_t i = first; i < last; ++i) {
      if (i == e_.count() && e_.skip == Experts::Skip::zero) break;
      const std::string at = fmt::format("{}e{}_", at_, i);
      Value* share =
          last - first == 1 ? weights : slice_axis(b_, weights, 1, i - first, i - first + 1, at + "share");
      Value* y = i < e_.count() ? expert(i, h, factor, at) : scale(b_, h, factor, at + "passed");
      y = mul(b_, y, share, at + "weighted");
      sum = sum ? add(b_, sum, y, at + "sum") : y;
    }
    return sum;
  }

  Value* router_logits(Value* h) {
    const std::string at = at_ + "router";
    Value* x = h;
    if (const auto& n = e_.router.network) {
      x = project(x, n->down, at + "_down");
      if (n->carry) {
        Value* gain = s_.weights().vector(b_, n->carry, {1, n->width, 1, 1}, 0, 1, at + "_carry");
        x = add(b_, x, mul(b_, s_.carried(), gain, at + "_carried"), at + "_state");
      }
      s_.carry(x);
      x = s_.norm(x, n->norm, 1, 1, at + "_norm");
      x = s_.activate(project(x, n->first, at + "_first"), Activation::gelu, at + "_first_act");
      x = s_.activate(project(x, n->second, at + "_second"), Activation::gelu, at + "_second_act");
    }
    return project(x, e_.router.logits, at);
  }

 private:
  // A projection that stays in fp16.
  Value* project(Value* x, const Projection& p, const std::string& name) {
    Value* w =
        s_.weights().vector(b_, p.weight, {p.weight.rows(), p.weight.columns, 1, 1}, 0, 1, name + "_weight");
    Value* bias = p.bias ? s_.weights().vector(b_, p.bias, {p.weight.rows()}, 0, 1, name + "_bias") : nullptr;
    return conv1x1(b_, x, w, bias, name);
  }

  // By how much each choice counts: [1, choices, T, 1], 0 for those that are not chosen.
  Value* shares(Value* logits) {
    const bool of_all = e_.share == Experts::Share::of_all;
    Value* p = of_all || e_.router.choice_bias ? softmax(logits, at_ + "router_all") : nullptr;
    Value* scores = logits;
    if (e_.router.choice_bias)
      scores = add(b_, p,
                   s_.weights().vector(b_, e_.router.choice_bias, {1, e_.choices(), 1, 1}, 0, 1,
                                       at_ + "router_choice_bias"),
                   at_ + "router_scores");
    s_.tap(scores, "router", static_cast<int64_t>(layer_));
    Value* chosen = choose(scores);
    if (of_all)
      return b_.op("select", {{"cond", chosen}, {"a", p}, {"b", half(0)}}, fmt::format("shares_{}", layer_));
    Value* kept = b_.op("select", {{"cond", chosen}, {"a", logits}, {"b", half(-kFar)}}, at_ + "router_kept");
    return softmax(kept, fmt::format("shares_{}", layer_));
  }

  Value* softmax(Value* x, const std::string& name) {
    return b_.op("softmax", {{"x", x}, {"axis", Constant::integer(1)}}, name);
  }

  // Which are chosen. The best one is taken out as often as there are choices; of equal ones the first.
  Value* choose(Value* scores) {
    std::vector<float> numbers(static_cast<size_t>(e_.choices()));
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    Value* number =
        b_.constant(Constant::numbers(numbers, kHalf, {1, e_.choices(), 1, 1}), at_ + "router_numbers");
    const Constant axes = Constant::ints({1}), keep = Constant::boolean(true);
    for (int64_t i = 0; i < e_.used; ++i) {
      const std::string at = fmt::format("{}router_pick_{}", at_, i);
      Value* best = b_.op("reduce_max", {{"x", scores}, {"axes", axes}, {"keep_dims", keep}}, at + "_best");
      Value* is_best = b_.op("greater_equal", {{"x", scores}, {"y", best}}, at + "_is_best");
      Value* gap = b_.op("sub", {{"x", best}, {"y", scores}}, at + "_gap");
      Value* far = b_.op("select", {{"cond", is_best}, {"a", gap}, {"b", half(kFar)}}, at + "_far");
      Value* places = add(b_, far, number, at + "_places");
      Value* first = b_.op("reduce_min", {{"x", places}, {"axes", axes}, {"keep_dims", keep}}, at + "_first");
      Value* is_first = b_.op("equal", {{"x", number}, {"y", first}}, at);
      scores = b_.op("select", {{"cond", is_first}, {"a", half(-kFar)}, {"b", scores}}, at + "_rest");
    }
    return b_.op("less", {{"x", scores}, {"y", half(-kFar / 2)}}, at_ + "router_chosen");
  }

  Value* expert(int64_t index, Value* h, double factor, const std::string& at) {
    const GatedMlp& mlp = e_.experts[static_cast<size_t>(index)];
    return s_.project(gated(s_, mlp, h, at).product, mlp.down, factor, at + "down");
  }

  Scope& s_;
  Builder& b_;
  const Experts& e_;
  size_t layer_;
  std::string at_;
};

}  // namespace

Value* lower_block(Scope& scope, size_t layer, const Experts& experts, Value* h, double factor) {
  return ExpertsBuilder(scope, layer, experts).build(h, factor);
}

Value* lower_router(Scope& scope, size_t layer, const Experts& experts, Value* h) {
  return ExpertsBuilder(scope, layer, experts).router_logits(h);
}

Value* lower_shared(Scope& scope, size_t layer, const Experts& experts, Value* chosen, Value* h,
                    double factor) {
  return ExpertsBuilder(scope, layer, experts).with_shared(chosen, h, factor);
}

Value* lower_experts(Scope& scope, const Experts& experts, const ExpertsSpec& spec, double factor) {
  return ExpertsBuilder(scope, spec.layer, experts)
      .sum_up(spec.first, spec.last, scope.shares(), scope.x(), factor);
}

}  // namespace anemone::lower
