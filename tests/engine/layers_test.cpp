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

constexpr int64_t kChannels = 72,
                  kRows = 60;  // weights, and tables of rows, are too large to be small constants

// What layers of a random function have, and what disturbs them.
struct Recipe {
  int layers = 9;
  bool gain = true, state = true, gate = true,
       long_way = false;         // long_way: what enters a layer is added at its end
  bool same_bias = false;        // the same small constant in each layer, as a value of its own
  int odd = -1;                  // a layer with another epsilon
  int every = 0;                 // so has every second layer, or every third, …
  int tied = -1, to = 2;         // a layer that has the weight of an earlier one
  bool all_project_one = false;  // each layer projects the same value, too
  bool each_is_output = false;
  bool all_write_one = false;   // one state for all
  bool look_at_third = false;   // behind the layers, somebody looks at the third
  bool view_of_second = false;  // the same with the second, in another shape
  bool decay = false;           // a constant that each layer makes of that of the layer before
  bool parts = false;           // an operation with two results; `swapped`: a layer that takes them in turn
  int swapped = -1;
  bool table =
      false;  // each layer has a large constant that is no weight; `same_table`: layers from there on
  int same_table = -1;  // and before the last two share one with the bytes that the others share
  int own_gain = -1;    // two gains of ones in each layer; the first of this one is another
  int int8 = -1;        // this layer has weights of 8 bits; all others have 4
  bool handed =
      false;  // each layer reads one state and writes another; `one_state`: this layer has one for both
  int one_state = -1;
  bool two_tables =
      false;  // each layer has two large constants; `one_table`: this layer has one in both places
  int one_table = -1;
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
    for (int i = 0; r_.handed && i < 2 * r_.layers; ++i)
      handed_.push_back(
          add_input(f_, "h_" + std::to_string(i), Type::state(DType::fp16, {1, 1, kRows, kChannels})));
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
    if (r_.view_of_second)
      y = b.op("reshape", {{"x", seen[1]}, {"shape", Constant::ints({1, 1, 1, kChannels})}}, "y_3");
    f_.body.outputs.push_back(y);
    for (Value* value : seen)
      if (r_.each_is_output) f_.body.outputs.push_back(value);
    p_.description = description_of(p_.program);
    p_.spec_version = 9;
    return std::make_shared<Package>(std::move(p_));
  }

 private:
  static Type half(Shape shape) { return Type::tensor(DType::fp16, std::move(shape)); }

  Constant numbers(Shape shape, float scale, float middle = 0) {
    std::vector<float> values(static_cast<size_t>(Type::tensor(DType::fp16, shape).size()));
    for (float& v : values) v = middle + scale * std::uniform_real_distribution<float>(-1, 1)(random_);
    return Constant::numbers(values, DType::fp16, std::move(shape));
  }

  Value* project(Builder& b, Value* x, const std::string& name, int layer = -1) {
    const bool tied = layer > r_.to && layer == r_.tied;
    Value* weight = tied ? earlier_ : this->weight(b, name + "_w", layer);
    if (layer == r_.to) earlier_ = weight;
    return b.op("conv", {{"x", x}, {"weight", weight}}, name);
  }

  Value* weight(Builder& b, const std::string& name, int layer) {
    if (r_.int8 < 0) return b.constant(numbers({kChannels, kChannels, 1, 1}, 0.1f), name);
    const bool bytes = layer == r_.int8;
    Constant::Bytes data(kChannels * kChannels / (bytes ? 1 : 2));
    for (std::byte& byte : data) byte = static_cast<std::byte>(random_());
    std::vector<float> scales(kChannels, bytes ? 0.001f : 0.01f);
    const Type type = Type::tensor(bytes ? DType::int8 : DType::int4, {kChannels, kChannels, 1, 1});
    return b.op("constexpr_blockwise_shift_scale",
                {{"data", Constant::from_bytes(type, std::move(data))},
                 {"scale", Constant::numbers(scales, DType::fp16, {kChannels, 1, 1, 1})}},
                name);
  }

  // Ones, twice; one layer has another first factor.
  Value* twice_gained(Builder& b, Value* x, int i) {
    Value* ones = b.constant(numbers({1, kChannels, 1, 1}, 0, 1), "ones");
    Value* first = i == r_.own_gain ? b.constant(numbers({1, kChannels, 1, 1}, 1), "own") : ones;
    Value* y = b.op("tanh", {{"x", b.op("mul", {{"x", x}, {"y", first}}, "once")}}, "between");
    return b.op("mul", {{"x", y}, {"y", ones}}, "twice");
  }

  // The difference of the two halves, beside the second.
  Value* halves_apart(Builder& b, Value* x, int i) {
    const std::vector<Value*> p = b.ops(
        "split", {{"x", x}, {"num_splits", Constant::integer(2)}, {"axis", Constant::integer(1)}}, "part");
    const bool swapped = i == r_.swapped;
    Value* less = b.op("sub", {{"x", p[swapped]}, {"y", p[!swapped]}}, "less");
    return b.op("concat",
                {{"values", std::vector<Value*>{less, p[1]}},
                 {"axis", Constant::integer(1)},
                 {"interleave", Constant::boolean(false)}},
                "joined");
  }

  // A large constant that is multiplied with all rows.
  Value* rows_of(Builder& b, int i) {
    if (r_.same_table < 0) return b.constant(numbers({1, 1, kRows, kChannels}, 1), "table");
    const bool second = i >= r_.same_table && i < r_.layers - 2;
    Value*& table = tables_[second];
    if (!table) table = b.constant(numbers({1, 1, kRows, kChannels}, 0, 0.5f), "table");
    return table;
  }

  Value* norm(Builder& b, Value* x, int i) {
    const Constant axis = Constant::ints({1}), yes = Constant::boolean(true);
    Value* square = b.op("mul", {{"x", x}, {"y", x}}, "square");
    Value* mean = b.op("reduce_mean", {{"x", square}, {"axes", axis}, {"keep_dims", yes}}, "mean");
    Value* sum = b.op(
        "add", {{"x", mean}, {"y", Constant::number(other_epsilon(i) ? 0.5f : 0.25f, DType::fp16)}}, "sum");
    Value* root = b.op("rsqrt", {{"x", sum}, {"epsilon", Constant::number(1e-4f, DType::fp16)}}, "root");
    Value* out = b.op("mul", {{"x", x}, {"y", root}}, "normal");
    if (!r_.gain) return out;
    return b.op("mul", {{"x", out}, {"y", b.constant(numbers({1, kChannels, 1, 1}, 1), "gain")}}, "normed");
  }

  bool other_epsilon(int i) const { return i == r_.odd || (r_.every > 0 && i % r_.every == 0); }

  // What a state held before another was written.
  Value* handed_on(Builder& b, Value* y, int i) {
    Value* from = handed_[static_cast<size_t>(2 * i)];
    Value* to = i == r_.one_state ? from : handed_[static_cast<size_t>(2 * i + 1)];
    Value* row = b.op("reshape", {{"x", y}, {"shape", Constant::ints({1, 1, 1, kChannels})}}, "handed_row");
    Value* old = b.op("read_state", {{"input", from}}, "handed");
    b.op("write_state", {{"input", to}, {"data", b.op("mul", {{"x", write_}, {"y", row}}, "rows")}},
         "handed_on");
    return sum_of_rows(b, b.op("tanh", {{"x", old}}, "before"));
  }

  Value* twice_weighed(Builder& b, Value* y, int i) {
    Value* row = b.op("reshape", {{"x", y}, {"shape", Constant::ints({1, 1, 1, kChannels})}}, "weighed_row");
    Value* first = b.constant(numbers({1, 1, kRows, kChannels}, 1), "first_table");
    Value* second =
        i == r_.one_table ? first : b.constant(numbers({1, 1, kRows, kChannels}, 1), "second_table");
    Value* once = b.op("tanh", {{"x", b.op("mul", {{"x", row}, {"y", first}}, "once")}}, "between_tables");
    return sum_of_rows(b, b.op("mul", {{"x", once}, {"y", second}}, "twice"));
  }

  Value* sum_of_rows(Builder& b, Value* x) {
    Value* all =
        b.op("reduce_mean", {{"x", x}, {"axes", Constant::ints({2})}, {"keep_dims", Constant::boolean(true)}},
             "all");
    return b.op("reshape", {{"x", all}, {"shape", Constant::ints({1, kChannels, 1, 1})}}, "of_rows");
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
    if (r_.table) full = b.op("mul", {{"x", full}, {"y", rows_of(b, i)}}, "weighed");
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
    if (r_.handed) y = b.op("add", {{"x", y}, {"y", handed_on(b, y, i)}}, "with_handed");
    if (r_.two_tables) y = b.op("add", {{"x", y}, {"y", twice_weighed(b, y, i)}}, "with_tables");
    if (r_.parts) y = halves_apart(b, y, i);
    if (r_.own_gain >= 0) y = twice_gained(b, y, i);
    if (r_.decay) {
      decay_ = i == 0 ? b.constant(numbers({1, kChannels, 1, 1}, 1), "decay")
                      : b.op("mul", {{"x", decay_}, {"y", Constant::number(0.5f, DType::fp16)}}, "decayed");
      y = b.op("mul", {{"x", y}, {"y", decay_}}, "less_and_less");
    }
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
  Value *write_ = nullptr, *keep_ = nullptr, *earlier_ = nullptr, *decay_ = nullptr;
  Value* tables_[2] = {};
  std::vector<Value*> states_, handed_;
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
    REQUIRE(a.aliases[i].second.type == b.aliases[i].second.type);
  }
  const auto folded = [](const Plan& plan) {
    std::map<int, const Plan::Folded*> out;
    for (const Plan::Folded& f : plan.folded) out[f.id] = &f;
    return out;
  };
  const auto x = folded(a), y = folded(b);
  REQUIRE(x.size() == y.size());
  for (const auto& [id, value] : x) REQUIRE((y.contains(id) && *value == *y.at(id)));
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
        Recipe{.long_way = true}, Recipe{.same_bias = true}, Recipe{.layers = 12, .odd = 0},
        Recipe{.view_of_second = true}, Recipe{.parts = true}, Recipe{.table = true}, Recipe{.int8 = 5},
        Recipe{.handed = true}, Recipe{.two_tables = true}, Recipe{.layers = 16, .every = 2},
        Recipe{.layers = 24, .every = 3}}) {
    const auto package = Decoder(recipe, 1).build();
    CHECK(unrolled(*package) > 0);
    check_runs_alike(package);
  }
}

