#include "mil/passes/move_axes.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>

#include "mil/passes/laid_out.h"
#include "mil/passes/rewriter.h"

namespace anemone {
namespace {

constexpr int kMostTries = 16;

const std::set<std::string_view> kUnary = {"abs",
                                           "atan",
                                           "cast",
                                           "ceil",
                                           "clip",
                                           "cos",
                                           "elu",
                                           "erf",
                                           "exp",
                                           "exp2",
                                           "floor",
                                           "gelu",
                                           "identity",
                                           "inverse",
                                           "leaky_relu",
                                           "log",
                                           "relu",
                                           "linear_activation",
                                           "relu6",
                                           "round",
                                           "rsqrt",
                                           "scaled_tanh",
                                           "sigmoid",
                                           "sign",
                                           "sigmoid_hard",
                                           "silu",
                                           "sin",
                                           "softplus",
                                           "softsign",
                                           "sqrt",
                                           "square",
                                           "logical_not",
                                           "tanh",
                                           "threshold",
                                           "thresholded_relu"};
const std::set<std::string_view> kBinary = {
    "add",       "sub",        "mul",         "real_div",   "floor_div",     "mod",
    "pow",       "maximum",    "equal",       "minimum",    "less",          "greater",
    "not_equal", "less_equal", "logical_and", "logical_or", "greater_equal", "logical_xor"};
const std::set<std::string_view> kReductions = {"reduce_l1_norm",    "reduce_l2_norm", "reduce_max",
                                                "reduce_mean",       "reduce_min",     "reduce_sum",
                                                "reduce_sum_square", "reduce_log_sum", "reduce_log_sum_exp"};

bool fixed_tensor(const Value* v) {
  return v && v->type.is_tensor() && v->type.fixed() && v->type.size() > 0 && v->type.dtype != DType::string;
}

// All values that go in and come out are tensors of known size.
bool fixed_operation(const Operation& op) {
  for (const Input& input : op.inputs)
    for (const Binding& b : input.bindings)
      if (b.value && !b.value->constant() && !fixed_tensor(b.value)) return false;
  return !op.outputs.empty() && op.blocks.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [](const auto& o) { return fixed_tensor(o.get()); });
}

int normal(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// Tokens last: what a conv over [B, S, C], [S, C] or [B, H, W, C] reads.
Layout conv_layout(int rank) {
  return rank == 2 ? Layout{kUnit, 1, kUnit, 0} : rank == 3 ? Layout{0, 2, kUnit, 1} : Layout{0, 3, 1, 2};
}

// The rows of another source, in another shape.
class ReshapedSource : public WeightSource {
 public:
  ReshapedSource(std::shared_ptr<WeightSource> from, Shape shape)
      : from_(std::move(from)), type_(Type::tensor(from_->type().dtype, std::move(shape))) {}
  const Type& type() const override { return type_; }
  void prepare(ThreadPool& pool) override { from_->prepare(pool); }
  bool late() const override { return from_->late(); }
  int64_t row_step() const override { return from_->row_step(); }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    from_->rows(begin, end, out);
  }

 private:
  std::shared_ptr<WeightSource> from_;
  Type type_;
};

// [out, in] as [out, in, 1, 1]. Nothing is read: a source stays one.
Constant as_kernel(const Constant& weight) {
  Constant out = weight;
  out.type.shape.insert(out.type.shape.end(), 2, 1);
  if (const auto* source = std::get_if<Constant::Source>(&weight.data))
    out.data = std::make_shared<ReshapedSource>(*source, out.type.shape);
  return out;
}

class AxisMover {
 public:
  AxisMover(Function& function, const LayoutOptions& options, const std::set<size_t>& excluded)
      : options_(options), excluded_(excluded), out_(function) {}

  void run() {
    std::vector<std::unique_ptr<Operation>> gone;
    for (auto& op : out_.old()) {
      if (op->type != "const" && fixed_operation(*op) && moved(*op))
        gone.push_back(std::move(op));
      else
        out_.keep(std::move(op));
    }
    out_.finish();
  }

  const LaidOut& result() const { return out_; }
  size_t linears() const { return linears_; }

 private:
  using Held = LaidOut::Held;

  bool moved(Operation& op) {
    if (op.type == "transpose") return transpose(op);
    if (kUnary.contains(op.type)) return elementwise(op, {"x"});
    if (kBinary.contains(op.type)) return elementwise(op, {"x", "y"});
    if (op.type == "select") return elementwise(op, {"cond", "a", "b"});
    if (kReductions.contains(op.type)) return reduction(op);
    if (op.type == "softmax") return softmax(op);
    if (op.type == "layer_norm") return layer_norm(op);
    if (op.type == "concat") return concat(op);
    if (op.type == "split") return split(op);
    if (op.type == "slice_by_index") return slice(op);
    if (op.type == "reshape" || op.type == "expand_dims" || op.type == "squeeze" || op.type == "flatten2d")
      return reshape(op);
    if (op.type == "matmul") return matmul(op);
    if (op.type == "linear") return linear(op);
    return false;
  }

