#include "onnx/node_case.h"

#include <cmath>
#include <map>
#include <set>

#include "anemone/predictor.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "engine/cpu_backend.h"
#include "onnx/interpret/interpreter.h"
#include "onnx/model.h"
#include "onnx/network.h"
#include "package/package.h"

namespace anemone::test {
namespace {

using Kind = NodeResult::Kind;
using Tensors = std::map<std::string, const OnnxTensor*>;

// Why a tensor cannot be a value of a Core ML program; empty where it can.
std::string unfit(const OnnxTensor& t) {
  const OnnxTypeInfo& info = onnx_type_info(t.type());
  if (!onnx_type_decodes(t.type()) || (info.floating && info.bits < 16) || t.type() == OnnxType::bfloat16)
    return "type " + std::string(info.name);
  if (t.rank() > 5) return "rank over 5";
  if (info.integer && t.type() != OnnxType::uint64)
    for (const int64_t v : t.ints())
      if (v > INT32_MAX || v < INT32_MIN) return "numbers beyond int32";
  if (t.type() == OnnxType::uint64)
    for (const int64_t v : t.ints())
      if (v < 0 || v > INT32_MAX) return "numbers beyond int32";
  return "";
}

Array array_of(const OnnxTensor& t) {
  if (onnx_type_info(t.type()).floating) {
    Array a(DType::fp32, t.dims());
    t.read(0, t.elements(), a.values<float>());
    return a;
  }
  Array a(DType::int64, t.dims());
  t.read(0, t.elements(), a.values<int64_t>());
  return a;
}

std::string compare(const std::string& name, const Array& got, const OnnxTensor& want) {
  const std::vector<float> g = got.to_float(), w = want.floats();
  std::vector<int64_t> dims = want.dims();
  if (dims.empty()) dims = {1};
  if (got.shape() != dims) return "output " + name + " has another shape";
  double largest = 0;
  for (const float v : w)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  // ONNX's own bar is 1e-3 relative; 2e-6 of the range is fp32's room for sums. Halves are rounded on the way.
  const bool half = want.type() == OnnxType::float16;
  for (size_t i = 0; i < w.size(); ++i) {
    if (std::isnan(w[i]) && std::isnan(g[i])) continue;
    if (w[i] == g[i]) continue;
    const double room = (half ? 2e-3 : 2e-6) * largest + 1e-7 + 1e-3 * std::fabs(static_cast<double>(w[i]));
    if (!(std::fabs(static_cast<double>(g[i]) - w[i]) <= room))
      return "output " + name + ": " + std::to_string(g[i]) + " instead of " + std::to_string(w[i]) + " at " +
             std::to_string(i);
  }
  return "";
}

struct Data {
  Tensors in, out;
};

Data split_data(const OnnxModel& data) {
  Data d;
  for (const OnnxTensor& t : data.graph().initializers) {
    const std::string name(t.name());
    (name.starts_with("in:") ? d.in : d.out)[name.substr(name.find(':') + 1)] = &t;
  }
  return d;
}

std::string why_not(const OnnxModel& model, const Data& data) {
  for (const auto* list : {&model.graph().inputs, &model.graph().outputs})
    for (const OnnxValueInfo& info : *list)
      if (info.kind != OnnxValueInfo::Kind::tensor) return info.text();
  for (const auto* tensors : {&data.in, &data.out})
    for (const auto& [name, t] : *tensors)
      if (std::string why = unfit(*t); !why.empty()) return why;
  // An input without elements can only be a constant; an output without elements is none.
  for (const auto& [name, t] : data.out)
    if (t->elements() == 0) return "no elements";
  for (const OnnxNode& node : model.graph().nodes) {
    if (node.domain == "ai.onnx.ml") return "ai.onnx.ml";
    if (node.op.starts_with("Random") || node.op == "Bernoulli" || node.op == "Multinomial")
      return "random numbers";
  }
  return "";
}

// Runs with some inputs fixed; an empty text, or what is wrong.
std::string attempt(const OnnxModel& model, const Data& data, const std::set<std::string>& fixed,
                    const std::filesystem::path& folder) {
  OnnxNetworkOptions options;
  std::map<std::string, Array> inputs;
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    const std::string name(info->name);
    const auto it = data.in.find(name);
    if (it == data.in.end()) return "the input " + name + " has no data";
    if (fixed.contains(name)) {
      options.constants.emplace(name, array_of(*it->second));
      continue;
    }
    options.shapes[name] = it->second->dims();
    inputs.emplace(name, array_of(*it->second));
  }
  const std::filesystem::path path = folder / "case.mlpackage";
  OnnxNetwork net = lower_network(model, options);
  polish_network(net, true);  // with every pass
  write_package(network_package(std::move(net), "case"), path, {.overwrite = true});
  auto package = std::make_shared<const Package>(read_package(path));
  const auto names = onnx_names(*package);
  const auto renamed = [&](const std::string& name) {
    const auto it = names.find(name);
    return it == names.end() ? name : it->second;
  };
  std::map<std::string, Array> given;
  for (auto& [name, array] : inputs) {
    Array a = array;
    if (a.shape().empty()) {
      Array one(a.dtype(), {1});
      std::copy(a.bytes().begin(), a.bytes().end(), one.bytes().begin());
      a = one;
    }
    given.emplace(renamed(name), a);
  }
  static const auto backend = cpu_backend({.arithmetic = Arithmetic::fp32, .threads = 1});
  const auto predictor = backend->open(package, "main");
  const Prediction result = predictor->predict(given, nullptr);
  for (const auto& [name, want] : data.out) {
    const std::string wrong = compare(name, result.at(renamed(name)), *want);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// The interpreter's values; an empty text, or what is wrong.
std::string interpret(const OnnxModel& model, const Data& data) {
  std::map<std::string, OnnxArray> inputs;
  for (const auto& [name, t] : data.in) {
    OnnxArray a{t->type(), t->dims(), std::vector<double>(static_cast<size_t>(t->elements())), {}};
    t->read(0, t->elements(), std::span<double>(a.data));
    inputs.emplace(name, std::move(a));
  }
  const auto outputs = OnnxInterpreter(model).compute(inputs);
  for (const auto& [name, want] : data.out) {
    const auto it = outputs.find(name);
    if (it == outputs.end()) return "no output " + name;
    if (it->second.type != want->type()) return "output " + name + " has another type";
    const std::vector<int64_t> dims = it->second.dims;
    Array got(DType::fp32, dims.empty() ? std::vector<int64_t>{1} : dims);
    for (size_t k = 0; k < it->second.data.size(); ++k)
      got.values<float>()[k] = static_cast<float>(it->second.data[k]);
    if (std::string wrong = compare(name, got, *want); !wrong.empty()) return wrong;
  }
  return "";
}

// What to fix, step by step: nothing; whole numbers besides the first input; all of them; all but the first input.
std::vector<std::set<std::string>> choices(const OnnxModel& model, const Data& data) {
  std::vector<std::set<std::string>> out(4);
  bool scalars = true;  // all inputs: what such a model gives is a constant
  for (const auto& [name, t] : data.in) scalars = scalars && t->rank() == 0;
  for (const auto& [name, t] : data.in)
    if (t->elements() == 0)
      for (auto& each : out) each.insert(name);
  bool first = true;
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    const std::string name(info->name);
    const bool whole = onnx_type_info(info->type).integer;
    if (whole && !first) out[1].insert(name);
    if (whole) out[2].insert(name);
    if (!first) out[3].insert(name);
    first = false;
  }
  if (scalars && !data.in.empty()) {
    out.emplace_back();
    for (const auto& [name, t] : data.in) out.back().insert(name);
  }
  return out;
}

}  // namespace

NodeResult run_node_case(const std::string& model_bytes, const std::string& data_bytes,
                         const std::filesystem::path& folder) {
  NodeResult r;
  try {
    const OnnxModel model = OnnxModel::from_file(MappedFile::from_bytes("model.onnx", model_bytes));
    const OnnxModel content = OnnxModel::from_file(MappedFile::from_bytes("data.onnx", data_bytes));
    std::set<std::string> ops;
    for (const OnnxNode& node : model.graph().nodes)
      ops.insert(node.domain.empty() ? std::string(node.op)
                                     : std::string(node.domain) + "." + std::string(node.op));
    r.ops.assign(ops.begin(), ops.end());
    const Data data = split_data(content);
    if (r.why = why_not(model, data); !r.why.empty()) {
      r.kind = Kind::does_not_apply;
      return r;
    }
    bool first = true;
    std::set<std::set<std::string>> done;
    for (const auto& fixed : choices(model, data)) {
      if (!done.insert(fixed).second) continue;
      std::string wrong;
      bool refused = false;
      try {
        wrong = attempt(model, data, fixed, folder);
        if (wrong.empty()) {
          r.kind = first ? Kind::passed : Kind::fixed;
          r.why.clear();
          try {
            r.interpreter = interpret(model, data);
          } catch (const Error& e) {
            r.interpreter = e.what();
          }
          return r;
        }
      } catch (const Error& e) {
        wrong = e.what();
        refused = wrong.find("not supported") != std::string::npos ||
                  wrong.find("cannot be converted") != std::string::npos;
        r.why = wrong.find("has rank ") != std::string::npos                    ? "rank over 5"
                : wrong.find("ONNX's operators; expected") != std::string::npos ? "version of the operators"
                : wrong.find("training mode") != std::string::npos              ? "random numbers"
                                                                                : "";
        r.kind = Kind::does_not_apply;
        if (!r.why.empty()) return r;
      }
      if (first || refused || r.kind == Kind::refused) {
        r.kind = refused ? Kind::refused : Kind::failed;
        r.why = wrong;
      }
      first = false;
    }
  } catch (const std::exception& e) {
    r.kind = Kind::failed;
    r.why = e.what();
  }
  return r;
}

}  // namespace anemone::test
