#include <doctest/doctest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <random>

#include "anemone/predictor.h"
#include "base/half.h"
#include "engine/plan.h"
#include "mil/builder.h"
#include "mil/text.h"
#include "package/package.h"

using namespace anemone;

namespace {

constexpr int64_t kHeads = 2, kGroup = 3, kDim = 20, kColumns = 70;

enum class Form { state_mask, state_slice, packed_mask, packed_slice };

// Attention of two layers over a cache, as converters write it: q, k_i, v_i come from outside.
struct Graph {
  Form form;
  int64_t tokens;
  double scale = 1;

  bool packed() const { return form == Form::packed_mask || form == Form::packed_slice; }
  bool masked() const { return form == Form::state_mask || form == Form::packed_mask; }
};

class GraphBuilder {
 public:
  explicit GraphBuilder(const Graph& graph) : g_(graph), f_(add_function(p_.program, "main", Opset::ios18)) {}

  std::shared_ptr<const Package> build() {
    const int64_t t = g_.tokens, rows = kGroup * t;
    for (int i = 0; i < 2; ++i) {
      q_[i] = add_input(f_, name("q", i), half({1, kHeads, rows, kDim}));
      k_[i] = add_input(f_, name("k", i), half({1, kHeads, t, kDim}));
      v_[i] = add_input(f_, name("v", i), half({1, kHeads, t, kDim}));
    }
    mask_ = add_input(f_, "mask", half({1, 1, t, kColumns}));
    if (g_.masked())
      write_ = add_input(f_, "write", half({1, 1, kColumns, t}));
    else
      position_ = add_input(f_, "position", Type::tensor(DType::int32, {1}));
    for (int i = 0; i < (g_.packed() ? 1 : 2); ++i)
      for (const char* side : {"ks", "vs"})
        states_.push_back(add_input(f_, name(side, i),
                                    Type::state(DType::fp16, {g_.packed() ? 2 : 1, kHeads, kColumns, kDim})));
    Builder b(f_);
    if (g_.masked()) {
      Value* sum =
          b.op("reduce_sum",
               {{"x", write_}, {"axes", Constant::ints({3})}, {"keep_dims", Constant::boolean(true)}}, "sum");
      keep_ = b.op("sub", {{"x", Constant::number(1, DType::fp16)}, {"y", sum}}, "keep");
    } else {
      end_ = b.op("add", {{"x", position_}, {"y", Constant::ints({t})}}, "end");
    }
    for (int side = 0; side < 2 && g_.packed(); ++side)
      all_[side] = b.op("read_state", {{"input", states_[static_cast<size_t>(side)]}}, name("read", side));
    for (int i = 0; i < 2; ++i) layer(b, i);
    for (int side = 0; side < 2 && g_.packed(); ++side) {
      Value* data = all_[side];
      if (g_.masked())
        data = b.op("concat",
                    {{"values", parts_[side]},
                     {"axis", Constant::integer(0)},
                     {"interleave", Constant::boolean(false)}},
                    name("all", side));
      b.op("write_state", {{"input", states_[static_cast<size_t>(side)]}, {"data", data}}, name("w", side));
    }
    p_.description = description_of(p_.program);
    p_.spec_version = 9;
    return std::make_shared<Package>(std::move(p_));
  }

 private:
  static Type half(Shape shape) { return Type::tensor(DType::fp16, std::move(shape)); }
  static std::string name(const std::string& stem, int i) { return stem + "_" + std::to_string(i); }

  Value* slice_of(Builder& b, Value* x, int i) {
    return b.op("slice_by_index",
                {{"x", x},
                 {"begin", Constant::ints({i, 0, 0, 0})},
                 {"end", Constant::ints({i + 1, kHeads, kColumns, kDim})}},
                "part");
  }

