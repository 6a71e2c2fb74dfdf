// `anemone predict`: runs one function of any package on the CPU engine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
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
#include "predict/predict_queue.h"
#include "predict/predictor.h"
#include "predict/taps.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string package, function, outputs, state;
  BackendFlags backend;
  ProfileFlags profile;
  std::vector<std::string> inputs, input, tap;
  int64_t repeat = 1;
  bool time = false;
};

// `file`: of --inputs; empty: none.
std::map<std::string, Array> read_inputs(const Args& args, const std::string& file) {
  std::map<std::string, Array> out;
  if (!file.empty()) {
    if (file.ends_with(".npy"))
      throw errorf("--inputs takes an .npz file")
          .found(file)
          .hint("give one array with --input NAME=" + file);
    for (auto& [name, array] : parse_npz(open_input(file)->bytes(), file))
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
  for (const auto& [original, name] : onnx_input_names(package))
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

nlohmann::ordered_json result_json(const Prediction& result) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
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
  return out;
}

void print_json(const Prediction& result, double ms, const ProfileFlags& profile) {
  nlohmann::ordered_json out = result_json(result);
  out["milliseconds"] = ms;
  if (profile.table) out["profile"] = profile.json();
  fmt::print("{}\n", json_text(out, 2));
}

// The states that a call works on; null for a function without.
std::unique_ptr<State> state_of(const Predictor& predictor, const Args& args, const Common& common) {
  if (!predictor.signature().states.empty()) return read_state(predictor, args.state, common);
  if (!args.state.empty())
    throw errorf("the function '{}' has no states", predictor.signature().function).hint("leave --state out");
  return nullptr;
}

int predict_one(Args& args, const Package& package, const Predictor& predictor, const Common& common) {
  const auto inputs =
      with_package_names(read_inputs(args, args.inputs.empty() ? "" : args.inputs.front()), package);
  const std::unique_ptr<State> state = state_of(predictor, args, common);
  Prediction result;
  std::vector<double> times;
  for (int64_t i = 0; i < args.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    result = predictor.predict(inputs, state.get());
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
  return 0;
}

// Where the outputs of each file of inputs go, in the folder of --outputs.
std::vector<std::string> output_files(const Args& args) {
  std::vector<std::string> out;
  std::set<std::string> names;
  for (const std::string& file : args.inputs) {
    const std::string name = std::filesystem::path(file).stem().string() + ".npz";
    if (!names.insert(name).second)
      throw errorf("two files of inputs would have the outputs '{}'", name).hint("give them other names");
    out.push_back((std::filesystem::path(args.outputs) / name).string());
  }
  return out;
}

// The results of many inputs, shown and written in the order of the inputs, whoever is done first.
class ManyResults {
 public:
  ManyResults(const Args& args, const Common& common)
      : args_(args), common_(common), waiting_(args.inputs.size()) {
    if (args.outputs.empty()) return;
    files_ = output_files(args);
    std::error_code error;
    std::filesystem::create_directories(args.outputs, error);
    if (!std::filesystem::is_directory(args.outputs, error))
      throw errorf("with several --inputs, --outputs is a folder").at(args.outputs);
  }

  void take(size_t index, Prediction result) {
    const std::lock_guard lock(mutex_);
    waiting_[index] = std::move(result);
    for (; next_ < waiting_.size() && waiting_[next_]; ++next_) {
      show(next_, *waiting_[next_]);
      waiting_[next_].reset();
    }
  }

 private:
  void show(size_t index, const Prediction& result) {
    if (!files_.empty()) write_files(result, files_[index], nullptr, "");
    if (common_.json) {
      nlohmann::ordered_json one = {{"inputs", args_.inputs[index]}};
      one.update(result_json(result));
      fmt::print("{}\n", json_text(one, -1));
    } else if (files_.empty()) {
      fmt::print("{}{}\n", index ? "\n" : "", args_.inputs[index]);
      print_outputs(result);
    }
    print_fault(result.fault, common_);
  }

  const Args& args_;
  const Common& common_;
  std::mutex mutex_;
  std::vector<std::optional<Prediction>> waiting_;
  size_t next_ = 0;
  std::vector<std::string> files_;
};

// A file after the other. Of a function without states, several predictions are under way at once; with states each one
// is a step, on what the one before left.
int predict_many(Args& args, const Package& package, const Predictor& predictor, const Common& common) {
  if (args.repeat > 1 || args.time) throw errorf("--repeat and --time go with one file of --inputs");
  const std::unique_ptr<State> state = state_of(predictor, args, common);
  ManyResults results(args, common);
  PredictQueue queue(state ? 1
                           : std::min<int>(BackendFlags::kInFlight, static_cast<int>(args.inputs.size())));
  for (size_t i = 0; i < args.inputs.size() && !queue.cancelled(); ++i) {
    queue.add([&, i] {
      const auto inputs = with_package_names(read_inputs(args, args.inputs[i]), package);
      try {
        results.take(i, predictor.predict(inputs, state.get()));
      } catch (Error& e) {
        e.within(args.inputs[i]);
        throw;
      }
    });
  }
  queue.finish();
  if (state && !args.state.empty()) write_files({}, "", state.get(), args.state);
  return 0;
}

int predict(Args& args, const Common& common) {
  if (args.repeat < 1) throw errorf("--repeat must be at least 1").found(fmt::format("{}", args.repeat));
  const bool many = args.inputs.size() > 1;
  if (many) args.backend.in_flight = BackendFlags::kInFlight;
  args.profile.start(args.backend);
  const auto package = package_argument(args.package);
  const auto predictor = open_tapped(*args.backend.open(common), package, args.function, args.tap);
  const int status = many ? predict_many(args, *package, *predictor, common)
                          : predict_one(args, *package, *predictor, common);
  args.profile.finish(common);
  return status;
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
      o.texts("--inputs", "FILE", args->inputs, "inputs from an .npz file; several files are run one by one")
          .streams();
      o.text("--function", "NAME", args->function, "which function; the package's default one if left out");
      o.text("--outputs", "FILE", args->outputs,
             "write the outputs to an .npz file instead of a summary; a folder with several --inputs")
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