TEST_CASE("layers that hang together otherwise have the plan of all of them, too") {
  for (const Recipe& recipe :
       {Recipe{.layers = 5}, Recipe{.odd = 4}, Recipe{.tied = 6}, Recipe{.tied = 7}, Recipe{.tied = 8},
        Recipe{.all_project_one = true}, Recipe{.each_is_output = true}, Recipe{.all_write_one = true},
        Recipe{.look_at_third = true}, Recipe{.layers = 12, .tied = 7, .to = 4}, Recipe{.decay = true},
        Recipe{.parts = true, .swapped = 5}, Recipe{.table = true, .same_table = 4}, Recipe{.own_gain = 4},
        Recipe{.handed = true, .one_state = 4}, Recipe{.two_tables = true, .one_table = 4}}) {
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
  for (unsigned seed = 0; seed < 40; ++seed) {
    Recipe r;
    r.layers = 4 + static_cast<int>(random() % 12);
    r.gain = toss(2), r.state = toss(2), r.gate = toss(2), r.long_way = toss(3), r.same_bias = toss(3);
    if (toss(4)) r.odd = static_cast<int>(random() % 12);
    if (toss(4)) r.tied = 3 + static_cast<int>(random() % 9);
    if (toss(4)) r.to = static_cast<int>(random() % 6);
    if (toss(6)) r.own_gain = static_cast<int>(random() % 12);
    if (toss(4)) r.int8 = static_cast<int>(random() % 12);
    if (toss(6)) r.every = 2 + static_cast<int>(random() % 2);
    if (r.handed = toss(6); r.handed && toss(2)) r.one_state = static_cast<int>(random() % 12);
    if (r.two_tables = toss(6); r.two_tables && toss(2)) r.one_table = static_cast<int>(random() % 12);
    if (r.parts = toss(3); r.parts && toss(2)) r.swapped = static_cast<int>(random() % 12);
    if (r.table = r.state && toss(3); r.table && toss(2)) r.same_table = static_cast<int>(random() % 12);
    r.view_of_second = toss(4), r.decay = toss(6);
    r.all_project_one = toss(6), r.each_is_output = toss(6), r.all_write_one = r.state && toss(6),
    r.look_at_third = toss(6);
    CAPTURE(seed);
    const auto package = Decoder(r, seed).build();
    unrolled(*package);
    check_runs_alike(package);
  }
}

TEST_CASE("layers that change a flexible size, and what needs the size behind all of them") {
  Package p;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 8, Dim::unknown()}));
  Builder b(f);
  std::mt19937 random(3);
  for (int i = 0; i < 12; ++i) {
    std::vector<float> weight(8 * 8 * 3);
    for (float& v : weight) v = std::uniform_real_distribution<float>(-0.3f, 0.3f)(random);
    x = b.op("conv",
             {{"x", x}, {"weight", b.constant(Constant::numbers(weight, DType::fp16, {8, 8, 3}), "w")}}, "c");
    x = b.op("relu", {{"x", x}}, "r");
  }
  f.body.outputs.push_back(b.op("reshape", {{"x", x}, {"shape", Constant::ints({8, 40})}}, "y"));
  p.description = description_of(p.program);
  p.spec_version = 9;
  const auto predictor = make_predictor(std::make_shared<Package>(std::move(p)), "", {});
  Array in(DType::fp32, {1, 8, 64});
  for (float& v : in.values<float>()) v = std::uniform_real_distribution<float>(-1, 1)(random);
  CHECK(predictor->predict({{"x", in}}, nullptr).at("y").shape() == std::vector<int64_t>{8, 40});
}