  Value* blend(Builder& b, Value* old, Value* rows, const std::string& tag) {
    const Constant no = Constant::boolean(false);
    Value* placed = b.op("matmul", {{"x", write_}, {"y", rows}, {"transpose_x", no}, {"transpose_y", no}},
                         "placed_" + tag);
    return b.op("add", {{"x", b.op("mul", {{"x", old}, {"y", keep_}}, "kept_" + tag)}, {"y", placed}},
                "full_" + tag);
  }

  Value* insert(Builder& b, Value* old, Value* rows, int i, const std::string& tag) {
    const auto bounds = [&](Value* row, int64_t entry, int64_t heads, int64_t width) {
      Value* lead = b.constant(Constant::ints({entry, heads}), "lead");
      Value* tail = b.constant(Constant::ints({width}), "tail");
      return b.op("concat",
                  {{"values", std::vector<Value*>{lead, row, tail}},
                   {"axis", Constant::integer(0)},
                   {"interleave", Constant::boolean(false)}},
                  "bounds");
    };
    return b.op("slice_update",
                {{"x", old},
                 {"update", rows},
                 {"begin", bounds(position_, i, 0, 0)},
                 {"end", bounds(end_, i + 1, kHeads, kDim)}},
                "full_" + tag);
  }

  Value* update(Builder& b, int side, int i, Value* rows) {
    const std::string tag = std::to_string(side) + std::to_string(i);
    if (g_.packed() && g_.masked()) {
      parts_[side].push_back(blend(b, slice_of(b, all_[side], i), rows, tag));
      return parts_[side].back();
    }
    if (g_.packed()) {
      all_[side] = insert(b, all_[side], rows, i, tag);
      return slice_of(b, all_[side], i);
    }
    Value* state = states_[static_cast<size_t>(2 * i + side)];
    Value* old = b.op("read_state", {{"input", state}}, "old_" + tag);
    Value* full = g_.masked() ? blend(b, old, rows, tag) : insert(b, old, rows, 0, tag);
    b.op("write_state", {{"input", state}, {"data", full}}, "write_" + tag);
    return full;
  }

  void layer(Builder& b, int i) {
    const Constant no = Constant::boolean(false), yes = Constant::boolean(true);
    Value* keys = update(b, 0, i, k_[i]);
    Value* values = update(b, 1, i, v_[i]);
    Value* x = b.op("matmul", {{"x", q_[i]}, {"y", keys}, {"transpose_x", no}, {"transpose_y", yes}},
                    name("scores", i));
    if (g_.scale != 1)
      x = b.op("mul", {{"x", x}, {"y", Constant::number(static_cast<float>(g_.scale), DType::fp16)}},
               name("scaled", i));
    x = b.op("reshape", {{"x", x}, {"shape", Constant::ints({1, kHeads * kGroup, -1, kColumns})}},
             name("rows", i));
    x = b.op("add", {{"x", x}, {"y", mask_}}, name("masked", i));
    x = b.op("softmax", {{"x", x}, {"axis", Constant::integer(-1)}}, name("p", i));
    x = b.op("reshape", {{"x", x}, {"shape", Constant::ints({1, kHeads, -1, kColumns})}}, name("p_rows", i));
    x = b.op("matmul", {{"x", x}, {"y", values}, {"transpose_x", no}, {"transpose_y", no}}, name("y", i));
    b.output(x);
  }

