// Layers that repeat: a plan that was made from a few of them is the plan that all of them give.
#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <random>

#include "anemone/predictor.h"
#include "engine/fused.h"
#include "engine/plan.h"
#include "mil/builder.h"
#include "package/package.h"

using namespace anemone;

namespace {

constexpr int64_t kChannels = 72, kRows = 40;  // a weight is too large to count as a small constant

// What layers of a random function have, and what disturbs them.
struct Recipe {
  int layers = 9;
  bool gain = true, state = true, gate = true,
       long_way = false;         // long_way: what enters a layer is added at its end
  bool same_bias = false;        // the same small constant in each layer, as a value of its own
  int odd = -1;                  // a layer with another epsilon
  int tied = -1;                 // a layer that has the weight of the third
  bool all_project_one = false;  // each layer projects the same value, too
  bool each_is_output = false;
  bool all_write_one = false;  // one state for all
  bool look_at_third = false;  // behind the layers, somebody looks at the third
};

class Decoder {
 public:
  explicit Decoder(const Recipe& recipe, unsigned seed)
      : r_(recipe), random_(seed), f_(add_function(p_.program, "main", Opset::ios18)) {}

  std::shared_ptr<const Package> build() {
    Value* x = add_input(f_, "x", half({1, kChannels, 1, 1}));
    Value* beside = add_input(f_, "beside", half({1, kChannels, 1, 1}));
    write_ = add_input(f_, "write", half({1, 1, kRows, 1}));
    for (int i = 0; r_.state && i < (r_.all_write_one ? 1 : r_.layers); ++i)
      states_.push_back(
          add_input(f_, "s_" + std::to_string(i), Type::state(DType::fp16, {1, 1, kRows, kChannels})));
    Builder b(f_);
    const Constant one = Constant::number(1, DType::fp16);
    keep_ = b.op("sub", {{"x", one}, {"y", write_}}, "keep");
    std::vector<Value*> seen;
    for (int i = 0; i < r_.layers; ++i) {
      x = layer(b, x, beside, i);
      seen.push_back(x);
    }
    Value* y = b.op("relu", {{"x", x}}, "y");
    if (r_.look_at_third) y = b.op("add", {{"x", y}, {"y", seen[2]}}, "y_2");
    f_.body.outputs.push_back(y);
    for (Value* value : seen)
      if (r_.each_is_output) f_.body.outputs.push_back(value);
    p_.description = description_of(p_.program);
    p_.spec_version = 9;
    return std::make_shared<Package>(std::move(p_));
  }

 private:
  static Type half(Shape shape) { return Type::tensor(DType::fp16, std::move(shape)); }

  Constant numbers(Shape shape, float scale) {
    std::vector<float> values(static_cast<size_t>(Type::tensor(DType::fp16, shape).size()));
    for (float& v : values) v = scale * std::uniform_real_distribution<float>(-1, 1)(random_);
    return Constant::numbers(values, DType::fp16, std::move(shape));
  }

  Value* project(Builder& b, Value* x, const std::string& name, int layer = -1) {
    const bool tied = layer > 2 && layer == r_.tied;
    Value* weight = tied ? third_ : b.constant(numbers({kChannels, kChannels, 1, 1}, 0.1f), name + "_w");
    if (layer == 2) third_ = weight;
    return b.op("conv", {{"x", x}, {"weight", weight}}, name);
  }

  Value* norm(Builder& b, Value* x, int i) {
    const Constant axis = Constant::ints({1}), yes = Constant::boolean(true);
    Value* square = b.op("mul", {{"x", x}, {"y", x}}, "square");
    Value* mean = b.op("reduce_mean", {{"x", square}, {"axes", axis}, {"keep_dims", yes}}, "mean");
    Value* sum =
        b.op("add", {{"x", mean}, {"y", Constant::number(i == r_.odd ? 0.5f : 0.25f, DType::fp16)}}, "sum");
    Value* root = b.op("rsqrt", {{"x", sum}, {"epsilon", Constant::number(1e-4f, DType::fp16)}}, "root");
    Value* out = b.op("mul", {{"x", x}, {"y", root}}, "normal");
    if (!r_.gain) return out;
    return b.op("mul", {{"x", out}, {"y", b.constant(numbers({1, kChannels, 1, 1}, 1), "gain")}}, "normed");
  }

