#include "verify/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/error.h"
#include "base/shape.h"
#include "mil/builder.h"
#include "onnx/interpret/interpreter.h"
#include "onnx/network.h"
#include "predict/taps.h"

namespace anemone {
namespace {

// fp32 sums in another order; fp16 rounds every value, and deep networks add that up.
constexpr double kSingleBar = 1e-4, kHalfBar = 5e-2;
// States are kept in fp16: each number is rounded once, by at most 2^-11 of itself, or of the smallest normal number.
constexpr double kRounding = 0x1p-11, kLeastNormal = 0x1p-14;

// Whether values besides those of states are rounded to fp16. Every package reads and writes its states in fp16.
bool has_halves(const Function& function) {
  std::set<const Value*> written, used(function.body.outputs.begin(), function.body.outputs.end());
  for_each_op(function.body, [&](const Operation& op) {
    for (const Input& input : op.inputs)
      for (const Binding& b : input.bindings) (op.type == "write_state" ? written : used).insert(b.value);
    for (const auto& inner : op.blocks) used.insert(inner->outputs.begin(), inner->outputs.end());
  });
  bool found = false;
  for_each_op(function.body, [&](const Operation& op) {
    if (op.type == "read_state") return;
    for (const auto& out : op.outputs) {
      const bool to_state = op.type == "cast" && written.contains(out.get()) && !used.contains(out.get());
      found = found || (out->type.is_tensor() && out->type.dtype == DType::fp16 && !to_state);
    }
  });
  return found;
}

Array made_up(const OnnxValueInfo& info, const std::vector<int64_t>& shape, std::mt19937& random) {
  if (!onnx_type_info(info.type).floating) {
    Array a(DType::int32, shape);
    for (int32_t& v : a.values<int32_t>()) v = static_cast<int32_t>(random() % 2);
    return a;
  }
  Array a(DType::fp32, shape);
  for (float& v : a.values<float>()) v = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
  return a;
}

Array made_up_pixels(const std::vector<int64_t>& shape, std::mt19937& random) {
  Array a(DType::fp32, shape);
  for (float& v : a.values<float>()) v = static_cast<float>(random() % 256);
  return a;
}

// What the network gets where the package gets an image.
void from_pixels(OnnxArray& value, const OnnxImage& image) {
  const int64_t channels = value.rank() == 4 ? value.dims[1] : 1;
  const int64_t plane =
      value.size() / std::max<int64_t>(1, value.dims.empty() ? 1 : value.dims[0] * channels);
  for (int64_t k = 0; k < value.size(); ++k) {
    const auto color = static_cast<size_t>(k / std::max<int64_t>(1, plane) % channels);
    const float bias = image.bias[std::min(color, image.bias.size() - 1)];
    double& v = value.data[static_cast<size_t>(k)];
    v = v * static_cast<double>(image.scale) + static_cast<double>(bias);
  }
}

OnnxArray as_onnx(const Array& array, const OnnxValueInfo& info) {
  OnnxArray out;
  out.type = info.type;
  out.dims = array.shape();
  if (info.has_shape && info.dims.empty() && out.dims == std::vector<int64_t>{1}) out.dims.clear();
  if (dtype_is_float(array.dtype()))
    for (const float v : array.to_float()) out.data.push_back(static_cast<double>(v));
  else
    for (const int64_t v : array.to_int()) out.data.push_back(static_cast<double>(v));
  return out;
}

// The array with its axes in another order.
OnnxArray reordered(const OnnxArray& from, const Layout& order) {
  OnnxArray to{from.type, {}, {}};
  std::vector<int64_t> strides(from.dims.size(), 1), steps;
  for (size_t d = from.dims.size(); d-- > 1;) strides[d - 1] = strides[d] * from.dims[d];
  for (const int axis : order) {
    to.dims.push_back(from.dims[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  to.data.reserve(from.data.size());
  for_each_offset(to.dims, steps, [&](int64_t at) { to.data.push_back(from.data[static_cast<size_t>(at)]); });
  return to;
}

// Each axis of the array once.
bool is_order(const Layout& order, const OnnxArray& array) {
  Layout sorted = order;
  std::sort(sorted.begin(), sorted.end());
  return sorted == plain_layout(static_cast<int>(array.rank()));
}

// Both say "never": a mask, which is fp16's largest number in a package of halves.
bool is_mask(double want, double got) {
  constexpr double kMask = 1e30, kLargestHalf = 65504;
  return std::fabs(want) >= kMask && std::fabs(got) >= kLargestHalf && (want < 0) == (got < 0);
}

// Both have the same number of elements. Relative to the largest number, which is taken to be `least` at least.
double difference(const OnnxArray& want, const Array& got, bool halves, double least = 1e-12) {
  const std::vector<float> values = got.to_float();
  double worst = 0, largest = least;
  for (size_t k = 0; k < values.size(); ++k) {
    const double w = want.data[k], g = static_cast<double>(values[k]);
    if (halves && is_mask(w, g)) continue;
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    const double apart = std::fabs(w - g);
    worst = std::isfinite(apart) ? std::max(worst, apart) : std::numeric_limits<double>::infinity();
  }
  return worst / largest;
}

// The value that the package has in the place of an input.
OnnxArray fixed_input(const OnnxValueInfo& info, const std::vector<int64_t>& values) {
  OnnxArray out{info.type, {}, {values.begin(), values.end()}};
  for (const OnnxDim& dim : info.dims) out.dims.push_back(dim.known() ? dim.size : 1);
  const bool fits = info.has_shape && element_count(out.dims) == out.size();
  if (!fits) out.dims = {out.size()};
  return out;
}

struct Inputs {
  std::map<std::string, Array> package;    // by the package's names
  std::map<std::string, OnnxArray> model;  // by the model's
  bool made = false;
};

Inputs inputs_of(const OnnxModel& model, const Signature& signature, const Package& package,
                 const std::map<std::string, Array>& given, std::mt19937& random) {
  Inputs out;
  const auto names = onnx_input_names(package);
  const auto pixels = onnx_pixels(package);
  const auto fixed = onnx_fixed(package);
  const auto states = onnx_states(package);
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    const std::string original(info->name);
    if (states.contains(original)) continue;
    const auto renamed = names.find(original);
    const std::string name = renamed == names.end() ? original : renamed->second;
    const auto known = std::find_if(signature.inputs.begin(), signature.inputs.end(),
                                    [&](const TensorInfo& t) { return t.name == name; });
    const auto it = given.contains(original) ? given.find(original) : given.find(name);
    if (const auto value = fixed.find(original); value != fixed.end() && it == given.end()) {
      out.model.emplace(original, fixed_input(*info, value->second));
      continue;
    }
    if (it == given.end() && known == signature.inputs.end())
      throw errorf("the model's input '{}' is fixed in the package", onnx_printable(original))
          .hint("give its value with --inputs");
    Array array;
    if (it != given.end()) {
      array = it->second;
    } else {
      std::vector<int64_t> shape = known->shape;
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d] < 0) shape[d] = d < known->range.size() ? known->range[d].first : 1;
      array = pixels.contains(original) ? made_up_pixels(shape, random) : made_up(*info, shape, random);
      out.made = true;
    }
    OnnxArray value = as_onnx(array, *info);
    if (const auto image = pixels.find(original); image != pixels.end()) from_pixels(value, image->second);
    out.model.emplace(original, std::move(value));
    if (known != signature.inputs.end()) out.package.emplace(name, std::move(array));
  }
  return out;
}

// The values of nodes that the package has by their names.
std::vector<std::string> taps_of(const OnnxModel& model, const Function& function) {
  std::set<std::string> values, out;
  for (const auto& op : function.body.ops)
    for (const auto& made : op->outputs)
      if (op->type != "const" && made->type.is_tensor()) values.insert(made->name);
  for (const OnnxNode& node : model.graph().nodes)
    for (const std::string_view name : node.outputs)
      if (std::string clean = safe_name(name); !name.empty() && values.contains(clean))
        out.insert(std::move(clean));
  return {out.begin(), out.end()};
}

// Compares one call after the other.
class Comparison {
 public:
  Comparison(const Package& package, const OnnxModel& model, const Predictor& predictor,
             NetworkVerdict& verdict)
      : model_(model),
        predictor_(predictor),
        verdict_(verdict),
        names_(onnx_names(package)),
        layouts_(onnx_layouts(package)) {
    for (const auto& [past, present] : onnx_states(package)) states_.push_back({past, present});
    if (!states_.empty()) state_ = predictor.make_state();
  }

