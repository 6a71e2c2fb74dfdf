// OnnxWeights: the weights of an ONNX graph as tensors that are read by rows, whichever operators hold them.
//     OnnxWeights weights(model);
//     std::optional<OnnxMatrix> w = weights.operand(node);        // of a MatMul, Gemm, Gather, MatMulNBits …
//     TensorReader t = …find(weights.tensors(), w->tensor);       // [out, in], or with `transposed` [in, out]
//
// | operator | tensor | what it holds |
// |---|---|---|
// | any | a floating-point initializer | its numbers |
// | DequantizeLinear of constants | named as its output | codes with a scale for all, by axis, or by block |
// | MatMulNBits | named as its B | [N, K], blocks of 2, 4 or 8 bits along K |
// | GatherBlockQuantized | named as its data | [rows, width], blocks along one axis |
// | MatMulInteger behind DynamicQuantizeLinear | named as its B | [K, N] 8-bit codes, scale of the product behind it |
// | QMoE | named as its weights | stacks [experts, out, in], blocks along in or one scale a row |
// Codes that serve two operators alike (a tied head) are one tensor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/onnx_source.h"
#include "checkpoint/tensor_reader.h"
#include "onnx/model.h"

namespace anemone {

struct OnnxMatrix {
  std::string tensor;
  bool transposed = false;  // the tensor holds [in, out]
};

class OnnxWeights {
 public:
  // Error naming the node where codes have a form that is not supported, or that onnxruntime itself computes oddly.
  explicit OnnxWeights(const OnnxModel& model);

  std::vector<TensorReader> take_tensors() { return std::move(tensors_); }
  // A constant value: an initializer, what DequantizeLinear makes of constants, or one of these behind Transpose,
  // Cast, Identity. Nothing where the value is not constant or no floating-point tensor.
  std::optional<OnnxMatrix> constant(std::string_view value) const;
  // The weight that a node keeps in codes of its own (MatMulNBits, GatherBlockQuantized, MatMulInteger).
  const OnnxMatrix* own(const OnnxNode& node) const;
  // The tensor of a stack of experts that a node keeps in codes of its own (QMoE); nullptr where the input is none.
  const std::string* stack(const OnnxNode& node, size_t input) const;
  // The codes that a tensor is made of; nullptr where it is made of plain numbers.
  const OnnxCodes* codes(std::string_view tensor) const;

 private:
  void add_initializers();
  void add_dequantized(const OnnxNode& node);
  void add_matmul_nbits(const OnnxNode& node);
  void add_nbits_zeros(const OnnxNode& node, OnnxCodes& c) const;
  void add_nbits_groups(const OnnxNode& node, OnnxCodes& c) const;
  void add_gather_blocks(const OnnxNode& node);
  void add_matmul_integer(const OnnxNode& node);
  void add_experts(const OnnxNode& node);
  struct ExpertCodes {
    int64_t bits, block;  // 0: one scale a row
  };
  void add_expert_stack(const OnnxNode& node, size_t input, size_t zeros, ExpertCodes form);
  // The initializer behind a value, also through Reshape, Identity and Constant nodes; empty where there is none.
  const OnnxTensor* stored(std::string_view value) const;
  const OnnxTensor& needed(const OnnxNode& node, size_t input, const char* what) const;
  // A tensor for these codes; the one that there is already where all of them are the same.
  std::string add(std::string name, std::vector<int64_t> shape, OnnxCodes codes);

  const OnnxModel& model_;
  const OnnxGraph& graph_;
  std::vector<TensorReader> tensors_;
  std::map<std::string, std::string, std::less<>> by_value_;  // value → tensor
  std::unordered_map<const OnnxNode*, OnnxMatrix> own_;
  std::map<std::pair<const OnnxNode*, size_t>, std::string> stacks_;  // by node and input
  std::map<std::vector<const void*>, std::string> by_bytes_;
  std::map<std::string, std::shared_ptr<const OnnxCodesSource>, std::less<>> codes_;
};

// The constant that a node of type Constant holds; empty for other nodes and kinds.
std::optional<OnnxTensor> constant_node(const OnnxNode& node);

}  // namespace anemone
