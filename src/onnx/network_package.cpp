#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "mil/passes/fuse.h"
#include "mil/passes/move_axes.h"
#include "mil/passes/tidy.h"
#include "mil/verify.h"
#include "onnx/network.h"

namespace anemone {
namespace {

// The sizes that an input may have, as its description says them.
void describe_sizes(ArrayFeature& array, const std::vector<OnnxSizes>& sizes) {
  array.shape.clear();
  std::vector<std::vector<int64_t>> listed = {{}};
  bool any_listed = false;
  for (const OnnxSizes& size : sizes) {
    any_listed = any_listed || !size.listed.empty();
    const int64_t first = size.listed.empty() ? size.least : size.listed.front();
    array.shape.push_back(first);
    array.range.push_back({static_cast<uint64_t>(size.least), size.most});
    std::vector<std::vector<int64_t>> longer;
    for (const auto& start : listed)
      for (const int64_t value : size.listed.empty() ? std::vector<int64_t>{size.least} : size.listed) {
        longer.push_back(start);
        longer.back().push_back(value);
      }
    listed = std::move(longer);
  }
  if (!any_listed) return;
  for (const OnnxSizes& size : sizes)
    if (size.listed.empty() && size.least != size.most)
      throw Error("an input has both listed sizes and a range of sizes")
          .hint("list the sizes of all its dimensions");
  array.range.clear();
  array.enumerated = std::move(listed);
}

}  // namespace

Package network_package(OnnxNetwork network, const std::string& source) {
  Package package;
  const Opset opset = network.program.functions.at(0)->opset;
  package.spec_version = opset_info(opset).spec_version;
  package.program = std::move(network.program);
  package.description = description_of(package.program);
  for (Feature& input : package.description.main.inputs)
    if (const auto it = network.sizes.find(input.name); it != network.sizes.end())
      describe_sizes(input.type.array, it->second);
  for (Feature& input : package.description.main.inputs) {
    if (std::find(network.images.begin(), network.images.end(), input.name) == network.images.end()) continue;
    const std::vector<int64_t> shape = input.type.array.shape;
    input.type = FeatureType();
    input.type.kind = FeatureType::Kind::image;
    input.type.image.height = shape.at(2);
    input.type.image.width = shape.at(3);
    input.type.image.color_space = shape.at(1) == 3 ? 20 : 10;
  }
  Metadata meta;
  meta.user["com.anemone.onnx.source"] = source;
  if (!network.names.empty()) {
    nlohmann::ordered_json names(network.names);
    meta.user[std::string(kOnnxNamesKey)] =
        names.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  if (!network.fixed.empty())
    meta.user[std::string(kOnnxFixedKey)] =
        nlohmann::ordered_json(network.fixed).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (!network.states.empty())
    meta.user[std::string(kOnnxStatesKey)] =
        nlohmann::ordered_json(network.states).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (!network.pixels.empty()) {
    nlohmann::ordered_json pixels;
    for (const auto& [name, image] : network.pixels)
      pixels[name] = {{"scale", image.scale}, {"bias", image.bias}};
    meta.user[std::string(kOnnxPixelsKey)] =
        pixels.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  if (!network.layouts.empty())
    meta.user[std::string(kOnnxLayoutsKey)] = nlohmann::ordered_json(network.layouts).dump();
  package.description.metadata = std::move(meta);
  return package;
}

OnnxPolish polish_network(OnnxNetwork& network, bool ane) {
  OnnxPolish polish;
  for (const auto& function : network.program.functions) {
    polish.before += count_operations(*function);
    tidy(*function);
    for (const auto& [what, count] : fuse(*function).found) polish.fused[what] += count;
  }
  const LayoutReport moved = move_axes(network.program, {.convolve = ane});
  polish.transposes_before = moved.transposes_before;
  polish.transposes_after = moved.transposes_after;
  polish.convolved = moved.convolved;
  polish.linear = moved.left;
  network.layouts = moved.layouts;
  for (const auto& function : network.program.functions) polish.after += tidy(*function).after;
  const std::vector<Fault> faults = verify(network.program, 1);
  if (!faults.empty()) throw Error(faults[0].text());
  return polish;
}

namespace {

// An object of JSON in the package's metadata; empty where it is not there.
nlohmann::json metadata_object(const Package& package, std::string_view key) {
  if (!package.description.metadata) return nlohmann::json::object();
  const auto& user = package.description.metadata->user;
  const auto it = user.find(std::string(key));
  if (it == user.end()) return nlohmann::json::object();
  auto found = nlohmann::json::parse(it->second, nullptr, false);
  return found.is_object() ? found : nlohmann::json::object();
}

}  // namespace

std::map<std::string, std::string> onnx_names(const Package& package) {
  std::map<std::string, std::string> out;
  const nlohmann::json names = metadata_object(package, kOnnxNamesKey);
  for (const auto& [clean, original] : names.items())
    if (original.is_string()) out.emplace(original.get<std::string>(), clean);
  return out;
}

std::map<std::string, std::string> onnx_input_names(const Package& package) {
  std::map<std::string, std::string> out = onnx_names(package);
  for (const Feature& output : package.description.main.outputs)
    std::erase_if(out, [&](const auto& pair) { return pair.second == output.name; });
  return out;
}

std::map<std::string, OnnxImage> onnx_pixels(const Package& package) {
  std::map<std::string, OnnxImage> out;
  const nlohmann::json pixels = metadata_object(package, kOnnxPixelsKey);
  for (const auto& [name, image] : pixels.items()) {
    if (!image.is_object() || !image.contains("scale") || !image.contains("bias")) continue;
    if (!image["scale"].is_number() || !image["bias"].is_array()) continue;
    OnnxImage read{image["scale"].get<float>(), {}};
    for (const nlohmann::json& bias : image["bias"])
      if (bias.is_number()) read.bias.push_back(bias.get<float>());
    if (!read.bias.empty()) out.emplace(name, std::move(read));
  }
  return out;
}

std::map<std::string, std::vector<int64_t>> onnx_fixed(const Package& package) {
  std::map<std::string, std::vector<int64_t>> out;
  const nlohmann::json fixed = metadata_object(package, kOnnxFixedKey);
  for (const auto& [name, values] : fixed.items()) {
    if (!values.is_array()) continue;
    std::vector<int64_t>& numbers = out[name];
    for (const auto& value : values)
      if (value.is_number_integer()) numbers.push_back(value.get<int64_t>());
  }
  return out;
}

std::map<std::string, std::string> onnx_states(const Package& package) {
  std::map<std::string, std::string> out;
  const nlohmann::json states = metadata_object(package, kOnnxStatesKey);
  for (const auto& [past, present] : states.items())
    if (present.is_string()) out.emplace(past, present.get<std::string>());
  return out;
}

std::map<std::string, Layout> onnx_layouts(const Package& package) {
  std::map<std::string, Layout> out;
  const nlohmann::json layouts = metadata_object(package, kOnnxLayoutsKey);
  for (const auto& [name, layout] : layouts.items()) {
    if (!layout.is_array()) continue;
    Layout axes;
    for (const auto& axis : layout)
      if (axis.is_number_integer()) axes.push_back(axis.get<int>());
    out.emplace(name, std::move(axes));
  }
  return out;
}

}  // namespace anemone
