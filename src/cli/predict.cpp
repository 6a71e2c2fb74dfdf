// `anemone predict`: runs one function of any package on the CPU engine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "anemone/predictor.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/shape.h"
#include "cli/command.h"
#include "cli/package_argument.h"
#include "predict/predictor.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string package, inputs, function, outputs, state, arith = "fp32";
  std::vector<std::string> input, tap;
  int64_t repeat = 1;
  bool time = false;
};

std::map<std::string, Array> read_inputs(const Args& args) {
  std::map<std::string, Array> out;
  if (!args.inputs.empty())
    for (auto& [name, array] : read_npz(args.inputs)) out.insert_or_assign(name, std::move(array));
  for (const std::string& pair : args.input) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      throw errorf("--input takes NAME=FILE").found(pair).expected("for example x=x.npy");
    out.insert_or_assign(pair.substr(0, equals), read_npy(pair.substr(equals + 1)));
  }
  return out;
}

std::unique_ptr<State> read_state(const Predictor& predictor, const std::string& path) {
  std::unique_ptr<State> state = predictor.make_state();
  if (!path.empty() && std::filesystem::exists(path))
    for (const auto& [name, array] : read_npz(path)) {
      try {
        state->set(name, array);
      } catch (Error& e) {
        e.within(path);
        throw;
      }
    }
  return state;
}

void write_state(const State& state, const std::string& path) {
  NamedArrays arrays;
  for (const std::string& name : state.names()) arrays.push_back({name, state.get(name)});
  write_npz(path, arrays);
}

void write_outputs(const Prediction& result, const std::string& path) {
  NpzWriter out(path);
  for (const auto& [name, array] : result.outputs) out.add(name, array);
  for (const auto& [name, labels] : result.labels)
    out.add_strings(result.outputs.contains(name) ? name + ".labels" : name, labels);
  out.finish();
}

struct Summary {
  double low = 0, high = 0, mean = 0;
  int64_t not_finite = 0;
};

Summary summarise(const std::vector<float>& values) {
  Summary s;
  double sum = 0;
  int64_t n = 0;
  for (const float v : values) {
    if (!std::isfinite(v)) {
      ++s.not_finite;
      continue;
    }
    s.low = n ? std::min<double>(s.low, v) : v;
    s.high = n ? std::max<double>(s.high, v) : v;
    sum += v;
    ++n;
  }
  s.mean = n ? sum / static_cast<double>(n) : 0;
  return s;
}

void print_outputs(const Prediction& result) {
  for (const auto& [name, array] : result.outputs) {
    const std::vector<float> values = array.to_float();
    const Summary s = summarise(values);
    fmt::print("{}  {} {}\n", name, dtype_name(array.dtype()), shape_text(array.shape()));
    fmt::print("  from {:.6g} to {:.6g}, mean {:.6g}{}\n", s.low, s.high, s.mean,
               s.not_finite ? fmt::format(", {} not finite", s.not_finite) : "");
    std::string first;
    for (size_t i = 0; i < std::min<size_t>(values.size(), 8); ++i)
      first += fmt::format("{}{:.6g}", i ? " " : "", values[i]);
    fmt::print("  first: {}{}\n", first, values.size() > 8 ? " …" : "");
  }
  for (const auto& [name, labels] : result.labels)
    if (!result.outputs.contains(name)) fmt::print("{}  \"{}\"\n", name, labels.at(0));
}

void print_json(const Prediction& result, double ms) {
  nlohmann::ordered_json out;
  for (const auto& [name, array] : result.outputs) {
    const Summary s = summarise(array.to_float());
    out["outputs"][name] = {{"dtype", std::string(dtype_name(array.dtype()))},
                            {"shape", array.shape()},
                            {"min", s.low},
                            {"max", s.high},
                            {"mean", s.mean},
                            {"not_finite", s.not_finite}};
  }
  for (const auto& [name, labels] : result.labels) out["labels"][name] = labels;
  if (result.fault)
    out["fault"] = {{"op", result.fault->op}, {"kind", result.fault->nan ? "nan" : "overflow"}};
  out["milliseconds"] = ms;
  fmt::print("{}\n", json_text(out, 2));
}

int predict(const Args& args, const Common& common) {
  if (args.repeat < 1) throw errorf("--repeat must be at least 1").found(fmt::format("{}", args.repeat));
  const auto package = package_argument(args.package);
  PredictOptions options;
  options.arithmetic = args.arith == "fp16" ? Arithmetic::fp16 : Arithmetic::fp32;
  options.threads = common.threads;
  options.taps = args.tap;
  const auto predictor = make_predictor(package, args.function, options);
  const auto inputs = read_inputs(args);
  const bool stateful = !predictor->signature().states.empty();
  if (!stateful && !args.state.empty())
    throw errorf("the function '{}' has no states", predictor->signature().function)
        .hint("leave --state out");
  std::unique_ptr<State> state = stateful ? read_state(*predictor, args.state) : nullptr;

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

  if (!args.outputs.empty()) write_outputs(result, args.outputs);
  if (state && !args.state.empty()) write_state(*state, args.state);
  if (common.json)
    print_json(result, median);
  else if (args.outputs.empty())
    print_outputs(result);
  if (args.time && !common.json)
    fmt::print("{} calls: first {:.3f} ms, best {:.3f} ms, median {:.3f} ms\n", times.size(), times[0],
               sorted[0], median);
  if (result.fault && !common.quiet)
    fmt::print(stderr, "note: {} in fp16 arithmetic, first in op '{}'\n",
               result.fault->nan ? "NaN" : "overflow", result.fault->op);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone predict model.mlpackage --input x=x.npy\n"
    "  anemone predict decoder.mlpackage --inputs step0.npz --state kv.npz --outputs out.npz --arith fp16";

}  // namespace

extern const Command kPredict{
    "predict", "Run a function of a package on this machine", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("PACKAGE", args->package, "an .mlpackage, .mlmodelc or .mlmodel");
      o.texts("--input", "NAME=FILE", args->input, "an input from an .npy file; may be given several times");
      o.text("--inputs", "FILE", args->inputs, "inputs from an .npz file");
      o.text("--function", "NAME", args->function, "which function; the package's default one if left out");
      o.text("--outputs", "FILE", args->outputs, "write the outputs to an .npz file instead of a summary");
      o.text("--state", "FILE", args->state,
             "an .npz with the states: read if it is there, written after the call");
      o.text("--arith", "MODE", args->arith, "fp32 (the maths, default) or fp16 (rounded as on the device)",
             {"fp32", "fp16"});
      o.texts("--tap", "VALUE", args->tap, "also return a value from inside the program; several times");
      o.integer("--repeat", "N", args->repeat, "call it N times");
      o.flag("--time", args->time, "print how long the calls took");
      return [args](const Common& common) { return predict(*args, common); };
    }};

}  // namespace anemone::cli