  Graph g_;
  Package p_;
  Function& f_;
  Value *q_[2], *k_[2], *v_[2], *mask_, *write_ = nullptr, *position_ = nullptr, *keep_ = nullptr,
                                        *end_ = nullptr;
  Value* all_[2];
  std::vector<Value*> parts_[2], states_;
};

// Steps of decoding; each is changed by `twist` before it is run.
using Inputs = std::map<std::string, Array>;

Array random_array(std::vector<int64_t> shape, std::mt19937& random, float size) {
  Array a(DType::fp32, std::move(shape));
  std::normal_distribution<float> normal(0, size);
  for (float& v : a.values<float>()) v = normal(random);
  return a;
}

Inputs inputs_at(const Graph& g, int64_t position, std::mt19937& random, float far) {
  Inputs in;
  for (const char* i : {"_0", "_1"}) {
    in.emplace(std::string("q") + i, random_array({1, kHeads, kGroup * g.tokens, kDim}, random, 1));
    in.emplace(std::string("k") + i, random_array({1, kHeads, g.tokens, kDim}, random, 1));
    in.emplace(std::string("v") + i, random_array({1, kHeads, g.tokens, kDim}, random, 1));
  }
  Array mask(DType::fp32, {1, 1, g.tokens, kColumns}), write(DType::fp32, {1, 1, kColumns, g.tokens});
  for (int64_t t = 0; t < g.tokens; ++t) {
    for (int64_t j = 0; j < kColumns; ++j)
      mask.values<float>()[static_cast<size_t>(t * kColumns + j)] = j <= position + t ? 0.0f : far;
    write.values<float>()[static_cast<size_t>((position + t) * g.tokens + t)] = 1;
  }
  in.emplace("mask", std::move(mask));
  if (g.masked())
    in.emplace("write", std::move(write));
  else
    in.emplace("position", Array::from<int32_t>({1}, {static_cast<int32_t>(position)}));
  return in;
}

// Taps on what lies inside a pattern keep it from being fused: the plain way.
std::vector<std::string> all_inner(const Graph& g) {
  std::vector<std::string> taps;
  for (const char* i : {"_0", "_1"})
    taps.insert(taps.end(), {std::string("scores") + i, std::string("p") + i});
  for (const char* tag : {"00", "01", "10", "11"})
    taps.push_back((g.masked() ? "kept_" : "full_") + std::string(tag));
  return taps;
}

bool same(float a, float b, float tolerance) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= tolerance;
}

void compare(const Graph& g, Arithmetic arithmetic, float far,
             const std::function<void(int, Inputs&)>& twist = {}) {
  const auto package = GraphBuilder(g).build();
  const auto fused = make_predictor(package, "", {.arithmetic = arithmetic, .threads = 2});
  const auto plain = make_predictor(package, "", {.arithmetic = arithmetic, .threads = 1}, all_inner(g));
  const auto a = fused->make_state(), b = plain->make_state();
  std::mt19937 random(3);
  // fp16: the order of a sum may turn a rounding, one step of half at most. fast: what is written to a state in place
  // is rounded before attention reads it. Rows are halves already, so that this changes nothing; but a twist may add up
  // two of them, and then a score of 20 products with numbers of size 1 is up to 20 / 2048 away.
  const float tolerance = arithmetic == Arithmetic::fp16            ? 2e-3f
                          : arithmetic == Arithmetic::fast && twist ? 1e-2f
                                                                    : 1e-5f;
  for (int n = 0; n < 5; ++n) {
    CAPTURE(n);
    Inputs in = inputs_at(g, n * g.tokens, random, far);
    if (twist) twist(n, in);
    if (arithmetic == Arithmetic::fast)
      for (const char* rows : {"k_0", "k_1", "v_0", "v_1"})
        for (float& v : in.at(rows).values<float>()) v = round_to_half(v);
    const Prediction x = fused->predict(in, a.get()), y = plain->predict(in, b.get());
    for (const char* out : {"y_0", "y_1"}) {
      const auto got = x.at(out).to_float(), expected = y.at(out).to_float();
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CAPTURE(i);
        REQUIRE(same(got[i], expected[i], tolerance));
      }
    }
    REQUIRE(x.fault.has_value() == y.fault.has_value());
    if (x.fault) {
      CHECK(x.fault->op == y.fault->op);
      CHECK(x.fault->nan == y.fault->nan);
    }
    for (const std::string& state : a->names()) {
      const auto got = a->get(state).to_float(), expected = b->get(state).to_float();
      for (size_t i = 0; i < got.size(); ++i) REQUIRE(same(got[i], expected[i], 0));
    }
  }
}

