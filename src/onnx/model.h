// OnnxModel: an ONNX file in memory: graphs of nodes over named values. The reader checks it completely, so users can
// follow names without fear: every name that a node reads is defined before it, functions are inlined, and the data of
// every tensor is there.
//     OnnxModel model = OnnxModel::open("net.onnx");
//     for (const OnnxNode& node : model.graph().nodes) fmt::print("{} {}\n", node.op, node.outputs[0]);
//
// Texts are views: into the mapped file, or into the model's own memory for names that inlining made. They live as long
// as the model or a copy of it. Read from onnx.proto of ONNX 1.23 (IR version 14 and before); the protobuf message is
// read in place with protozero, and data outside of it is mapped.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx/tensor.h"

namespace anemone {

struct OnnxGraph;

struct OnnxDim {
  int64_t size = -1;        // -1: not a number
  std::string_view symbol;  // "batch"; empty for a number, and for a size without a name
  bool known() const { return size >= 0; }
};

// What is known about a value: an input or output of a graph, or a note of the exporter about a value inside.
struct OnnxValueInfo {
  enum class Kind : uint8_t { none, tensor, sparse_tensor, sequence, map, optional, opaque };
  std::string_view name;
  Kind kind = Kind::none;
  OnnxType type = OnnxType::undefined;  // of a tensor
  bool has_shape = false;
  std::vector<OnnxDim> dims;
  std::string text() const;  // "FLOAT [1, 3, height]"
};

struct OnnxAttribute {
  // The numbers are those of the file.
  enum class Kind : uint8_t {
    none = 0,
    number = 1,
    integer = 2,
    text = 3,
    tensor = 4,
    graph = 5,
    numbers = 6,
    integers = 7,
    texts = 8,
    tensors = 9,
    graphs = 10,
    sparse_tensor = 11,
    sparse_tensors = 12,
    type = 13,
    types = 14,
  };
  std::string_view name;
  Kind kind = Kind::none;
  float number = 0;
  int64_t integer = 0;
  std::string_view text;
  std::vector<float> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string_view> texts;
  std::vector<OnnxTensor> tensors;                       // of `tensor` the first
  std::vector<std::shared_ptr<const OnnxGraph>> graphs;  // of `graph` the first
  std::string_view reference;                            // inside functions only: an attribute of the caller
};

struct OnnxNode {
  std::string_view name;    // often empty
  std::string_view op;      // "Conv"
  std::string_view domain;  // empty for ONNX's own operators ("ai.onnx" is read as empty)
  std::string_view overload;
  int64_t version = 0;  // of the domain's operators; 0 where the model does not import the domain
  std::vector<std::string_view> inputs;   // an empty name stands for an optional input that is left out
  std::vector<std::string_view> outputs;  // the same
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute* attribute(std::string_view name) const;
  // The attribute, or the fallback where there is none; Error naming the attribute when it is of another kind.
  int64_t integer(std::string_view name, int64_t fallback) const;
  float number(std::string_view name, float fallback) const;
  std::string_view text(std::string_view name, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback = {}) const;
  std::vector<float> numbers(std::string_view name, std::vector<float> fallback = {}) const;
  const OnnxTensor* tensor(std::string_view name) const;  // empty where there is none
  const OnnxGraph* graph(std::string_view name) const;    // the same

  // The name of input i; empty when it is left out or there are fewer.
  std::string_view input(size_t i) const { return i < inputs.size() ? inputs[i] : std::string_view(); }
  std::string_view output(size_t i) const { return i < outputs.size() ? outputs[i] : std::string_view(); }
  std::string place() const;  // for messages: "node 'conv1' (Conv)"
};

struct OnnxGraph {
  std::string_view name;
  std::vector<OnnxNode> nodes;  // each after the nodes whose outputs it reads
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs;  // as the file lists them; old files list the initializers too
  std::vector<OnnxValueInfo> outputs;
  std::vector<OnnxValueInfo> infos;

  const OnnxTensor* initializer(std::string_view name) const;
  // What is known about a value of this graph: an input, an output or a note; empty where nothing is.
  const OnnxValueInfo* info(std::string_view name) const;
  // The node that makes a value; empty for inputs, initializers and values of outer graphs.
  const OnnxNode* producer(std::string_view name) const;
  // The nodes that read a value, in order, each once; subgraphs count as their node.
  std::vector<const OnnxNode*> consumers(std::string_view name) const;
  // The inputs that are no initializers: what a caller must give.
  std::vector<const OnnxValueInfo*> open_inputs() const;
  // Called once, by the reader, when the graph is complete.
  void build_index();

 private:
  std::unordered_map<std::string_view, uint32_t> initializer_at_, producer_at_, info_at_;
  std::unordered_map<std::string_view, std::vector<uint32_t>> consumers_at_;
};

class OnnxModel {
 public:
  // Error naming file, node and field for anything that is wrong; all files that are missing are named at once.
  static OnnxModel open(const std::filesystem::path& path);
  // Bytes in memory, for tests and fuzzers. Data outside of the model is looked for in `folder`.
  static OnnxModel from_file(std::shared_ptr<const MappedFile> file,
                             const std::filesystem::path& folder = {});

  const std::string& path() const;
  const OnnxGraph& graph() const { return *graph_; }
  int64_t ir_version() const { return ir_version_; }
  std::string_view producer() const { return producer_; }
  std::string_view producer_version() const { return producer_version_; }
  // The imported versions by domain; "" is ONNX's own.
  const std::map<std::string_view, int64_t>& opsets() const { return opsets_; }
  const std::map<std::string_view, std::string_view>& metadata() const { return metadata_; }
  // Every file that data of tensors lies in, the model's own not included; as found, in order of first use.
  const std::vector<std::filesystem::path>& data_files() const { return data_files_; }

 private:
  friend class OnnxReader;

  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<std::deque<std::string>> texts_;  // names that inlining made
  std::shared_ptr<const OnnxGraph> graph_;
  int64_t ir_version_ = 0;
  std::string_view producer_, producer_version_;
  std::map<std::string_view, int64_t> opsets_;
  std::map<std::string_view, std::string_view> metadata_;
  std::vector<std::filesystem::path> data_files_;
};

// Calls `visit` for every name that the graphs inside a node take from outside, as often as it is used.
void for_each_capture(const OnnxNode& node, const std::function<void(std::string_view)>& visit);

// A name from a file, safe to print in one line.
std::string onnx_printable(std::string_view name);

}  // namespace anemone
