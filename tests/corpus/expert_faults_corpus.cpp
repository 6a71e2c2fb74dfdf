// Faults in experts, each of which the ladder must find at its rung and name: by the expert, or by the rule.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "corpus/corpus.h"
#include "corpus/expert_models.h"
#include "engine/cpu_backend.h"
#include "support/temp_folder.h"
#include "verify/broken.h"
#include "verify/ladder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Change = std::function<void(BundleEditor&)>;

Change in_graph(const std::function<void(Function&)>& change) {
  return [change](BundleEditor& b) { b.edit(change); };
}

// Another value in the place and under the name of one that a function has, made of it.
Change instead(const std::string& name, const std::function<Value*(Builder&, Function&, Value*)>& make) {
  return in_graph([name, make](Function& f) {
    Value *old = find_value(f, name), *fresh = nullptr;
    if (!old) return;
    replace_by(f, old, [&](Builder& b, Value* x) { return fresh = make(b, f, x); });
    old->name += "_right";
    fresh->name = name;
  });
}

Change in_rule(const std::function<void(ExpertRule&)>& change) {
  return [change](BundleEditor& b) {
    b.edit_info([&](BundleInfo& info) {
      for (Stage& stage : info.stages)
        if (stage.rule && stage.last_layer == 2) change(*stage.rule);
    });
  };
}

Value* times(Builder& b, Value* x, double factor) {
  return b.op("mul", {{"x", x}, {"y", Constant::number(factor, DType::fp16)}}, "wrong");
}

// Over the choices.
Value* over_choices(Builder& b, const char* op, Value* x, const std::string& name) {
  return b.op(op, {{"x", x}, {"axes", Constant::ints({1})}, {"keep_dims", Constant::boolean(true)}}, name);
}

Value* half_number(Builder& b, double number, const std::string& name) {
  return b.constant(Constant::number(number, DType::fp16), name);
}

// One more than the rule says is taken out of those that are left.
Value* pick_once_more(Builder& b, Function&, Value* rest) {
  Value* best = over_choices(b, "reduce_max", rest, "more_best");
  Value* is_best = b.op("greater_equal", {{"x", rest}, {"y", best}}, "more_is_best");
  return b.op("select", {{"cond", is_best}, {"a", half_number(b, -60000, "more_far")}, {"b", rest}},
              "more_rest");
}

// The softmax over all choices instead of the chosen ones.
Value* of_all(Builder& b, Function& f, Value*) {
  Value* p = b.op("softmax", {{"x", find_value(f, "router_1")}, {"axis", Constant::integer(1)}}, "wrong_all");
  return b.op("select",
              {{"cond", find_value(f, "l1_router_chosen")}, {"a", p}, {"b", half_number(b, 0, "wrong_zero")}},
              "wrong");
}

// The other way round.
Value* renormalised(Builder& b, Function&, Value* shares) {
  return b.op("real_div", {{"x", shares}, {"y", over_choices(b, "reduce_sum", shares, "wrong_sum")}},
              "wrong");
}

// Two experts of a function, which starts with the first of all, get each other's shares.
Change swap_shares(int64_t one, int64_t other) {
  return in_graph([=](Function& f) {
    const auto take = [&](int64_t expert, int64_t share) {
      Operation* op = find_op(f, fmt::format("l1_e{}_share", expert));
      if (!op) return;
      bind(*op, "begin", Constant::ints({0, share, 0, 0}));
      bind(*op, "end", Constant::ints({0, share + 1, 0, 0}));
    };
    take(one, other);
    take(other, one);
  });
}

// Functions of the experts 0 and 1 under each other's numbers.
void swap_functions(BundleEditor& b) {
  b.edit_info([](BundleInfo& info) {
    for (Stage& stage : info.stages) {
      if (stage.kind != StageKind::experts || stage.first_layer != 1) continue;
      for (StageFunction& f : stage.functions)
        for (Port& port : f.interface.inputs)
          if (port.role.kind == Role::Kind::shares && port.role.first < 2) {
            port.role.first = 1 - port.role.first;
            port.role.last = port.role.first + 1;
          }
      std::ranges::stable_sort(stage.functions, [](const StageFunction& x, const StageFunction& y) {
        return x.find_input(Role::Kind::shares)->role.first < y.find_input(Role::Kind::shares)->role.first;
      });
    }
  });
}

class FaultCheck {
 public:
  FaultCheck(const GoldenModel& model, const TempFolder& folder, Tally& tally)
      : model_(model), folder_(folder), tally_(tally) {
    const Model described = describe(Checkpoint::open(model.checkpoint));
    experts_ = *find_experts(described.layers.at(1));
    sinks_ = static_cast<bool>(find_attention(described.layers.at(1))->sinks);
  }

  void run() {
    for (const Way& way : {host_, groups_}) rules(way);
    for (const Way& way : ways()) graph(way);
    choice(all_);
  }

 private:
  // Rung 3 looks at one token; what that token need not show is for rung 4, which looks at all of them.
  void check(const Way& way, const char* what, int rung, const std::string& words, const Change& change) {
    BundleEditor bundle(model_.checkpoint, folder_ / "b", options_of(model_, way, true));
    change(bundle);
    const VerifyReport r = verify(
        bundle.path(),
        {.source = model_.checkpoint, .steps = 6, .arithmetics = {Arithmetic::fp32}, .backend = cpu_backend});
    const Rung& last = r.rungs.back();
    const bool in_time = last.number == rung || (rung == 4 && last.number == 3);
    const bool right = !r.passed() && in_time && last.summary.find(words) != std::string::npos;
    tally_.add(fmt::format("{} {} {}", model_.name(), way.name, what),
               right ? "" : fmt::format("rung {}: {}", last.number, last.summary));
  }

