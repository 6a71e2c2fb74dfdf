#include "cli/convert_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/words.h"
#include "cli/format.h"
#include "mil/passes/half.h"
#include "mil/passes/tidy.h"
#include "onnx/network.h"
#include "package/package.h"
#include "placement/placed_function.h"
#include "target/chips.h"

namespace anemone::cli {
namespace {

struct Pair {
  std::string name, value;
};

// "name=value"; the last '=' counts, because names of ONNX may hold one.
Pair pair_of(const std::string& text, const char* flag, const char* example) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw errorf("{} takes {}", flag, example).found(text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

int64_t size_of(const std::string& text, const char* flag) {
  size_t used = 0;
  int64_t value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || value < 1)
    throw errorf("{} takes whole numbers above zero", flag).found(text.empty() ? "nothing" : text);
  return value;
}

std::vector<int64_t> sizes_of(const std::string& text, const char* flag) {
  std::vector<int64_t> out;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    out.push_back(size_of(text.substr(from, comma - from), flag));
    from = comma + 1;
  }
  return out;
}

OnnxSizes dynamic_of(const std::string& text) {
  OnnxSizes out;
  if (const size_t dots = text.find(".."); dots != std::string::npos) {
    out.least = size_of(text.substr(0, dots), "--dynamic");
    out.most = size_of(text.substr(dots + 2), "--dynamic");
    if (out.most < out.least) throw errorf("--dynamic takes a range from small to large").found(text);
    return out;
  }
  out.listed = sizes_of(text, "--dynamic");
  out.least = *std::min_element(out.listed.begin(), out.listed.end());
  out.most = *std::max_element(out.listed.begin(), out.listed.end());
  return out;
}

// "name:scale,bias" or "name:scale,red,green,blue".
std::pair<std::string, OnnxImage> image_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  OnnxImage image;
  if (colon == std::string::npos) return {text, image};
  std::vector<float> numbers;
  std::string rest = text.substr(colon + 1);
  for (size_t from = 0; from <= rest.size();) {
    const size_t comma = std::min(rest.find(',', from), rest.size());
    const std::string part = rest.substr(from, comma - from);
    char* end = nullptr;
    numbers.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end) throw errorf("--image takes NAME:SCALE,BIAS").found(text);
    from = comma + 1;
  }
  if (numbers.size() != 2 && numbers.size() != 4)
    throw errorf("--image takes a scale and one bias or three").found(text);
  image.scale = numbers[0];
  image.bias.assign(numbers.begin() + 1, numbers.end());
  return {text.substr(0, colon), image};
}

Opset opset_of(const std::string& text) {
  const Target target = find_target(text.empty() ? "macos15" : text);
  const int release = target.os == 0 ? 18 : target.phone() || target.os >= 26 ? target.os : target.os + 3;
  if (release < 15) throw errorf("ML programs need iOS 15 or macOS 12").found(text);
  if (release >= 26) return Opset::ios26;
  return release >= 18   ? Opset::ios18
         : release == 17 ? Opset::ios17
         : release == 16 ? Opset::ios16
                         : Opset::ios15;
}

// A file, or the numbers themselves: 16000, or 1,0,2.5.
Array constant_of(const std::string& text) {
  std::vector<float> numbers;
  std::vector<int64_t> whole;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::string part = text.substr(from, comma - from);
    char* end = nullptr;
    numbers.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end) return read_npy(text);
    const long long integer = std::strtoll(part.c_str(), &end, 10);
    if (!*end) whole.push_back(integer);
    from = comma + 1;
  }
  const auto count = static_cast<int64_t>(numbers.size());
  Array out(whole.size() < numbers.size() ? DType::fp32 : DType::int64, {count});
  if (out.dtype() == DType::fp32)
    std::copy(numbers.begin(), numbers.end(), out.values<float>().begin());
  else
    std::copy(whole.begin(), whole.end(), out.values<int64_t>().begin());
  return out;
}

