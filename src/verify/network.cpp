#include "verify/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

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

bool has_halves(const Function& function) {
  bool found = false;
  for_each_op(function.body, [&](const Operation& op) {
    for (const auto& out : op.outputs)
      found = found || (out->type.is_tensor() && out->type.dtype == DType::fp16);
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

double difference(const OnnxArray& want, const Array& got) {
  const std::vector<float> values = got.to_float();
  double worst = 0, largest = 1e-12;
  for (size_t k = 0; k < values.size(); ++k) {
    const double w = want.data[k], g = static_cast<double>(values[k]);
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
    const double apart = std::fabs(w - g);
    worst = std::isfinite(apart) ? std::max(worst, apart) : std::numeric_limits<double>::infinity();
  }
  for (const double w : want.data)
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
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
                 const std::map<std::string, Array>& given) {
  Inputs out;
  std::mt19937 random(1);
  const auto names = onnx_names(package);
  const auto fixed = onnx_fixed(package);
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    const std::string original(info->name);
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
      array = made_up(*info, shape, random);
      out.made = true;
    }
    out.model.emplace(original, as_onnx(array, *info));
    if (known != signature.inputs.end()) out.package.emplace(name, std::move(array));
  }
  return out;
}

}  // namespace

bool NetworkVerdict::passed() const {
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](const NetworkDifference& d) { return d.error <= bar; });
}

NetworkVerdict verify_network(std::shared_ptr<const Package> package, const OnnxModel& model,
                              const std::map<std::string, Array>& given, const Backend& backend) {
  const Function* function = package->program.find_function("main");
  if (!function) throw Error("the package has no function 'main'").hint("was it made from an ONNX network?");
  for (const auto& input : function->inputs)
    if (input->type.kind == Type::Kind::state)
      throw Error("a package with states cannot be compared with its network")
          .hint("convert it without --state");
  NetworkVerdict verdict;
  verdict.bar = has_halves(*function) ? kHalfBar : kSingleBar;
  std::map<std::string, const Value*> values;
  for (const auto& op : function->body.ops)
    for (const auto& out : op->outputs)
      if (op->type != "const" && out->type.is_tensor()) values.emplace(out->name, out.get());
  std::vector<std::string> taps;
  for (const OnnxNode& node : model.graph().nodes)
    for (const std::string_view name : node.outputs)
      if (const std::string clean = safe_name(name); !name.empty() && values.contains(clean))
        taps.push_back(clean);
  std::sort(taps.begin(), taps.end());
  taps.erase(std::unique(taps.begin(), taps.end()), taps.end());
  const auto predictor = open_tapped(backend, package, "main", taps);
  const auto names = onnx_names(*package);
  const auto layouts = onnx_layouts(*package);
  const Inputs inputs = inputs_of(model, predictor->signature(), *package, given);
  verdict.made_inputs = inputs.made;
  const Prediction result = predictor->predict(inputs.package, nullptr);
  const auto compare = [&](std::string_view name, const OnnxArray& want) -> std::optional<double> {
    const auto renamed = names.find(std::string(name));
    const auto it = result.outputs.find(renamed == names.end() ? safe_name(name) : renamed->second);
    if (it == result.outputs.end() || it->second.size() != want.size()) return std::nullopt;
    const auto order = layouts.find(it->first);
    if (order == layouts.end()) return difference(want, it->second);
    if (!is_order(order->second, want)) return std::nullopt;
    return difference(reordered(want, order->second), it->second);
  };
  const auto outputs = OnnxInterpreter(model).compute(
      inputs.model, [&](const OnnxNode& node, std::string_view name, const OnnxArray& want) {
        ++verdict.nodes;
        const auto error = compare(name, want);
        if (!error) return;
        ++verdict.compared;
        if (*error > verdict.bar && !verdict.first)
          verdict.first = NetworkDifference{node.place(), std::string(name), *error};
      });
  for (const auto& [name, want] : outputs) {
    const auto error = compare(name, want);
    if (!error) throw errorf("the package has no output like '{}'", onnx_printable(name));
    verdict.outputs.push_back({"", name, *error});
  }
  return verdict;
}

}  // namespace anemone