  // What bundle.json says of the host's part.
  void rules(const Way& way) {
    if (experts_.used < experts_.choices())
      check(way, "k off by one", 1, "the rule of layer 1: used", in_rule([](ExpertRule& r) { ++r.used; }));
    check(way, "weights not renormalised", 1, "the rule of layer 1: shares", in_rule([](ExpertRule& r) {
            r.share = r.share == Experts::Share::of_all ? Experts::Share::of_chosen : Experts::Share::of_all;
          }));
    if (experts_.router.choice_bias)
      check(way, "biases left out", 1, "the rule of layer 1: choice_bias",
            in_rule([](ExpertRule& r) { r.choice_bias.clear(); }));
  }

  // What the functions compute, whoever chooses.
  void graph(const Way& way) {
    const int64_t last = experts_.count() - 1;  // a text may never use it
    check(way, "one expert", 3, fmt::format("layer 1: expert {} gives something else", last),
          instead(fmt::format("l1_e{}_gated", last),
                  [](Builder& b, Function&, Value* x) { return times(b, x, 1.25); }));
    if (way.way == ExpertWay::host)
      check(way, "experts swapped", 1, "layer 1: experts 0 and 1 are swapped", swap_functions);
    else
      check(way, "experts swapped", 3, "layer 1: experts 0 and 1 are swapped", swap_shares(0, 1));
    if (!experts_.router.logits.bias)
      check(way, "router", 3, "layer 1 drifts first, router", in_graph([&](Function& f) {
              std::vector<float> bias(static_cast<size_t>(experts_.choices()));
              bias[0] = 4;
              Operation* op = find_op(f, "l1_router");
              if (!op) op = find_op(f, "router_1");
              if (op) bind(*op, "bias", Constant::numbers(bias, DType::fp16, {experts_.choices()}));
            }));
    if (experts_.shared) shared(way);
    if (sinks_)
      check(way, "sink left out", 4, "the sink is left out", in_graph([](Function& f) {
              Value *total = find_value(f, "l1_scores_total"), *sum = find_value(f, "l1_scores_sum");
              if (total && sum) replace_uses(f.body, total, sum);
            }));
  }

  // The expert that every token uses.
  void shared(const Way& way) {
    const auto more = [](Builder& b, Function&, Value* x) { return times(b, x, 1.25); };
    check(way, "shared expert", 3, "layer 1 drifts first, shared_out: what the shared expert gives",
          instead("l1_shared_gated", more));
    check(way, "shared expert left out", 3, "the shared expert is left out",
          instead("mlp_out_1", [](Builder& b, Function& f, Value*) {
            return times(b, find_value(f, "chosen_out_1"), 1);
          }));
    if (!experts_.shared->share.weight) return;
    check(way, "share of the shared expert", 4,
          "layer 1 drifts first, shared_share: by how much the shared expert counts",
          instead("l1_shared_share", more));
    check(way, "share of the shared expert left out", 3, "the share of the shared expert is left out",
          instead("l1_shared_weighted", [](Builder& b, Function& f, Value*) {
            return times(b, find_value(f, "shared_out_1"), 1);
          }));
  }

  // The choice itself, where it is in the graph.
  void choice(const Way& way) {
    const std::string rest = fmt::format("l1_router_pick_{}_rest", experts_.used - 1);
    if (experts_.used < experts_.choices())
      check(way, "k off by one", 3,
            fmt::format("it picks {} for a token, and the model {}", experts_.used + 1, experts_.used),
            instead(rest, pick_once_more));
    if (experts_.used > 1)
      check(way, "k too small", 3,
            fmt::format("it picks {} for a token, and the model {}", experts_.used - 1, experts_.used),
            in_graph([&](Function& f) {
              Value *from = find_value(f, rest),
                    *to = find_value(f, fmt::format("l1_router_pick_{}_rest", experts_.used - 2));
              if (from && to) replace_uses(f.body, from, to);
            }));
    const bool of_chosen = experts_.share == Experts::Share::of_chosen;
    check(way, of_chosen ? "weights not renormalised" : "weights renormalised", 3, "the weights sum to",
          instead("shares_1", of_chosen ? of_all : renormalised));
    if (of_chosen)
      check(way, "weights of half the logits", 3, "weighs them otherwise",
            instead("l1_router_kept", [](Builder& b, Function&, Value* x) { return times(b, x, 0.5); }));
  }

  const GoldenModel& model_;
  const TempFolder& folder_;
  Tally& tally_;
  Experts experts_;
  bool sinks_ = false;
  const Way &all_ = ways()[0], &host_ = ways()[1], &groups_ = ways()[2];
};

}  // namespace

TEST_CASE("corpus_expert_faults: a wrong choice of experts is caught, and named") {
  const TempFolder folder;
  Tally tally("expert_faults");
  for (const GoldenModel& model : models_with_experts())
    if (model.variant.empty() && is_text_model(model)) FaultCheck(model, folder, tally).run();
}