constexpr Form kForms[] = {Form::state_mask, Form::state_slice, Form::packed_mask, Form::packed_slice};

}  // namespace

TEST_CASE("fused attention and cache writes give what the operations give, in every form") {
  for (const Form form : kForms)
    for (const int64_t tokens : {1, 2, 5})
      for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
        CAPTURE(static_cast<int>(form));
        CAPTURE(tokens);
        CAPTURE(static_cast<int>(arithmetic));
        compare({form, tokens}, arithmetic, -10000);
        compare({form, tokens, 0.25}, arithmetic, -10000);
      }
}

TEST_CASE("columns are left out only where they cannot matter") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float far : {-3.0f, -1500.0f, -65504.0f, -infinity})
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
      CAPTURE(far);
      compare({Form::state_mask, 1}, arithmetic, far);
      compare({Form::packed_slice, 2}, arithmetic, far);
    }
  // Keys so long that a masked column can win: an earlier row is masked later on.
  compare({Form::state_mask, 1}, Arithmetic::fp32, -10000, [](int n, Inputs& in) {
    for (float& v : in.at("k_0").values<float>()) v *= 4000;
    if (n > 2) in.at("mask").values<float>()[1] = -10000;
  });
  // A row that sees nothing at all.
  compare({Form::state_mask, 2}, Arithmetic::fp32, -10000, [](int n, Inputs& in) {
    if (n == 3)
      for (int64_t i = 0; i < kColumns; ++i) in.at("mask").values<float>()[static_cast<size_t>(i)] = -10000;
  });
}

TEST_CASE("what is not one-hot or not finite goes the plain way") {
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fast}) {
    for (const Form form : {Form::state_mask, Form::packed_mask}) {
      compare({form, 2}, arithmetic, -10000, [](int n, Inputs& in) {
        if (n == 1) in.at("write").values<float>()[0] = 0.5f;
        if (n == 2) in.at("write").values<float>()[7] = 1;  // two tokens to one row, or a row of its own
      });
      compare({form, 1}, arithmetic, -10000, [](int n, Inputs& in) {
        if (n == 2) in.at("v_1").values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
      });
    }
    compare({Form::state_slice, 1}, arithmetic, -10000, [](int n, Inputs& in) {
      if (n == 2) in.at("v_0").values<float>()[3] = std::numeric_limits<float>::infinity();
    });
  }
}

// Somebody looks at what was written as floats, so halves are copied behind the write: the plain way must not write
// into that copy, whose memory is another value's until then.
TEST_CASE("a cache of halves that is looked at is written in the plain way, too") {
  for (const Arithmetic arithmetic : {Arithmetic::fp16, Arithmetic::fast})
    for (const Form form : {Form::state_mask, Form::packed_mask}) {
      CAPTURE(static_cast<int>(form));
      const Graph g{form, 2};
      const auto package = GraphBuilder(g).build();
      const auto fused = make_predictor(package, "", {.arithmetic = arithmetic, .threads = 1},
                                        {"full_00", "full_10", "full_01", "full_11"});
      const auto plain = make_predictor(package, "", {.arithmetic = arithmetic, .threads = 1}, all_inner(g));
      const auto a = fused->make_state(), b = plain->make_state();
      std::mt19937 random(3);
      for (int n = 0; n < 3; ++n) {
        Inputs in = inputs_at(g, n * g.tokens, random, -10000);
        if (n == 1) in.at("write").values<float>()[static_cast<size_t>(n * g.tokens * g.tokens)] = 0.5f;
        fused->predict(in, a.get());
        plain->predict(in, b.get());
        for (const std::string& state : a->names()) {
          const auto got = a->get(state).to_float(), expected = b->get(state).to_float();
          for (size_t i = 0; i < got.size(); ++i) REQUIRE(same(got[i], expected[i], 1e-3f));
        }
      }
    }
}