OnnxNetworkOptions options_of(const NetworkRequest& request, const NetworkFlags& flags) {
  OnnxNetworkOptions o;
  for (const std::string& text : flags.shapes) {
    const Pair p = pair_of(text, "--shape", "NAME=1,3,224,224");
    o.shapes[p.name] = p.value == "scalar" ? std::vector<int64_t>() : sizes_of(p.value, "--shape");
  }
  for (const std::string& text : flags.dynamic) {
    const Pair p = pair_of(text, "--dynamic", "NAME=1..512 or NAME=64,128");
    o.dynamic[p.name] = dynamic_of(p.value);
  }
  for (const std::string& text : flags.constants) {
    const Pair p = pair_of(text, "--constant", "NAME=16000, or NAME=FILE.npy");
    o.constants[p.name] = constant_of(p.value);
  }
  for (const std::string& text : flags.images) o.images.insert(image_of(text));
  for (const std::string& text : flags.states) {
    const Pair p = pair_of(text, "--state", "PAST=PRESENT");
    o.states[p.name] = p.value;
  }
  o.opset = opset_of(request.target);
  return o;
}

}  // namespace

void NetworkFlags::declare(Options& o) {
  o.group("One package from an ONNX model (-o NAME.mlpackage)");
  o.texts("--shape", "NAME=SIZES", shapes,
          "the shape of an input, 1,3,224,224, or the size of a named dimension; may be repeated");
  o.texts("--dynamic", "NAME=SIZES", dynamic,
          "a named dimension that varies: a range 1..512, or a list 64,128,256; may be repeated");
  o.texts("--constant", "NAME=VALUE", constants,
          "an input whose value is fixed: a number, some with commas, or an .npy file; may be repeated");
  o.texts("--image", "NAME:SCALE,BIAS", images,
          "an input that is an image; pixels times SCALE plus BIAS (or three of them); may be repeated");
  o.texts("--state", "PAST=PRESENT", states,
          "an input and an output that become one state of the package; may be repeated");
  o.flag("--ane", ane, "write linear layers as 1x1 convolutions, the form that the Neural Engine likes best");
}

void NetworkFlags::expect_none() const {
  const std::pair<const std::vector<std::string>*, const char*> all[] = {{&shapes, "--shape"},
                                                                         {&dynamic, "--dynamic"},
                                                                         {&constants, "--constant"},
                                                                         {&images, "--image"},
                                                                         {&states, "--state"}};
  for (const auto& [given, flag] : all)
    if (!given->empty())
      throw errorf("{} is for one package from an ONNX model", flag)
          .hint("give an .onnx file and an output that ends in .mlpackage");
  if (ane)
    throw errorf("--ane is for one package from an ONNX model; bundles always have that form")
        .hint("give an .onnx file and an output that ends in .mlpackage");
}

std::optional<OnnxPlace> find_network(const std::string& model, const std::string& output,
                                      const OnnxBundleChoice& choice) {
  namespace fs = std::filesystem;
  const fs::path named = fs::path(output).lexically_normal();
  const fs::path last = named.has_filename() ? named : named.parent_path();
  if (last.extension() != ".mlpackage") return std::nullopt;
  if (auto place = find_onnx(model, choice)) return place;
  if (fs::path(model).extension() == ".onnx")
    return OnnxPlace{model, {}, ""};  // opening it says what is wrong
  return std::nullopt;
}

