// OnnxReader: the protobuf messages of an ONNX file → OnnxModel. Used through OnnxModel::open.
//
// | message | fields that are read |
// |---|---|
// | ModelProto | ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8, metadata_props 14, |
// | | functions 25 |
// | GraphProto | node 1, name 2, initializer 5, input 11, output 12, value_info 13; sparse_initializer 15 is refused |
// | NodeProto | input 1, output 2, name 3, op_type 4, attribute 5, domain 7, overload 8 |
// | AttributeProto | name 1, f 2, i 3, s 4, t 5, g 6, floats 7, ints 8, strings 9, tensors 10, graphs 11, type 20, |
// | | ref_attr_name 21 |
// | TensorProto | dims 1, data_type 2, name 8, external_data 13, data_location 14, the data 4 5 6 7 9 10 11; |
// | | segment 3 is refused |
// | ValueInfoProto | name 1, type 2 |
// | FunctionProto | name 1, input 4, output 5, node 7, opset_import 9, domain 10, attribute_proto 11, overload 13 |
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/external_data.h"
#include "onnx/model.h"

namespace anemone {

// A function of the model, before it is put in place of its calls.
struct OnnxFunction {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<OnnxAttribute> defaults;
  std::vector<OnnxNode> nodes;
  std::map<std::string_view, int64_t> opsets;
};

// What a file may hold at most. A message of two bytes becomes a node of hundreds, so the count bounds the memory.
// Large networks have some ten thousand nodes.
struct OnnxBudget {
  static constexpr int64_t kNodes = 1 << 18, kItems = 1 << 23;
  int64_t nodes = 0, items = 0;

  void node();
  void item();
};

class OnnxReader {
 public:
  OnnxReader(std::shared_ptr<const MappedFile> file, const std::filesystem::path& folder);
  OnnxModel read();

 private:
  void read_model(std::string_view message);
  std::shared_ptr<OnnxGraph> read_graph(std::string_view message, int depth);
  OnnxNode read_node(std::string_view message, int depth);
  OnnxAttribute read_attribute(std::string_view message, int depth);
  OnnxTensor read_tensor(std::string_view message);
  OnnxValueInfo read_value_info(std::string_view message);
  OnnxFunction read_function(std::string_view message);
  void read_opset(std::string_view message, std::map<std::string_view, int64_t>& out) const;

  std::shared_ptr<const MappedFile> file_;
  ExternalData external_;
  OnnxModel model_;
  OnnxBudget budget_;
  std::shared_ptr<OnnxGraph> graph_;
  std::vector<OnnxFunction> functions_;
};

// Sets the version of every node, those of subgraphs included, from the imports of the model or function.
void set_versions(std::vector<OnnxNode>& nodes, const std::map<std::string_view, int64_t>& opsets);

// Puts the bodies of functions in place of their calls, in subgraphs too. New names go to `texts`.
void inline_functions(OnnxGraph& graph, const std::vector<OnnxFunction>& functions, OnnxBudget& budget,
                      std::deque<std::string>& texts);

// Sorts the nodes where they are not, and checks that every name is defined once and before its use; then builds the
// indexes. Error naming the node, also for a cycle.
void finish_graph(OnnxGraph& graph);

}  // namespace anemone