TEST_CASE("fp16 arithmetic names the same operation when a score leaves the range of fp16") {
  for (const Form form : kForms)
    compare({form, 1}, Arithmetic::fp16, -10000, [](int n, Inputs& in) {
      if (n != 2) return;
      for (float& v : in.at("q_1").values<float>()) v *= 300;
      for (float& v : in.at("k_1").values<float>()) v *= 300;
    });
}

TEST_CASE("a state that was set is bounded anew") {
  const Graph g{Form::state_mask, 1};
  const auto package = GraphBuilder(g).build();
  const auto fused = make_predictor(package), plain = make_predictor(package, "", {}, all_inner(g));
  const auto a = fused->make_state(), b = plain->make_state();
  std::mt19937 random(5);
  Array keys = random_array({1, kHeads, kColumns, kDim}, random, 1e5f);
  a->set("ks_0", keys);
  b->set("ks_0", keys);
  const Inputs in = inputs_at(g, 3, random, -10000);
  const auto x = fused->predict(in, a.get()).at("y_0").to_float(),
             y = plain->predict(in, b.get()).at("y_0").to_float();
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(same(x[i], y[i], 1e-4f));
}

namespace {

// How many steps of a plan run as their own kernel, and how many fused.
std::pair<int, int> steps_of(const Package& package, const PlanOptions& options = {}) {
  const Function& f = *package.program.functions[0];
  const FunctionInfo info(f);
  Cells cells(static_cast<size_t>(info.values()));
  std::deque<Type> types;
  for (const auto& input : f.inputs) {
    types.push_back(input->type.kind == Type::Kind::state ? input->type.content() : input->type);
    cells[static_cast<size_t>(info.id(input.get()))].type = &types.back();
  }
  const auto plan = make_plan(info, f.body, 0, cells, options);
  CHECK(plan->next == f.body.ops.size());
  int alone = 0, fused = 0;
  for (const Step& step : plan->steps) ++(std::holds_alternative<RunFused>(step.work) ? fused : alone);
  return {alone, fused};
}

std::shared_ptr<const Package> package_of(const std::string& inputs, const std::string& body,
                                          const std::string& outputs) {
  auto p = std::make_shared<Package>();
  p->program = parse_mil(
      "program(1.3)\n{ func main<ios18>(" + inputs + ") {" + body + "} -> (" + outputs + "); }", "t");
  p->description = description_of(p->program);
  p->spec_version = 9;
  return p;
}

// A decoder's chains in MIL text: norm, projections, rotation, gate, sum.
std::shared_ptr<const Package> chains(int64_t tokens) {
  const auto t = std::to_string(tokens);
  const auto type = [&](int channels) {
    return "tensor<fp16, [1, " + std::to_string(channels) + ", " + t + ", 1]>";
  };
  const std::string one = "tensor<fp16, [1, 1, " + t + ", 1]>", x = type(24),
                    head = "tensor<fp16, [1, 3, " + t + ", 8]>";
  const std::string part = "tensor<fp16, [1, 3, " + t + ", 3]>", rest = "tensor<fp16, [1, 3, " + t + ", 2]>";
  const auto op = [](const std::string& out, const std::string& name, const std::string& call) {
    return out + " " + name + " = " + call + "[name = string(\"" + name + "\")];";
  };
  std::string b;
  b += op(x, "mag", "abs(x = x)");
  b += op(one, "top", "reduce_max(x = mag, axes = tensor<int32, [1]>([1]), keep_dims = bool(true))");
  b += op(one, "floor", "maximum(x = top, y = fp16(0x1p-14))");
  b += op(x, "scaled", "real_div(x = x, y = floor)");
  b += op(x, "square", "mul(x = scaled, y = scaled)");
  b += op(one, "mean", "reduce_mean(x = square, axes = tensor<int32, [1]>([1]), keep_dims = bool(true))");
  b += op(one, "root", "real_div(x = fp16(0x1.9p-9), y = floor)");
  b += op(one, "eps", "mul(x = root, y = root)");
  b += op(one, "sum", "add(x = mean, y = eps)");
  b += op(one, "inverse", "rsqrt(x = sum, epsilon = fp16(0x0p+0))");
  b += op(x, "normal", "mul(x = scaled, y = inverse)");
  b += op(x, "gained", "mul(x = normal, y = gain)");
  b += op("tensor<fp16, [1, 3, 8, " + t + "]>", "split",
          "reshape(x = gained, shape = tensor<int32, [4]>([1, 3, 8, -1]))");
  b += op(head, "heads", "transpose(x = split, perm = tensor<int32, [4]>([0, 1, 3, 2]))");
  const auto slice = [&](const std::string& out, const std::string& name, int from, int to) {
    return op(out, name,
              "slice_by_index(x = heads, begin = tensor<int32, [4]>([0, 0, 0, " + std::to_string(from) +
                  "]), end = tensor<int32, [4]>([1, 3, " + t + ", " + std::to_string(to) + "]))");
  };
  b += slice(part, "first", 0, 3) + slice(part, "second", 3, 6) + slice(rest, "rest", 6, 8);
  b += op(part, "fc", "mul(x = first, y = cos)") + op(part, "ss", "mul(x = second, y = sin)");
  b += op(part, "low", "sub(x = fc, y = ss)");
  b += op(part, "sc", "mul(x = second, y = cos)") + op(part, "fs", "mul(x = first, y = sin)");
  b += op(part, "high", "add(x = sc, y = fs)");
  b += op(head, "rotated", "concat(values = (low, high, rest), axis = int32(3), interleave = bool(false))");
  b += op(x, "sig", "sigmoid(x = x)") + op(x, "act", "mul(x = x, y = sig)") +
       op(x, "gated", "mul(x = act, y = gained)");
  return package_of(x + " x, tensor<fp16, [1, 24, 1, 1]> gain, tensor<fp16, [1, 1, " + t +
                        ", 3]> cos, tensor<fp16, [1, 1, " + t + ", 3]> sin",
                    b, "rotated, gated");
}

}  // namespace

