// The heads: the outputs of a function, computed from the stream after the final norm.
#include <algorithm>

#include "base/error.h"
#include "lower/head.h"
#include "lower/ops.h"

namespace anemone::lower {
namespace {

// The first of the best rows as two fp16 numbers, high * 128 + low, without any integer operation.
void add_argmax(Builder& b, Value* logits, const Role& rows_of, int64_t piece, FunctionInterface& interface) {
  const int64_t rows = rows_of.last - rows_of.first;
  std::vector<float> high, low;
  for (int64_t i = 0; i < rows; ++i) {
    high.push_back(static_cast<float>(i / kIndexBase));
    low.push_back(static_cast<float>(i % kIndexBase));
  }
  const auto name = [&](const char* what) { return fmt::format("{}_{}", what, piece); };
  const Constant axes = Constant::ints({1}), keep = Constant::boolean(true);
  const Shape column{1, rows, 1, 1};
  Value* highs = b.constant(Constant::numbers(high, kHalf, column), name("row_high"));
  Value* lows = b.constant(Constant::numbers(low, kHalf, column), name("row_low"));
  Value* best = b.op("reduce_max", {{"x", logits}, {"axes", axes}, {"keep_dims", keep}}, name("best"));
  Value* is_best = b.op("greater_equal", {{"x", logits}, {"y", best}}, name("is_best"));
  // How far each is from the best: 0 for the best, and of the full shape, since coremltools lets `select` take its
  // shape from its values alone.
  Value* gap = b.op("sub", {{"x", best}, {"y", logits}}, name("gap"));
  const auto least = [&](Value* where, Value* numbers, const char* what) {
    Value* far = b.op("select", {{"cond", where}, {"a", gap}, {"b", half(60000)}}, name(what) + "_far");
    Value* candidates = add(b, far, numbers, name(what) + "_candidates");
    return b.op("reduce_min", {{"x", candidates}, {"axes", axes}, {"keep_dims", keep}}, name(what));
  };
  Value* first_high = least(is_best, highs, "high");
  Value* in_high =
      b.op("logical_and",
           {{"x", is_best}, {"y", b.op("equal", {{"x", highs}, {"y", first_high}}, name("same_high"))}},
           name("in_high"));
  Value* first_low = least(in_high, lows, "low");
  const auto give = [&](Value* value, Role::Kind kind) {
    b.output(value);
    Role role = rows_of;
    role.kind = kind;
    interface.outputs.push_back({value->name, std::move(role)});
  };
  give(best, Role::Kind::best);
  give(first_high, Role::Kind::best_high);
  give(first_low, Role::Kind::best_low);
}

class TextHead {
 public:
  TextHead(Builder& b, const Model& model, Weights& weights, const LayersSpec& spec, Function& f,
           FunctionInterface& interface)
      : b_(b), model_(model), weights_(weights), spec_(spec), f_(f), interface_(interface) {}

  void operator()(Value* y, const VocabularyHead&) const { ANEMONE_CHECK(y == nullptr); }

  void operator()(Value* y, const PooledHead&) const { give(pooled(y), Role::Kind::pooled); }

  void operator()(Value* y, const ClassHead& head) const {
    if (head.pooling) y = pooled(y);
    if (head.dense) {
      y = project(y, head.dense, "dense");
      if (head.activation == ClassHead::Dense::tanh) y = b_.op("tanh", {{"x", y}}, "dense_act");
      if (head.activation == ClassHead::Dense::gelu)
        y = b_.op("gelu", {{"x", y}, {"mode", Constant::text("EXACT")}}, "dense_act");
      if (head.norm) y = norm(y, *head.norm);
    }
    give(project(y, head.classifier, "classes"), Role::Kind::classes);
  }

 private:
  // The sum of the tokens' vectors, each as often as `pool` says: [1, hidden, 1, 1].
  Value* pooled(Value* y) const {
    Value* pool = add_input(f_, "pool", Type::tensor(kHalf, {1, 1, spec_.tokens.dim(), 1}));
    interface_.inputs.push_back({"pool", {.kind = Role::Kind::pool}});
    Value* weighted = mul(b_, y, pool, "pool_weighted");
    return b_.op("reduce_sum",
                 {{"x", weighted}, {"axes", Constant::ints({2})}, {"keep_dims", Constant::boolean(true)}},
                 "pooled");
  }

  Value* project(Value* x, const Projection& p, const std::string& name) const {
    Value* w = weights_.projection(b_, p.weight, 1, name + "_weight");
    Value* bias = p.bias ? weights_.vector(b_, p.bias, {p.weight.rows()}, 0, 1, name + "_bias") : nullptr;
    return conv1x1(b_, x, w, bias, name);
  }

  Value* norm(Value* x, const Norm& n) const {
    const Shape shape{1, model_.hidden, 1, 1};
    NormSpec spec{
        .axis = 1, .gain = weights_.vector(b_, n.gain, shape, n.offset, 1, "dense_norm_gain"), .eps = n.eps};
    if (n.bias) spec.bias = weights_.vector(b_, n.bias, shape, 0, 1, "dense_norm_bias");
    return n.kind == Norm::Kind::rms ? rms_norm(b_, x, spec, "dense_norm")
                                     : layer_norm(b_, x, spec, "dense_norm");
  }

  void give(Value* value, Role::Kind kind) const {
    b_.output(value);
    interface_.outputs.push_back({value->name, {.kind = kind}});
  }

  Builder& b_;
  const Model& model_;
  Weights& weights_;
  const LayersSpec& spec_;
  Function& f_;
  FunctionInterface& interface_;
};

}  // namespace

void add_text_head(Builder& b, Value* y, const Model& model, Weights& weights, const LayersSpec& spec,
                   Function& f, FunctionInterface& interface) {
  const TextHead head(b, model, weights, spec, f, interface);
  std::visit([&](const auto& h) { head(y, h); }, model.head);
}

WeightRef head_rows(WeightRef ref, int64_t first, int64_t last) {
  ref.row_end = ref.row_begin + last;
  ref.row_begin += first;
  return ref;
}

void add_vocabulary_head(Builder& b, Value* y, const Model& model, Weights& weights, const HeadSpec& spec,
                         FunctionInterface& interface) {
  const VocabularyHead& head = model.vocabulary_head();
  int64_t piece = 0;
  for (int64_t row = spec.first_row; row < spec.last_row; row += spec.piece_rows, ++piece) {
    const int64_t end = std::min(row + spec.piece_rows, spec.last_row);
    Value* w = weights.projection(b, head_rows(head.weight, row, end), head.scale,
                                  fmt::format("head_{}_weight", piece));
    Value* bias = head.bias ? weights.vector(b, head_rows(head.bias, row, end), {end - row}, 0, head.scale,
                                             fmt::format("head_{}_bias", piece))
                            : nullptr;
    const bool capped = head.softcap > 0;
    Value* logits = conv1x1(b, y, w, bias, fmt::format("{}_{}", capped ? "raw" : "logits", piece));
    if (capped) logits = soft_cap(b, logits, head.softcap, fmt::format("logits_{}", piece));
    const Role rows{.kind = Role::Kind::logits, .first = row, .last = end};
    if (spec.argmax) {
      interface.taps.push_back({logits->name, "logits", piece, 1});
      add_argmax(b, logits, rows, piece, interface);
    } else {
      b.output(logits);
      interface.outputs.push_back({logits->name, rows});
    }
  }
}

}  // namespace anemone::lower