  // A row of the state becomes the projection; then all rows are summed up.
  Value* remember(Builder& b, Value* k, int i) {
    Value* state = states_[r_.all_write_one ? 0 : static_cast<size_t>(i)];
    Value* row = b.op("reshape", {{"x", k}, {"shape", Constant::ints({1, 1, 1, kChannels})}}, "row");
    Value* old = b.op("read_state", {{"input", state}}, "old");
    Value* placed = b.op("mul", {{"x", write_}, {"y", row}}, "placed");
    Value* full =
        b.op("add", {{"x", b.op("mul", {{"x", old}, {"y", keep_}}, "kept")}, {"y", placed}}, "full");
    b.op("write_state", {{"input", state}, {"data", full}}, "written");
    Value* all =
        b.op("reduce_sum",
             {{"x", full}, {"axes", Constant::ints({2})}, {"keep_dims", Constant::boolean(true)}}, "all");
    return b.op("reshape", {{"x", all}, {"shape", Constant::ints({1, kChannels, 1, 1})}}, "recalled");
  }

  Value* layer(Builder& b, Value* x, Value* beside, int i) {
    Value* h = norm(b, x, i);
    Value* y = project(b, h, "up", i);
    if (r_.state) y = b.op("add", {{"x", y}, {"y", remember(b, project(b, h, "key"), i)}}, "attended");
    if (r_.gate)
      y = b.op("mul",
               {{"x", b.op("mul", {{"x", y}, {"y", b.op("sigmoid", {{"x", y}}, "s")}}, "silu")}, {"y", h}},
               "gated");
    if (r_.all_project_one) y = b.op("add", {{"x", y}, {"y", project(b, beside, "other")}}, "crossed");
    if (r_.same_bias)
      y = b.op("add", {{"x", y}, {"y", b.constant(Constant::number(0.125f, DType::fp16), "shift")}},
               "shifted");
    y = b.op("add", {{"x", x}, {"y", project(b, y, "down")}}, "sum_" + std::to_string(i));
    return r_.long_way
               ? b.op("add", {{"x", y}, {"y", b.op("tanh", {{"x", x}}, "t")}}, "far_" + std::to_string(i))
               : y;
  }

  const Recipe r_;
  std::mt19937 random_;
  Package p_;
  Function& f_;
  Value *write_ = nullptr, *keep_ = nullptr, *third_ = nullptr;
  std::vector<Value*> states_;
};

struct Planned {
  explicit Planned(const Package& package, PlanOptions options, bool halves)
      : function(*package.program.functions[0]), info(function) {
    Cells cells(static_cast<size_t>(info.values()));
    for (const auto& input : function.inputs) {
      const bool state = input->type.kind == Type::Kind::state;
      types.push_back(state ? input->type.content() : input->type);
      Cell& cell = cells[static_cast<size_t>(info.id(input.get()))];
      cell.type = &types.back();
      cell.halves = state && halves;
    }
    plan = make_plan(info, function.body, 0, cells, options);
  }
  const Function& function;
  FunctionInfo info;
  std::deque<Type> types;
  std::unique_ptr<const Plan> plan;
};

// Numbers of values that steps share may differ.
bool same_id(const FunctionInfo& info, int a, int b) {
  return a == b || (a >= info.values() && b >= info.values());
}

void check_same_steps(const FunctionInfo& info, const Plan& a, const Plan& b) {
  REQUIRE(a.steps.size() == b.steps.size());
  for (size_t s = 0; s < a.steps.size(); ++s) {
    const Step &x = a.steps[s], &y = b.steps[s];
    CAPTURE(s);
    REQUIRE(x.work.index() == y.work.index());
    REQUIRE(x.operation == y.operation);
    REQUIRE(x.types == y.types);
    REQUIRE(x.in.size() == y.in.size());
    for (size_t i = 0; i < x.in.size(); ++i) {
      REQUIRE(same_id(info, x.in[i].id, y.in[i].id));
      REQUIRE(!x.in[i].fixed == !y.in[i].fixed);
      if (!x.in[i].fixed || x.in[i].constant < 0) continue;
      const int64_t size = info.value(y.in[i].constant)->type.size();
      REQUIRE(std::memcmp(x.in[i].fixed, y.in[i].fixed, static_cast<size_t>(size) * 4) == 0);
    }
    for (size_t i = 0; i < x.out.size(); ++i) REQUIRE(same_id(info, x.out[i], y.out[i]));
    const auto *f = std::get_if<RunFused>(&x.work), *g = std::get_if<RunFused>(&y.work);
    if (!f) continue;
    REQUIRE(f->kernel->name() == g->kernel->name());
    REQUIRE(f->writes == g->writes);
    REQUIRE(!f->plain == !g->plain);
    if (f->plain) check_same_steps(info, f->plain->plan(), g->plain->plan());
  }
}

void check_same_plan(const FunctionInfo& info, const Plan& a, const Plan& b) {
  check_same_steps(info, a, b);
  REQUIRE(a.arena_bytes == b.arena_bytes);
  REQUIRE(a.places.size() == b.places.size());
  for (size_t i = 0; i < a.places.size(); ++i) {
    REQUIRE(same_id(info, a.places[i].id, b.places[i].id));
    REQUIRE(a.places[i].offset == b.places[i].offset);
  }
  REQUIRE(a.aliases.size() == b.aliases.size());
  for (size_t i = 0; i < a.aliases.size(); ++i) {
    REQUIRE(a.aliases[i].first == b.aliases[i].first);
    REQUIRE(same_id(info, a.aliases[i].second.id, b.aliases[i].second.id));
    REQUIRE(same_id(info, a.aliases[i].second.of, b.aliases[i].second.of));
    REQUIRE(a.aliases[i].second.offset == b.aliases[i].second.offset);
  }
}

// Checks the plan of every arithmetic, and counts the steps that were made from those of another layer.
size_t unrolled(const Package& package) {
  size_t steps = 0;
  for (const bool half : {false, true})
    for (const bool fast : {false, true})
      for (const bool fuse : {false, true})
        for (const bool halves : {false, true}) {
          PlanOptions options{.half = half, .fast = fast, .fuse = fuse};
          const Planned a(package, options, halves);
          options.unroll = false;
          const Planned b(package, options, halves);
          CHECK(b.plan->unrolled == 0);
          check_same_plan(a.info, *a.plan, *b.plan);
          steps += a.plan->unrolled;
        }
  return steps;
}

Array halves_like(std::mt19937& random) {
  Array a(DType::fp32, {1, kChannels, 1, 1});
  for (float& v : a.values<float>()) v = static_cast<float>(static_cast<int>(random() % 2048) - 1024) / 1024;
  return a;
}

Prediction run(const std::shared_ptr<const Package>& package, Arithmetic arithmetic, bool whole) {
  // With a tap all is planned; an output stays what it is.
  std::vector<std::string> taps;
  if (whole) taps.push_back(package->program.functions[0]->body.outputs[0]->name);
  const auto predictor = make_predictor(package, "", {.arithmetic = arithmetic}, taps);
  const auto state = predictor->make_state();
  Prediction out;
  for (size_t step = 0; step < 3; ++step) {
    std::mt19937 random(static_cast<unsigned>(step));
    Array write(DType::fp32, {1, 1, kRows, 1});
    write.values<float>()[step] = 1;
    std::map<std::string, Array> in{{"write", write}};
    for (const char* name : {"x", "beside"}) in.emplace(name, halves_like(random));
    out = predictor->predict(in, state.get());
  }
  return out;
}

void check_runs_alike(const std::shared_ptr<const Package>& package) {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
    const Prediction a = run(package, arithmetic, false), b = run(package, arithmetic, true);
    for (const auto& [name, value] : a.outputs) CHECK(value.to_float() == b.at(name).to_float());
  }
}

}  // namespace