  bool has_states() const { return state_ != nullptr; }
  void start_states(const std::map<std::string, Array>& given) {
    for (const auto& [past, present] : states_) {
      const std::string own = renamed(past);
      const auto it = given.contains(past) ? given.find(past) : given.find(own);
      if (it != given.end()) state_->set(own, it->second);
    }
  }

  void call(Inputs inputs) {
    for (const auto& [past, present] : states_)
      inputs.model.insert_or_assign(past, as_onnx(state_->get(renamed(past)), *model_.graph().info(past)));
    result_ = predictor_.predict(inputs.package, state_.get());
    verdict_.nodes = verdict_.compared = 0;  // of one call
    const auto outputs = OnnxInterpreter(model_).compute(
        inputs.model, [&](const OnnxNode& node, std::string_view name, OnnxArray& want) {
          ++verdict_.nodes;
          take_near_ties(name, want);
          const auto error = compare(name, want);
          if (!error) return;
          ++verdict_.compared;
          if (*error > verdict_.bar && !verdict_.first)
            verdict_.first = NetworkDifference{node.place(), std::string(name), *error, verdict_.bar};
        });
    for (const auto& [name, want] : outputs) {
      const auto state =
          std::find_if(states_.begin(), states_.end(), [&](const auto& s) { return s.second == name; });
      if (state != states_.end()) {
        note(name, state_difference(state->first, want), verdict_.bar + kRounding);
        continue;
      }
      const std::optional<double> error = compare(name, want);
      if (!error) throw errorf("the package has no output like '{}'", onnx_printable(name));
      note(name, *error, verdict_.bar);
    }
  }

