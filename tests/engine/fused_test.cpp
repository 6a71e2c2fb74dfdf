#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "anemone/predictor.h"
#include "mil/builder.h"
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
    p_.description = describe(p_.program);
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
  const auto plain =
      make_predictor(package, "", {.arithmetic = arithmetic, .threads = 1, .taps = all_inner(g)});
  const auto a = fused->make_state(), b = plain->make_state();
  std::mt19937 random(3);
  // fp16: the order of a sum may turn a rounding, one step of half at most.
  const float tolerance = arithmetic == Arithmetic::fp16 ? 2e-3f : 1e-5f;
  for (int n = 0; n < 5; ++n) {
    CAPTURE(n);
    Inputs in = inputs_at(g, n * g.tokens, random, far);
    if (twist) twist(n, in);
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
      for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16}) {
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
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16}) {
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
  for (const Form form : {Form::state_mask, Form::packed_mask}) {
    compare({form, 2}, Arithmetic::fp32, -10000, [](int n, Inputs& in) {
      if (n == 1) in.at("write").values<float>()[0] = 0.5f;
      if (n == 2) in.at("write").values<float>()[7] = 1;  // two tokens to one row, or a row of its own
    });
    compare({form, 1}, Arithmetic::fp32, -10000, [](int n, Inputs& in) {
      if (n == 2) in.at("v_1").values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    });
  }
  compare({Form::state_slice, 1}, Arithmetic::fp32, -10000, [](int n, Inputs& in) {
    if (n == 2) in.at("v_0").values<float>()[3] = std::numeric_limits<float>::infinity();
  });
}

TEST_CASE("fp16 arithmetic names the same operation when a score leaves half's range") {
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
  const auto fused = make_predictor(package), plain = make_predictor(package, "", {.taps = all_inner(g)});
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
