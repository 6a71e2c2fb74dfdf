// Any bytes as an ONNX file: an Error, or a model whose every name, tensor and attribute can be read.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/model.h"

namespace {

using namespace anemone;

void read_tensor(const OnnxTensor& tensor) {
  if (!onnx_type_decodes(tensor.type())) return;
  if (static_cast<int64_t>(tensor.floats().size()) != tensor.elements()) __builtin_trap();
  if (onnx_type_info(tensor.type()).integer) tensor.ints();
}

void read_graph(const OnnxGraph& graph) {
  for (const OnnxTensor& tensor : graph.initializers) {
    if (graph.initializer(tensor.name()) != &tensor) __builtin_trap();
    read_tensor(tensor);
  }
  for (const OnnxValueInfo& input : graph.inputs) input.text();
  for (const OnnxNode& node : graph.nodes) {
    node.place();
    for (const std::string_view output : node.outputs)
      if (!output.empty() && graph.producer(output) != &node) __builtin_trap();
    for (const std::string_view input : node.inputs)
      if (!input.empty() && graph.consumers(input).empty()) __builtin_trap();
    for (const OnnxAttribute& attribute : node.attributes) {
      for (const OnnxTensor& tensor : attribute.tensors) read_tensor(tensor);
      for (const auto& inner : attribute.graphs) read_graph(*inner);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    read_graph(OnnxModel::from_file(MappedFile::from_bytes("fuzz.onnx", bytes), "/nonexistent").graph());
  } catch (const Error&) {
  }
  return 0;
}