TEST_CASE("every form of the cache is written in place, and attention is one step") {
  for (const Form form : kForms)
    for (const int64_t tokens : {1, 5}) {
      const auto [alone, fused] = steps_of(*GraphBuilder({form, tokens}).build());
      const Graph g{form, tokens};
      CAPTURE(static_cast<int>(form));
      // Left alone: the one-hot's sum and difference, or the end and the four pairs of bounds (of which the
      // constant ones are folded).
      CHECK(alone <= (g.masked() ? 2 : 9));
      CHECK(fused == (g.masked() ? 4 + 1 + 2 + 1 : 4 + 2 + 1));
    }
  CHECK(steps_of(*GraphBuilder({Form::state_mask, 1}).build(), {.fuse = false}).second == 0);
}

TEST_CASE("what a state holds is no part of a norm") {
  const std::string one = "tensor<fp16, [1, 1, 1, 1]>", x = "tensor<fp16, [1, 4, 1, 1]>";
  const auto op = [](const std::string& out, const std::string& name, const std::string& call) {
    return out + " " + name + " = " + call + "[name = string(\"" + name + "\")];";
  };
  // As in chains(), but for the largest value, which is read from a state that is written to right behind.
  std::string b = op(one, "held", "read_state(input = s)");
  b += "write_state(data = next, input = s)[name = string(\"w\")];";
  b += op(one, "floor", "maximum(x = held, y = fp16(0x1p-14))");
  b += op(x, "scaled", "real_div(x = x, y = floor)") + op(x, "square", "mul(x = scaled, y = scaled)");
  b += op(one, "mean", "reduce_mean(x = square, axes = tensor<int32, [1]>([1]), keep_dims = bool(true))");
  b += op(one, "root", "real_div(x = fp16(0x1p+0), y = floor)") + op(one, "eps", "mul(x = root, y = root)");
  b += op(one, "sum", "add(x = mean, y = eps)");
  b += op(one, "inverse", "rsqrt(x = sum, epsilon = fp16(0x0p+0))");
  b += op(x, "y", "mul(x = scaled, y = inverse)");
  const auto package = package_of(x + " x, " + one + " next, state<" + one + "> s", b, "y");
  const auto predictor = make_predictor(package);
  const auto state = predictor->make_state();
  state->set("s", Array::from<float>({1, 1, 1, 1}, {2}));
  const Inputs in{{"x", Array::from<float>({1, 4, 1, 1}, {1, 2, 3, 4})},
                  {"next", Array::from<float>({1, 1, 1, 1}, {5})}};
  const auto y = predictor->predict(in, state.get()).at("y").to_float();
  // x / 2, over the root of (0.25 + 1 + 2.25 + 4) / 4 + (1 / 2)²
  for (size_t i = 0; i < 4; ++i)
    CHECK(y[i] == doctest::Approx(0.5 * static_cast<double>(i + 1) / std::sqrt(2.125)).epsilon(1e-6));
  CHECK(state->get("s").to_float() == std::vector<float>{5});
}

