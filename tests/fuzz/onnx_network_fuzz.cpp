// Any bytes as an ONNX network: an Error, or a package's program that keeps the rules of MIL, after all passes; and an
// Error or numbers from the interpreter.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "base/mapped_file.h"
#include "mil/passes/half.h"
#include "mil/verify.h"
#include "onnx/interpret/interpreter.h"
#include "onnx/network.h"

namespace {

using namespace anemone;

constexpr int64_t kMost = 1 << 16;  // elements

// Sizes that the file leaves open are 2.
std::vector<int64_t> sizes(const OnnxValueInfo& info) {
  std::vector<int64_t> out;
  for (const OnnxDim& dim : info.dims) out.push_back(dim.known() ? dim.size : 2);
  return out;
}

bool is_large(const OnnxModel& model) {
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    int64_t count = 1;
    for (const int64_t size : sizes(*info)) {
      if (size > kMost || size < 0) return true;
      count *= size;
      if (count > kMost) return true;
    }
  }
  return false;
}

void lower(const OnnxModel& model, bool ane) {
  OnnxNetworkOptions options;
  for (const OnnxValueInfo* info : model.graph().open_inputs())
    options.shapes[std::string(info->name)] = sizes(*info);
  OnnxNetwork net = lower_network(model, options);
  polish_network(net, ane);
  to_half(*net.program.find_function("main"));
  if (!verify(net.program, 1).empty()) __builtin_trap();
  network_package(std::move(net), "fuzz.onnx");
}

void interpret(const OnnxModel& model) {
  std::map<std::string, OnnxArray> inputs;
  for (const OnnxValueInfo* info : model.graph().open_inputs()) {
    OnnxArray array{info->type, sizes(*info), {}};
    int64_t count = 1;
    for (const int64_t size : array.dims) count *= size;
    for (int64_t k = 0; k < count; ++k) array.data.push_back(static_cast<double>(k % 7) - 3);
    inputs.emplace(std::string(info->name), std::move(array));
  }
  OnnxInterpreter(model, kMost).compute(inputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    const OnnxModel model = OnnxModel::from_file(MappedFile::from_bytes("fuzz.onnx", bytes), "/nonexistent");
    if (is_large(model)) return 0;
    for (const bool ane : {false, true}) {
      try {
        lower(model, ane);
      } catch (const Error&) {
      }
    }
    interpret(model);
  } catch (const Error&) {
  }
  return 0;
}
