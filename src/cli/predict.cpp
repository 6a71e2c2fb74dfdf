// `anemone predict`: runs one function of any package on the CPU engine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "anemone/predictor.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/shape.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/package_argument.h"
#include "cli/profile.h"
#include "cli/source.h"
#include "onnx/network.h"
#include "predict/predictor.h"
#include "predict/taps.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string package, inputs, function, outputs, state;
  BackendFlags backend;
  ProfileFlags profile;
  std::vector<std::string> input, tap;
  int64_t repeat = 1;
  bool time = false;
};

std::map<std::string, Array> read_inputs(const Args& args) {
  std::map<std::string, Array> out;
  if (!args.inputs.empty()) {
    if (args.inputs.ends_with(".npy"))
      throw errorf("--inputs takes an .npz file")
          .found(args.inputs)
          .hint("give one array with --input NAME=" + args.inputs);
    for (auto& [name, array] : parse_npz(open_input(args.inputs)->bytes(), args.inputs))
      out.insert_or_assign(name, std::move(array));
  }
  for (const std::string& pair : args.input) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
      throw errorf("--input takes NAME=FILE").found(pair).expected("for example x=x.npy");
    const std::string path = pair.substr(equals + 1);
    if (path.ends_with(".npz"))
      throw errorf("--input takes an .npy file")
          .found(pair)
          .hint("give all arrays of an .npz with --inputs " + path);
    out.insert_or_assign(pair.substr(0, equals), parse_npy(open_input(path)->bytes(), path));
  }
  return out;
}

// A package made from ONNX takes the model's names too.
std::map<std::string, Array> with_package_names(std::map<std::string, Array> given, const Package& package) {
  for (const auto& [original, name] : onnx_names(package))
    if (auto node = given.extract(original)) {
      node.key() = name;
      given.insert(std::move(node));
    }
  return given;
}

std::unique_ptr<State> read_state(const Predictor& predictor, const std::string& path, const Common& common) {
  std::unique_ptr<State> state = predictor.make_state();
  if (path.empty() || !std::filesystem::exists(path)) return state;
  std::set<std::string> given;
  for (const auto& [name, array] : read_npz(path)) {
    try {
      state->set(name, array);
    } catch (Error& e) {
      e.within(path);
      throw;
    }
    given.insert(name);
  }
  for (const std::string& name : state->names())
    if (!given.contains(name))
      note(common, fmt::format("the state '{}' is not in {}: it starts as zeros", name, path));
  return state;
}

// Both files or none: neither is put in place before the other is written.
void write_files(const Prediction& result, const std::string& outputs_path, const State* state,
                 const std::string& state_path) {
  std::optional<NpzWriter> outputs, states;
  if (!outputs_path.empty()) {
    outputs.emplace(outputs_path);
    for (const auto& [name, array] : result.outputs) outputs->add(name, array);
    for (const auto& [name, labels] : result.labels)
      outputs->add_strings(result.outputs.contains(name) ? name + ".labels" : name, labels);
  }
  if (state && !state_path.empty()) {
    states.emplace(state_path);
    for (const std::string& name : state->names()) states->add(name, state->get(name));
  }
  if (states) states->finish();
  if (outputs) outputs->finish();
}

struct Summary {
  double low = 0, high = 0, mean = 0;
  int64_t finite = 0, not_finite = 0;
};

Summary summarize(const std::vector<double>& values) {
  Summary s;
  double sum = 0;
  for (const double v : values) {
    if (!std::isfinite(v)) {
      ++s.not_finite;
      continue;
    }
    s.low = s.finite ? std::min(s.low, v) : v;
    s.high = s.finite ? std::max(s.high, v) : v;
    sum += v;
    ++s.finite;
  }
  s.mean = s.finite ? sum / static_cast<double>(s.finite) : 0;
  return s;
}

// Exact for every output: they are fp32 or int32.
std::vector<double> values_of(const Array& array) {
  if (dtype_is_float(array.dtype())) {
    const std::vector<float> values = array.to_float();
    return {values.begin(), values.end()};
  }
  const std::vector<int64_t> values = array.to_int();
  return {values.begin(), values.end()};
}