TEST_CASE("norm, rotation and gate give what their operations give") {
  for (const int64_t tokens : {1, 3, 40}) {
    CAPTURE(tokens);
    const auto package = chains(tokens);
    const auto [alone, fused] = steps_of(*package);
    CHECK(alone == (tokens == 1 ? 0 : 1));  // the transpose
    CHECK(fused == 3);
    const auto fast = make_predictor(package, "", {.threads = 2});
    const auto plain = make_predictor(package, "", {}, {"square", "normal", "low", "sig", "act"});
    std::mt19937 random(11);
    const Inputs in{{"x", random_array({1, 24, tokens, 1}, random, 50)},
                    {"gain", random_array({1, 24, 1, 1}, random, 1)},
                    {"cos", random_array({1, 1, tokens, 3}, random, 1)},
                    {"sin", random_array({1, 1, tokens, 3}, random, 1)}};
    const Prediction a = fast->predict(in), b = plain->predict(in);
    for (const char* out : {"rotated", "gated"}) {
      const auto x = a.at(out).to_float(), y = b.at(out).to_float();
      for (size_t i = 0; i < x.size(); ++i) REQUIRE(same(x[i], y[i], 2e-6f * std::abs(y[i]) + 1e-6f));
    }
  }
}

TEST_CASE("projections of one input run together, and one that is added adds") {
  Package p;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp16, {1, 80, 2, 1}));
  Value* r = add_input(f, "r", Type::tensor(DType::fp16, {1, 70, 2, 1}));
  Builder b(f);
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::map<std::string, std::vector<float>> weights;
  const auto weight = [&](int64_t rows, int64_t columns, const char* name) {
    auto& values = weights[name];
    values.resize(static_cast<size_t>(rows * columns));
    for (float& v : values) v = round_to_half(normal(random));
    return b.constant(Constant::numbers(values, DType::fp16, {rows, columns, 1, 1}), name);
  };
  const auto conv = [&](Value* in, Value* w, const char* name) {
    return b.op("conv",
                {{"x", in},
                 {"weight", w},
                 {"strides", Constant::ints({1, 1})},
                 {"pad_type", Constant::text("valid")},
                 {"pad", Constant::ints({0, 0, 0, 0})},
                 {"dilations", Constant::ints({1, 1})},
                 {"groups", Constant::integer(1)}},
                name);
  };
  Value* a = conv(x, weight(70, 80, "wa"), "a");
  Value* c = conv(x, weight(130, 80, "wc"), "c");
  Value* d = b.op("mul", {{"x", a}, {"y", r}}, "d");
  Value* e = conv(d, weight(70, 70, "we"), "e");
  b.output(b.op("add", {{"x", r}, {"y", e}}, "sum"));
  b.output(c);
  p.description = description_of(p.program);
  p.spec_version = 9;
  const auto package = std::make_shared<Package>(std::move(p));
  CHECK(steps_of(*package) == std::pair(1, 2));
  const Inputs in{{"x", random_array({1, 80, 2, 1}, random, 1)},
                  {"r", random_array({1, 70, 2, 1}, random, 1)}};
  Inputs large = in;
  for (float& v : large.at("x").values<float>()) v *= 9000;
  for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16})
    for (const Inputs& inputs : {in, large}) {
      const auto fast = make_predictor(package, "", {.arithmetic = arithmetic, .threads = 2});
      const auto plain = make_predictor(package, "", {.arithmetic = arithmetic}, {"a", "e"});
      const Prediction got = fast->predict(inputs), expected = plain->predict(inputs);
      for (const char* out : {"sum", "c"}) {
        const auto u = got.at(out).to_float(), v = expected.at(out).to_float();
        for (size_t i = 0; i < u.size(); ++i) REQUIRE(same(u[i], v[i], 2e-3f * std::abs(v[i]) + 0.05f));
      }
      REQUIRE(got.fault.has_value() == expected.fault.has_value());
      if (got.fault) CHECK(got.fault->op == expected.fault->op);
    }
  // By hand, in fp64.
  const auto times = [&](const char* name, const std::vector<float>& v, size_t rows) {
    const size_t k = v.size() / 2;
    std::vector<float> out(rows * 2);
    for (size_t i = 0; i < out.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < k; ++j)
        sum += static_cast<double>(weights[name][i / 2 * k + j]) * v[j * 2 + i % 2];
      out[i] = static_cast<float>(sum);
    }
    return out;
  };
  const Prediction got = make_predictor(package)->predict(in);
  const auto rv = in.at("r").to_float(), xv = in.at("x").to_float();
  auto dv = times("wa", xv, 70);
  for (size_t i = 0; i < dv.size(); ++i) dv[i] *= rv[i];
  const auto ev = times("we", dv, 70), cv = times("wc", xv, 130);
  const auto sum = got.at("sum").to_float(), second = got.at("c").to_float();
  for (size_t i = 0; i < sum.size(); ++i) REQUIRE(same(sum[i], ev[i] + rv[i], 1e-3f));
  for (size_t i = 0; i < second.size(); ++i) REQUIRE(same(second[i], cv[i], 1e-4f));
}