TEST_CASE("layers that repeat are planned once, and the plan is that of all of them") {
  for (const Recipe& recipe :
       {Recipe{}, Recipe{.layers = 30}, Recipe{.state = false}, Recipe{.gain = false, .gate = false},
        Recipe{.long_way = true}, Recipe{.same_bias = true}, Recipe{.layers = 12, .odd = 0}}) {
    const auto package = Decoder(recipe, 1).build();
    CHECK(unrolled(*package) > 0);
    check_runs_alike(package);
  }
}

TEST_CASE("layers that hang together otherwise have the plan of all of them, too") {
  for (const Recipe& recipe :
       {Recipe{.layers = 5}, Recipe{.odd = 4}, Recipe{.tied = 6}, Recipe{.tied = 7}, Recipe{.tied = 8},
        Recipe{.all_project_one = true}, Recipe{.each_is_output = true}, Recipe{.all_write_one = true},
        Recipe{.look_at_third = true}}) {
    const auto package = Decoder(recipe, 2).build();
    unrolled(*package);
    check_runs_alike(package);
  }
}

TEST_CASE("random layers: the same plan and the same results") {
  std::mt19937 random(11);
  const auto toss = [&](int one_in) {
    return static_cast<int>(random() % static_cast<unsigned>(one_in)) == 0;
  };
  for (unsigned seed = 0; seed < 25; ++seed) {
    Recipe r;
    r.layers = 4 + static_cast<int>(random() % 12);
    r.gain = toss(2), r.state = toss(2), r.gate = toss(2), r.long_way = toss(3), r.same_bias = toss(3);
    if (toss(4)) r.odd = static_cast<int>(random() % 12);
    if (toss(4)) r.tied = 3 + static_cast<int>(random() % 9);
    r.all_project_one = toss(6), r.each_is_output = toss(6), r.all_write_one = r.state && toss(6),
    r.look_at_third = toss(6);
    CAPTURE(seed);
    const auto package = Decoder(r, seed).build();
    unrolled(*package);
    check_runs_alike(package);
  }
}