void print_outputs(const Prediction& result) {
  for (const auto& [name, array] : result.outputs) {
    const std::vector<double> values = values_of(array);
    const Summary s = summarize(values);
    const int digits = dtype_is_float(array.dtype()) ? 6 : 10;  // whole numbers in full
    fmt::print("{}  {} {}\n", name, dtype_name(array.dtype()), shape_text(array.shape()));
    if (values.empty()) {
      fmt::print("  no values\n");
      continue;
    }
    if (s.finite == 0)
      fmt::print("  {} values, none of them finite\n", s.not_finite);
    else
      fmt::print("  from {:.{}g} to {:.{}g}, mean {:.6g}{}\n", s.low, digits, s.high, digits, s.mean,
                 s.not_finite ? fmt::format(", {} not finite", s.not_finite) : "");
    std::string first;
    for (size_t i = 0; i < std::min<size_t>(values.size(), 8); ++i)
      first += (i ? " " : "") + (std::isnan(values[i]) ? "nan" : fmt::format("{:.{}g}", values[i], digits));
    fmt::print("  first: {}{}\n", first, values.size() > 8 ? " …" : "");
  }
  for (const auto& [name, labels] : result.labels)
    if (!result.outputs.contains(name)) fmt::print("{}  \"{}\"\n", name, labels.at(0));
}

void print_json(const Prediction& result, double ms, const ProfileFlags& profile) {
  nlohmann::ordered_json out;
  for (const auto& [name, array] : result.outputs) {
    const Summary s = summarize(values_of(array));
    const auto known = [&](double v) { return s.finite ? nlohmann::ordered_json(v) : nullptr; };
    out["outputs"][name] = {{"dtype", std::string(dtype_name(array.dtype()))},
                            {"shape", array.shape()},
                            {"min", known(s.low)},
                            {"max", known(s.high)},
                            {"mean", known(s.mean)},
                            {"not_finite", s.not_finite}};
  }
  for (const auto& [name, labels] : result.labels) out["labels"][name] = labels;
  if (result.fault)
    out["fault"] = {{"op", result.fault->op}, {"kind", result.fault->nan ? "nan" : "overflow"}};
  out["milliseconds"] = ms;
  if (profile.table) out["profile"] = profile.json();
  fmt::print("{}\n", json_text(out, 2));
}

int predict(Args& args, const Common& common) {
  if (args.repeat < 1) throw errorf("--repeat must be at least 1").found(fmt::format("{}", args.repeat));
  args.profile.start(args.backend);
  const auto package = package_argument(args.package);
  const auto predictor = open_tapped(*args.backend.open(common), package, args.function, args.tap);
  const auto inputs = with_package_names(read_inputs(args), *package);
  const bool stateful = !predictor->signature().states.empty();
  if (!stateful && !args.state.empty())
    throw errorf("the function '{}' has no states", predictor->signature().function)
        .hint("leave --state out");
  std::unique_ptr<State> state = stateful ? read_state(*predictor, args.state, common) : nullptr;

  Prediction result;
  std::vector<double> times;
  for (int64_t i = 0; i < args.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    result = predictor->predict(inputs, state.get());
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];

  write_files(result, args.outputs, state.get(), args.state);
  if (common.json)
    print_json(result, median, args.profile);
  else if (args.outputs.empty())
    print_outputs(result);
  if (args.time && !common.json)
    fmt::print("{} call{}: first {:.3f} ms, best {:.3f} ms, median {:.3f} ms\n", times.size(),
               times.size() == 1 ? "" : "s", times[0], sorted[0], median);
  print_fault(result.fault, common);
  args.profile.finish(common);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone predict model.mlpackage --input x=x.npy\n"
    "  anemone predict decoder.mlpackage --inputs step0.npz --state kv.npz --outputs out.npz --arith fp16";

}  // namespace

extern const Command kPredict{
    "predict", "Run a function of a package on this machine", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("PACKAGE", args->package, "an .mlpackage, .mlmodelc, .mlmodel or .mil").takes(kPackage);
      o.texts("--input", "NAME=FILE", args->input, "an input from an .npy file; may be repeated");
      o.text("--inputs", "FILE", args->inputs, "inputs from an .npz file").streams();
      o.text("--function", "NAME", args->function, "which function; the package's default one if left out");
      o.text("--outputs", "FILE", args->outputs, "write the outputs to an .npz file instead of a summary")
          .also("-o,--output")
          .writes();
      o.text("--state", "FILE", args->state,
             "an .npz with the states: read if it is there, written after the call")
          .writes();
      o.texts("--tap", "VALUE", args->tap, "also return a value from inside the program; may be repeated");
      o.integer("--repeat", "N", args->repeat, "call it N times");
      o.flag("--time", args->time, "print how long the calls took");
      o.group("How it runs");
      args->backend.declare(o, ": the maths, or rounded as on the device");
      args->profile.declare(o);
      return [args](const Common& common) { return predict(*args, common); };
    }};

}  // namespace anemone::cli