namespace {

// What a conversion made, for people and for programs.
struct Made {
  int64_t nodes = 0, operations = 0;
  OnnxPolish polish;
  HalfReport halves;
  std::vector<OnnxChoice> choices;
  std::optional<placement::PlacedFunction> before, after;  // with --ane
  std::map<std::string, std::string> names;
  WriteReport written;
  double seconds = 0;
};

nlohmann::ordered_json placed_json(const placement::PlacedFunction& placed) {
  return {{"operations", placed.ops.size()},
          {"on_ane", placed.ane_ops},
          {"segments", placed.segments.size()},
          {"switches", placed.switches},
          {"milliseconds", placed.ms}};
}

void print_json(const NetworkRequest& request, const std::string& precision, const Made& made) {
  nlohmann::ordered_json out = {
      {"package", request.output},
      {"nodes", made.nodes},
      {"operations", made.operations},
      {"operations_before_passes", made.polish.before},
      {"precision", precision},
      {"fp32_operations", precision == "fp16" ? made.halves.islands : made.operations},
      {"integers_as_fp16", made.halves.narrowed},
      {"weight_bytes", made.written.weight_bytes},
      {"renamed", made.names},
      {"seconds", made.seconds}};
  for (const OnnxChoice& choice : made.choices)
    out["chosen"].push_back({{"node", choice.node}, {"input", choice.input}, {"why", choice.why}});
  if (made.after)
    out["ane"] = {{"convolutions", made.polish.convolved},
                  {"linear_left", made.polish.linear},
                  {"before", placed_json(*made.before)},
                  {"after", placed_json(*made.after)}};
  fmt::print("{}\n", json_text(out, 2));
}

void print_placed(const Made& made) {
  fmt::print("--ane: {} became 1x1 convolutions, {} stayed\n", counted(made.polish.convolved, "linear layer"),
             made.polish.linear);
  fmt::print("          operations  on the ANE  switches  estimate\n");
  for (const auto& [when, placed] : {std::pair("without", &*made.before), std::pair("with", &*made.after)})
    fmt::print("  {:<7} {:>10}  {:>10}  {:>8}  {:.2f} ms\n", when, placed->ops.size(), placed->ane_ops,
               placed->switches, placed->ms);
}

void print_text(const NetworkRequest& request, const std::string& precision, const Interface& interface,
                const Made& made) {
  fmt::print("{}: {} became {}\n", std::filesystem::path(request.model).filename().string(),
             counted(made.nodes, "node"), counted(made.operations, "operation"));
  for (const OnnxChoice& choice : made.choices) fmt::print("  {}: {}\n", choice.node, choice.why);
  for (const auto& [heading, list] :
       {std::pair("input ", &interface.inputs), std::pair("output", &interface.outputs),
        std::pair("state ", &interface.states)})
    for (const Feature& f : *list) {
      const auto it = made.names.find(f.name);
      fmt::print("  {} {}  {}{}\n", heading, f.name, f.type.text(),
                 it == made.names.end() ? "" : fmt::format("  (in the model '{}')", it->second));
    }
  if (made.after) print_placed(made);
  if (!made.halves.narrowed.empty())
    fmt::print(
        "note: whole numbers become fp16 at '{}'{}; beyond 65504 they would not fit, --precision fp32 has "
        "room\n",
        made.halves.narrowed[0],
        made.halves.narrowed.size() > 1 ? fmt::format(" and {} more", made.halves.narrowed.size() - 1) : "");
  fmt::print("{} written in {:.2f} s: {}{}, weights {}\n", request.output, made.seconds, precision,
             precision == "fp16" && made.halves.islands
                 ? fmt::format(" with {} in fp32", counted(made.halves.islands, "operation"))
                 : "",
             size_text(made.written.weight_bytes));
}

// The chip whose placement is shown: the one that was named, else the one that `check` takes.
const Chip& chip_of(const std::string& text) {
  const Target target = find_target(text.empty() ? "m4" : text);
  return target.oldest ? *find_target("m4").chip : *target.chip;
}

// The network after all passes.
OnnxNetwork finished(const OnnxModel& model, const OnnxNetworkOptions& options, bool ane,
                     const std::string& precision, Made& made) {
  OnnxNetwork net = lower_network(model, options);
  made.polish = polish_network(net, ane);
  Function& function = *net.program.find_function("main");
  if (precision == "fp16") {
    made.halves = to_half(function, {{net.images.begin(), net.images.end()}});
    tidy(function);
  }
  made.operations = count_operations(function);
  return net;
}

}  // namespace

int convert_network(const NetworkRequest& request, const NetworkFlags& flags, const Common& common) {
  const auto start = std::chrono::steady_clock::now();
  const std::string precision = request.precision.empty() ? "fp16" : request.precision;
  if (precision != "fp16" && precision != "fp32")
    throw errorf("--precision of an ONNX network is fp16 or fp32")
        .found(precision)
        .hint("anemone compress makes it smaller");
  const OnnxModel model = OnnxModel::open(request.model);
  const OnnxNetworkOptions options = options_of(request, flags);
  Made made;
  if (flags.ane) {
    const OnnxNetwork plain = finished(model, options, false, precision, made);
    made.before = placement::place_function(*plain.program.find_function("main"), chip_of(request.target));
  }
  OnnxNetwork net = finished(model, options, flags.ane, precision, made);
  if (flags.ane)
    made.after = placement::place_function(*net.program.find_function("main"), chip_of(request.target));
  made.nodes = static_cast<int64_t>(model.graph().nodes.size());
  made.names = net.names;
  made.choices = net.choices;
  const Package package =
      network_package(std::move(net), std::filesystem::path(request.model).filename().string());
  made.written = write_package(package, request.output, {.overwrite = request.overwrite, .pool = nullptr});
  made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (common.json)
    print_json(request, precision, made);
  else if (!common.quiet)
    print_text(request, precision, package.description.interface("main"), made);
  return 0;
}

}  // namespace anemone::cli