TEST_CASE("a strided convolution that keeps the number of positions is no projection") {
  Package p;
  Function& f = add_function(p.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::fp32, {1, 65, 1, 4}));
  Builder b(f);
  std::vector<float> twice(65 * 65, 0.0f);
  for (size_t i = 0; i < 65; ++i) twice[i * 66] = 2;
  b.output(b.op("conv",
                {{"x", x},
                 {"weight", b.constant(Constant::numbers(twice, DType::fp32, {65, 65, 1, 1}), "w")},
                 {"strides", Constant::ints({1, 2})},
                 {"pad_type", Constant::text("custom")},
                 {"pad", Constant::ints({0, 0, 2, 1})},
                 {"dilations", Constant::ints({1, 1})},
                 {"groups", Constant::integer(1)}},
                "y"));
  p.description = description_of(p.program);
  p.spec_version = 9;
  std::mt19937 random(6);
  const Array in = random_array({1, 65, 1, 4}, random, 1);
  const auto v = in.to_float();
  const auto y =
      make_predictor(std::make_shared<Package>(std::move(p)))->predict({{"x", in}}).at("y").to_float();
  REQUIRE(y.size() == 65 * 4);
  for (size_t c = 0; c < 65; ++c) {
    CHECK(y[c * 4] == 0);
    CHECK(y[c * 4 + 1] == 2 * v[c * 4]);
    CHECK(y[c * 4 + 2] == 2 * v[c * 4 + 2]);
    CHECK(y[c * 4 + 3] == 0);
  }
}