  // The value as it lies where that is not the program's order alone; else empty.
  const Held* laid(const Value* value) const {
    if (!value || !fixed_tensor(value)) return nullptr;
    const Held& h = out_.held(value);
    return h.stored && (!h.plain || h.region >= 0) ? &h : nullptr;
  }

  bool transpose(Operation& op) {
    Value* x = op.value("x");
    auto perm = known_integers(op, "perm");
    if (!x || !perm || x->constant()) return false;
    for (int64_t& axis : *perm) axis = normal(axis, x->type.rank());
    const Held h = out_.held(x);
    Value* lies = h.stored ? h.stored : h.plain;
    const Layout layout = h.stored ? h.layout : plain_layout(x->type.rank());
    out_.settle(op.outputs[0].get(), lies, transposed_layout(layout, *perm), h.region);
    return true;
  }

  bool elementwise(Operation& op, const std::vector<std::string>& params) {
    const int rank = op.outputs[0]->type.rank();
    const Held* lead = nullptr;
    int region = -1;
    for (const std::string& param : params) {
      Value* v = op.value(param);
      if (!v) return false;
      const Held* h = laid(v);
      if (h && v->type.rank() == rank && v->type.size() > 1) {
        if (!lead || h->region > lead->region) lead = h;
        region = out_.join(region, h->region);
      }
    }
    if (!lead) return false;
    const Layout layout = lead->layout;
    std::map<std::string, Arg> changes;
    for (const std::string& param : params)
      changes[param] = out_.operand_as(op.value(param), rank, layout, region);
    out_.settle(op.outputs[0].get(), out_.emit_like(op, changes)[0], layout, region);
    return true;
  }

  bool reduction(Operation& op) {
    const Held* h = laid(op.value("x"));
    const auto axes = known_integers(op, "axes"), keep = known_integers(op, "keep_dims");
    if (!h || !axes) return false;
    const int rank = op.value("x")->type.rank();
    std::vector<int64_t> places;
    std::vector<int> gone;
    for (const int64_t axis : *axes) {
      gone.push_back(normal(axis, rank));
      places.push_back(place_of(h->layout, gone.back()));
    }
    Layout layout;
    const bool kept = keep && keep->at(0);
    for (const int axis : h->layout) {
      const auto before = std::count_if(gone.begin(), gone.end(), [&](int g) { return g < axis; });
      if (kept || axis == kUnit)
        layout.push_back(axis);
      else if (std::find(gone.begin(), gone.end(), axis) == gone.end())
        layout.push_back(axis - static_cast<int>(before));
    }
    Value* stored = h->stored;
    const int region = h->region;
    if (layout.empty()) return false;
    Value* y = out_.emit_like(op, {{"x", stored}, {"axes", Constant::ints(places)}})[0];
    out_.settle(op.outputs[0].get(), y, layout, region);
    return true;
  }

  bool softmax(Operation& op) {
    const Held* found = laid(op.value("x"));
    if (!found) return false;
    const Held h = *found;
    const auto axis = known_integers(op, "axis");
    if (op.input("axis") && !axis) return false;
    const int at = place_of(h.layout, normal(axis ? axis->at(0) : -1, op.value("x")->type.rank()));
    Value* y = out_.emit_like(op, {{"x", h.stored}, {"axis", Constant::integer(at)}})[0];
    out_.settle(op.outputs[0].get(), y, h.layout, h.region);
    return true;
  }

  bool layer_norm(Operation& op) {
    const Held* found = laid(op.value("x"));
    const auto axes = known_integers(op, "axes");
    if (!found || !axes || axes->size() != 1) return false;
    const Held h = *found;
    const int at = place_of(h.layout, normal((*axes)[0], op.value("x")->type.rank()));
    Value* y = out_.emit_like(op, {{"x", h.stored}, {"axes", Constant::ints({at})}})[0];
    out_.settle(op.outputs[0].get(), y, h.layout, h.region);
    return true;
  }

