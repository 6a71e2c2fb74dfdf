#include <algorithm>

#include "anemone/package.h"
#include "mil/text.h"
#include "package/mil_codec.h"
#include "package/package_file.h"

namespace anemone {
namespace {

// The program says what a value is; the description adds what sizes are allowed.
TensorInfo tensor_info(const Value& value, const Feature* feature) {
  TensorInfo out;
  out.name = value.name;
  out.dtype = value.type.dtype;
  for (const Dim d : value.type.shape) out.shape.push_back(d.known() ? d.size() : -1);
  if (!feature) return out;
  out.optional = feature->type.optional;
  out.enumerated = feature->type.array.enumerated;
  for (const SizeRange& r : feature->type.array.range)
    out.range.push_back({static_cast<int64_t>(r.lower), r.upper});
  return out;
}

Signature inputs_of(const std::string& function, const std::vector<std::unique_ptr<Value>>& inputs,
                    const Description& description) {
  const Interface& interface = description.interface(function);
  Signature out;
  out.function = function;
  for (const auto& input : inputs) {
    auto& kind = input->type.kind == Type::Kind::state ? out.states : out.inputs;
    kind.push_back(tensor_info(*input, interface.find(input->name)));
  }
  return out;
}

std::vector<Signature> default_first(std::vector<Signature> all, const Description& description) {
  std::stable_sort(all.begin(), all.end(), [&](const Signature& a, const Signature& b) {
    return (a.function == description.default_function) > (b.function == description.default_function);
  });
  return all;
}

}  // namespace

std::shared_ptr<const Package> open_package(const std::filesystem::path& path) {
  ReadOptions options;
  options.parse_text = [](std::string_view text, const std::string& name, const BlobOpener& blobs) {
    return parse_mil(text, name, [&](Blob& blob, const Type& type) {
      blob = blobs(blob.file_name, blob.record_offset, type);
    });
  };
  return std::make_shared<const Package>(read_package(path, options));
}

std::vector<Signature> signatures(const Package& package) {
  std::vector<Signature> out;
  for (const auto& function : package.program.functions) {
    Signature s = inputs_of(function->name, function->inputs, package.description);
    for (const Value* output : function->body.outputs) s.outputs.push_back(tensor_info(*output, nullptr));
    out.push_back(std::move(s));
  }
  return default_first(std::move(out), package.description);
}

std::vector<Signature> outlined_signatures(const std::vector<FunctionOutline>& outlines,
                                           const Description& description) {
  std::vector<Signature> out;
  for (const FunctionOutline& function : outlines) {
    Signature s = inputs_of(function.name, function.inputs, description);
    for (const auto& output : function.outputs) s.outputs.push_back(tensor_info(*output, nullptr));
    out.push_back(std::move(s));
  }
  return default_first(std::move(out), description);
}

}  // namespace anemone
