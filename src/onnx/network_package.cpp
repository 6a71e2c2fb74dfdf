#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
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
  package.description.metadata = std::move(meta);
  return package;
}

std::map<std::string, std::string> onnx_names(const Package& package) {
  std::map<std::string, std::string> out;
  if (!package.description.metadata) return out;
  const auto& user = package.description.metadata->user;
  const auto it = user.find(std::string(kOnnxNamesKey));
  if (it == user.end()) return out;
  const auto names = nlohmann::json::parse(it->second, nullptr, false);
  if (!names.is_object()) return out;
  for (const auto& [clean, original] : names.items())
    if (original.is_string()) out.emplace(original.get<std::string>(), clean);
  return out;
}

}  // namespace anemone