  bool concat(Operation& op) {
    const auto axis = known_integers(op, "axis"), interleave = known_integers(op, "interleave");
    const Input* values = op.input("values");
    if (!axis || !values || (interleave && interleave->at(0))) return false;
    const Held* lead = nullptr;
    size_t laid_out = 0;
    for (const Binding& b : values->bindings) {
      if (!b.value || !fixed_tensor(b.value)) return false;
      if (const Held* h = laid(b.value)) {
        lead = h;
        ++laid_out;
      }
    }
    if (!lead || 2 * laid_out < values->bindings.size()) return false;
    const Held h = *lead;
    std::vector<Value*> parts;
    for (const Binding& b : values->bindings) parts.push_back(out_.stored_as(b.value, h.layout, h.region));
    const int at = place_of(h.layout, normal(axis->at(0), op.outputs[0]->type.rank()));
    Value* y = out_.emit_like(op, {{"values", parts}, {"axis", Constant::integer(at)}})[0];
    out_.settle(op.outputs[0].get(), y, h.layout, h.region);
    return true;
  }

  bool split(Operation& op) {
    const Held* found = laid(op.value("x"));
    const auto axis = known_integers(op, "axis");
    if (!found || !axis) return false;
    const Held h = *found;
    const int at = place_of(h.layout, normal(axis->at(0), op.value("x")->type.rank()));
    const std::vector<Value*> parts = out_.emit_like(op, {{"x", h.stored}, {"axis", Constant::integer(at)}});
    for (size_t k = 0; k < parts.size(); ++k) out_.settle(op.outputs[k].get(), parts[k], h.layout, h.region);
    return true;
  }

  // A list with one entry per axis, in another order.
  static std::vector<int64_t> laid_list(const std::vector<int64_t>& list, const Layout& layout,
                                        int64_t unit) {
    std::vector<int64_t> out;
    for (const int axis : layout) out.push_back(axis == kUnit ? unit : list[static_cast<size_t>(axis)]);
    return out;
  }

  static Constant flags(const std::vector<int64_t>& list) {
    std::vector<char> bytes(list.begin(), list.end());
    return Constant::booleans(std::span(reinterpret_cast<const bool*>(bytes.data()), bytes.size()));
  }

  bool slice(Operation& op) {
    const Held* found = laid(op.value("x"));
    if (!found || op.outputs[0]->type.rank() != op.value("x")->type.rank()) return false;
    const Held h = *found;
    const size_t rank = op.value("x")->type.shape.size();
    std::map<std::string, Arg> changes = {{"x", h.stored}};
    for (const char* param : {"begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask"}) {
      if (!op.input(param)) continue;
      const auto list = known_integers(op, param);
      if (!list || list->size() != rank) return false;
      const std::string_view name = param;
      const bool mask = name.ends_with("_mask");
      const int64_t unit = name == "begin" || name == "squeeze_mask" ? 0 : 1;
      const std::vector<int64_t> order = laid_list(*list, h.layout, unit);
      changes[param] = mask ? flags(order) : Constant::ints(order);
    }
    out_.settle(op.outputs[0].get(), out_.emit_like(op, changes)[0], h.layout, h.region);
    return true;
  }

  bool reshape(Operation& op) {
    const Held* found = laid(op.value("x"));
    if (!found || op.outputs[0]->type.rank() == 0) return false;
    const Held h = *found;
    const std::vector<int64_t> wanted = op.outputs[0]->type.dims();
    auto layout = reshaped_layout(h.layout, op.value("x")->type.dims(), wanted);
    if (!layout) return false;
    if (h.region >= 0 && wanted.size() <= 3 && wanted.size() >= 2) {
      const Layout conv = conv_layout(static_cast<int>(wanted.size()));
      if (same_elements(wanted, *layout, conv)) layout = conv;
    }
    Value* y = h.stored;
    if (const std::vector<int64_t> shape = stored_shape(wanted, *layout); y->type.dims() != shape)
      y = out_.emit("reshape", {{"x", y}, {"shape", Constant::ints(shape)}}, op.outputs[0]->name + "_moved");
    out_.settle(op.outputs[0].get(), y, *layout, h.region);
    return true;
  }

  // A side of a product: how it lies, and whether its last two axes have changed places.
  struct Side {
    Value* value = nullptr;
    bool laid = false, swapped = false;
    int region = -1;
  };

  Side side(Value* v) {
    const Held* h = laid(v);
    if (h) {
      const int rank = v->type.rank();
      Layout layout = without_units(h->layout), swapped = plain_layout(rank);
      std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
      const std::vector<int64_t> dims = v->type.dims();
      const bool turned =
          layout == swapped || (layout != plain_layout(rank) && same_elements(dims, layout, swapped));
      if (turned || same_elements(dims, layout, plain_layout(rank))) {
        Side s{h->stored, true, turned, h->region};
        const std::vector<int64_t> shape = stored_shape(dims, turned ? swapped : plain_layout(rank));
        if (s.value->type.dims() != shape)
          s.value =
              out_.emit("reshape", {{"x", s.value}, {"shape", Constant::ints(shape)}}, v->name + "_matrix");
        return s;
      }
    }
    return {nullptr, false, false, -1};
  }