 private:
  bool halves() const { return verdict_.bar > kSingleBar; }

  std::string renamed(const std::string& name) const {
    const auto it = names_.find(name);
    return it == names_.end() ? safe_name(name) : it->second;
  }

  double state_difference(const std::string& past, const OnnxArray& want) const {
    const Array held = state_->get(renamed(past));
    if (held.size() != want.size())
      throw errorf("the state '{}' has another size than the network's next value of it",
                   onnx_printable(past))
          .found(shape_text(held.shape()))
          .expected(shape_text(want.dims))
          .hint("is this the network that the package was made from?");
    return difference(want, held, halves(), kLeastNormal);
  }

  // Codes of few bits: where the value before the rounding is close to a tie, both neighbors are right. The package's
  // are taken then, and the network goes on with them: one step of a code is far more than the bar.
  void take_near_ties(std::string_view name, OnnxArray& want) const {
    const auto it = result_.outputs.find(renamed(std::string(name)));
    if (want.unrounded.empty() || it == result_.outputs.end() || it->second.size() != want.size()) return;
    if (layouts_.contains(it->first)) return;
    const std::vector<float> got = it->second.to_float();
    const auto [low, high] = std::minmax_element(want.unrounded.begin(), want.unrounded.end());
    const float range = std::max({*high - *low, std::fabs(*high), std::fabs(*low)});
    const double room = 0.5 + verdict_.bar * static_cast<double>(range);
    for (size_t k = 0; k < got.size(); ++k)
      if (std::fabs(static_cast<double>(got[k]) - static_cast<double>(want.unrounded[k])) <= room)
        want.data[k] = static_cast<double>(got[k]);
  }

  std::optional<double> compare(std::string_view name, const OnnxArray& want) const {
    const auto it = result_.outputs.find(renamed(std::string(name)));
    if (it == result_.outputs.end() || it->second.size() != want.size()) return std::nullopt;
    const auto order = layouts_.find(it->first);
    if (order == layouts_.end()) return difference(want, it->second, halves());
    if (!is_order(order->second, want)) return std::nullopt;
    return difference(reordered(want, order->second), it->second, halves());
  }

  // Of several calls the worst counts.
  void note(const std::string& name, double error, double bar) {
    for (NetworkDifference& d : verdict_.outputs)
      if (d.value == name) {
        d.error = std::max(d.error, error);
        return;
      }
    verdict_.outputs.push_back({"", name, error, bar});
  }

  const OnnxModel& model_;
  const Predictor& predictor_;
  NetworkVerdict& verdict_;
  std::map<std::string, std::string> names_;
  std::map<std::string, Layout> layouts_;
  std::vector<std::pair<std::string, std::string>> states_;
  std::unique_ptr<State> state_;
  Prediction result_;
};

}  // namespace

bool NetworkVerdict::passed() const {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const NetworkDifference& d) { return d.error <= d.bar; });
}

NetworkVerdict verify_network(std::shared_ptr<const Package> package, const OnnxModel& model,
                              const std::map<std::string, Array>& given, const Backend& backend) {
  constexpr int64_t kCalls = 3;  // with states: empty, after one call, after two
  const Function* function = package->program.find_function("main");
  if (!function) throw Error("the package has no function 'main'").hint("was it made from an ONNX network?");
  const auto states = onnx_states(*package);
  for (const auto& input : function->inputs)
    if (input->type.kind == Type::Kind::state && states.empty())
      throw Error("the package does not say which inputs of the network are its states")
          .hint("convert it again: packages of older versions do not say it");
  for (const auto& [past, present] : states)
    if (!model.graph().info(past))
      throw errorf("the package has a state '{}', which is no input of the network", onnx_printable(past))
          .hint("is this the network that it was made from?");
  NetworkVerdict verdict;
  verdict.bar = has_halves(*function) ? kHalfBar : kSingleBar;
  const auto predictor = open_tapped(backend, package, "main", taps_of(model, *function));
  Comparison comparison(*package, model, *predictor, verdict);
  comparison.start_states(given);
  verdict.calls = comparison.has_states() ? kCalls : 1;
  std::mt19937 random(1);
  for (int64_t i = 0; i < verdict.calls; ++i) {
    const Inputs inputs = inputs_of(model, predictor->signature(), *package, given, random);
    verdict.made_inputs = inputs.made;
    comparison.call(inputs);
  }
  return verdict;
}

}  // namespace anemone
