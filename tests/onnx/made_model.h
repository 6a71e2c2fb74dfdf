// ONNX models that tests write field by field.
//     const OnnxModel model = model_of({node("Relu", {"x"}, "y")}, {value_info("x", {2})}, {value_info("y", {2})});
//     CHECK(has(error_of([&] { lower_network(model, {}); }), "…"));
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/model.h"
#include "package/wire.h"

namespace anemone::made {

using wire::Message;

// An input or output FLOAT (or the type given) with sizes; a negative size is the symbol "n".
inline Message value_info(std::string_view name, std::initializer_list<int64_t> dims, int64_t type = 1) {
  Message shape, tensor, holder, info;
  for (const int64_t d : dims) {
    Message dim;
    if (d < 0)
      dim.data(2, "n");
    else
      dim.integer(1, d);
    shape.message(1, dim);
  }
  tensor.integer(1, type);
  tensor.message(2, shape);
  holder.message(1, tensor);
  info.data(1, name);
  info.message(2, holder);
  return info;
}

inline Message node(std::string_view op, std::initializer_list<std::string_view> in, std::string_view out,
                    std::string_view domain = "") {
  Message m;
  for (const auto i : in) m.data(1, i);
  m.data(2, out);
  m.data(4, op);
  m.text(7, domain);
  return m;
}

inline OnnxModel model_of(const std::vector<Message>& nodes, std::initializer_list<Message> inputs,
                          std::initializer_list<Message> outputs) {
  Message graph, opset, other, model;
  for (const Message& n : nodes) graph.message(1, n);
  for (const Message& i : inputs) graph.message(11, i);
  for (const Message& o : outputs) graph.message(12, o);
  opset.integer(2, 18);
  other.data(1, "com.microsoft");
  other.integer(2, 1);
  model.integer(1, 8);
  model.message(7, graph);
  model.message(8, opset);
  model.message(8, other);
  return OnnxModel::from_file(MappedFile::from_bytes("t.onnx", model.bytes()));
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline Message float_tensor(std::string_view name, std::vector<float> values) {
  Message tensor;
  tensor.integers(1, {static_cast<int64_t>(values.size())});
  tensor.integer(2, 1);
  tensor.data(8, name);
  tensor.data(9, std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  return tensor;
}

inline Message int_scalar(std::string_view name, int64_t value) {
  Message tensor;
  tensor.integer(2, 7);
  tensor.data(8, name);
  tensor.data(9, std::string_view(reinterpret_cast<const char*>(&value), 8));
  return tensor;
}

inline Message constant_node(const Message& tensor, std::string_view out) {
  Message attribute, constant = node("Constant", {}, out);
  attribute.data(1, "value");
  attribute.message(5, tensor);
  attribute.integer(20, 4);
  constant.message(5, attribute);
  return constant;
}

inline Message graph_attribute(std::string_view name, const Message& graph) {
  Message attribute;
  attribute.data(1, name);
  attribute.message(6, graph);
  attribute.integer(20, 5);
  return attribute;
}

}  // namespace anemone::made