  bool matmul(Operation& op) {
    Value *x = op.value("x"), *y = op.value("y");
    if (!x || !y || !fixed_tensor(x) || !fixed_tensor(y) || x->type.rank() < 2) return false;
    if (x->type.rank() != y->type.rank()) return false;
    Side a = side(x), b = side(y);
    if (!a.laid && !b.laid) return false;
    const auto flag = [&](const char* param) {
      const auto known = known_integers(op, param);
      return known && known->at(0) != 0;
    };
    if (!a.laid) a.value = out_.plain(x);
    if (!b.laid) b.value = out_.plain(y);
    const bool ta = flag("transpose_x") != a.swapped, tb = flag("transpose_y") != b.swapped;
    // The columns of the product come from y. Where they do not lie last there, the product lies so too.
    const bool turn = b.laid && b.region >= 0 && tb;
    const int rank = op.outputs[0]->type.rank(), region = out_.join(a.region, b.region);
    Layout layout = plain_layout(rank);
    if (turn) std::swap(layout[layout.size() - 1], layout[layout.size() - 2]);
    Value* product = out_.emit("matmul",
                               {{"x", turn ? b.value : a.value},
                                {"y", turn ? a.value : b.value},
                                {"transpose_x", Constant::boolean(turn ? !tb : ta)},
                                {"transpose_y", Constant::boolean(turn ? !ta : tb)}},
                               op.name());
    out_.settle(op.outputs[0].get(), product, layout, region);
    return true;
  }

  bool linear(Operation& op) {
    const size_t index = linears_++;
    Value *x = op.value("x"), *weight = op.value("weight"), *bias = op.value("bias");
    if (!options_.convolve || excluded_.contains(index)) return false;
    if (!x || !x->type.is_float() || !weight || !weight->constant() || weight->type.rank() != 2) return false;
    const int rank = x->type.rank();
    if (rank < 2 || rank > 4 || (op.input("bias") && (!bias || !bias->constant()))) return false;
    const Layout layout = conv_layout(rank);
    int region = out_.new_region(index);
    if (const Held* h = laid(x)) region = out_.join(region, h->region);
    Value* stored = out_.stored_as(x, layout, region);
    Value*& kernel = kernels_[weight];
    if (!kernel) kernel = out_.constant(as_kernel(*weight->constant()), weight->name + "_kernel");
    const Constant ones = Constant::ints({1, 1});
    Value* y = out_.emit("conv",
                         {{"x", stored},
                          {"weight", kernel},
                          {"bias", bias ? out_.plain(bias) : nullptr},
                          {"strides", ones},
                          {"pad_type", Constant::text("valid")},
                          {"pad", Constant::ints({0, 0, 0, 0})},
                          {"dilations", ones},
                          {"groups", Constant::integer(1)}},
                         op.name());
    out_.settle(op.outputs[0].get(), y, layout, region);
    return true;
  }

  const LayoutOptions& options_;
  const std::set<size_t>& excluded_;
  LaidOut out_;
  size_t linears_ = 0;
  std::unordered_map<const Value*, Value*> kernels_;  // of convs, by the weights that they are made of
};

int64_t count_transposes(const Function& function) {
  int64_t count = 0;
  for_each_op(function.body, [&](const Operation& op) { count += op.type == "transpose"; });
  return count;
}

// Without those regions that would have more transposes than convs.
void move_function(Program& program, size_t index, const LayoutOptions& options, LayoutReport& report) {
  const int64_t before = count_transposes(*program.functions[index]);
  std::set<size_t> excluded;
  for (int tries = 0; tries < kMostTries; ++tries) {
    Program copy = program.clone();
    Function& function = *copy.functions[index];
    AxisMover mover(function, options, excluded);
    mover.run();
    const size_t known = excluded.size();
    size_t convs = 0;
    for (const LaidOut::Region& region : mover.result().regions()) {
      convs += region.convs.size();
      if (region.transposes > static_cast<int64_t>(region.convs.size()))
        excluded.insert(region.convs.begin(), region.convs.end());
    }
    if (excluded.size() > known) continue;
    const int64_t after = count_transposes(function);
    if (convs == 0 && after >= before) break;
    report.transposes_before += before;
    report.transposes_after += after;
    report.convolved += static_cast<int64_t>(convs);
    report.left += static_cast<int64_t>(mover.linears() - convs);
    report.layouts.insert(mover.result().layouts().begin(), mover.result().layouts().end());
    program.functions[index] = std::move(copy.functions[index]);
    return;
  }
  report.transposes_before += before;
  report.transposes_after += before;
}

}  // namespace

LayoutReport move_axes(Program& program, const LayoutOptions& options) {
  LayoutReport report;
  for (size_t i = 0; i < program.functions.size(); ++i) move_function(program, i, options, report);
  return report;
}

}  // namespace anemone
