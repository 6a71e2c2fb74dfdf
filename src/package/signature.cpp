#include <algorithm>

#include "anemone/package.h"
#include "base/error.h"
#include "mil/text.h"
#include "package/package.h"

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
    const Interface& interface = package.description.interface(function->name);
    Signature s;
    s.function = function->name;
    for (const auto& input : function->inputs) {
      auto& kind = input->type.kind == Type::Kind::state ? s.states : s.inputs;
      kind.push_back(tensor_info(*input, interface.find(input->name)));
    }
    for (const Value* output : function->body.outputs) s.outputs.push_back(tensor_info(*output, nullptr));
    out.push_back(std::move(s));
  }
  std::stable_sort(out.begin(), out.end(), [&](const Signature& a, const Signature& b) {
    return (a.function == package.description.default_function) >
           (b.function == package.description.default_function);
  });
  return out;
}

}  // namespace anemone
