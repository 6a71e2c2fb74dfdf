#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/model.h"
#include "package/wire.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

using wire::Message;

Message value_info(std::string_view name) {
  Message m;
  m.data(1, name);
  return m;
}

Message node(std::string_view op, std::initializer_list<std::string_view> in,
             std::initializer_list<std::string_view> out, std::string_view name = "") {
  Message m;
  for (const auto i : in) m.data(1, i);
  for (const auto o : out) m.data(2, o);
  m.text(3, name);
  m.data(4, op);
  return m;
}

// A model around a graph, with ONNX's operators in version 18.
std::string model_of(const Message& graph) {
  Message opset, model;
  opset.integer(2, 18);
  model.integer(1, 8);
  model.message(7, graph);
  model.message(8, opset);
  return model.bytes();
}

Message graph_of(std::initializer_list<Message> nodes, std::string_view input = "x",
                 std::string_view output = "y") {
  Message g;
  for (const Message& n : nodes) g.message(1, n);
  g.message(11, value_info(input));
  g.message(12, value_info(output));
  return g;
}

OnnxModel parse(const std::string& bytes, const std::filesystem::path& folder = {}) {
  return OnnxModel::from_file(MappedFile::from_bytes("t.onnx", bytes), folder);
}

std::string error_of(const std::string& bytes, const std::filesystem::path& folder = {}) {
  try {
    parse(bytes, folder);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Message entry(std::string_view key, std::string_view value) {
  Message m;
  m.data(1, key);
  m.data(2, value);
  return m;
}

// A graph with one FLOAT tensor of two elements outside of the model.
std::string external_model(std::string_view location, std::string_view offset = "", int64_t size = 2) {
  Message tensor, graph = graph_of({node("Identity", {"x"}, {"y"})});
  tensor.integers(1, {size});
  tensor.integer(2, 1);
  tensor.data(8, "w");
  tensor.message(13, entry("location", location));
  if (!offset.empty()) tensor.message(13, entry("offset", offset));
  tensor.integer(14, 1);
  graph.message(5, tensor);
  return model_of(graph);
}

}  // namespace

TEST_CASE("onnx: every element type is read as raw data and as a list") {
  const OnnxModel model = OnnxModel::open(source_dir() / "tests/data/onnx/types.onnx");
  int types = 0;
  for (const OnnxTensor& expected : model.graph().initializers) {
    const std::string name(expected.name());
    if (!name.ends_with(".values")) continue;
    const std::string stem = name.substr(0, name.size() - 7);
    INFO(stem);
    ++types;
    const std::vector<float> want = expected.floats();
    for (const char* form : {".raw", ".list"}) {
      const OnnxTensor* tensor = model.graph().initializer(stem + form);
      REQUIRE(tensor);
      CHECK(tensor->type_name() == stem);
      CHECK(tensor->floats() == want);
      std::vector<float> middle(3);
      tensor->read(2, 5, std::span<float>(middle));
      CHECK(middle == std::vector<float>(want.begin() + 2, want.begin() + 5));
      if (onnx_type_info(tensor->type()).integer)
        for (size_t i = 0; i < want.size(); ++i) CHECK(static_cast<float>(tensor->ints()[i]) == want[i]);
      else
        CHECK_THROWS_AS(tensor->ints(), Error);
    }
  }
  CHECK(types == 25);
  CHECK(model.metadata().at("key") == "value");
  CHECK(model.opsets().at("") == 21);
  CHECK(model.graph().inputs[0].text() == "FLOAT [batch, 3, ?]");
}

TEST_CASE("onnx: functions are put in place of their calls") {
  const OnnxModel model = OnnxModel::open(source_dir() / "tests/data/onnx/functions.onnx");
  std::string ops;
  for (const OnnxNode& n : model.graph().nodes) ops += std::string(n.op) + " ";
  CHECK(ops == "Identity LeakyRelu If LeakyRelu If ");
  const auto& nodes = model.graph().nodes;
  CHECK(nodes[1].number("alpha", 0) == 0.25f);  // the function's default
  CHECK(nodes[3].number("alpha", 0) == 0.5f);   // the caller's
  CHECK(nodes[1].inputs[0] == "x");
  CHECK(nodes[2].outputs[0] == "u");
  CHECK(nodes[3].inputs[0] == "u");
  CHECK(nodes[2].graph("then_branch")->nodes[0].inputs[0] == nodes[1].outputs[0]);
  CHECK(model.graph().producer("v") == &nodes[4]);
  CHECK(model.graph().consumers(nodes[1].outputs[0]) == std::vector<const OnnxNode*>{&nodes[2]});
  CHECK(nodes[1].version == 18);
}

TEST_CASE("onnx: nodes are sorted, and cycles, gaps and repeats are named") {
  const OnnxModel sorted = parse(model_of(graph_of({node("Relu", {"a"}, {"y"}), node("Neg", {"x"}, {"a"})})));
  CHECK(sorted.graph().nodes[0].op == "Neg");
  const std::string cycle =
      error_of(model_of(graph_of({node("Relu", {"b"}, {"y"}, "one"), node("Neg", {"y"}, {"b"})})));
  CHECK_MESSAGE(has(cycle, "t.onnx: node 'one' (Relu): the node is part of a cycle"), cycle);
  const std::string gap = error_of(model_of(graph_of({node("Add", {"x", "z"}, {"y"}, "sum")})));
  CHECK_MESSAGE(has(gap, "node 'sum' (Add): nothing makes the input 'z'"), gap);
  const std::string twice =
      error_of(model_of(graph_of({node("Neg", {"x"}, {"y"}), node("Abs", {"x"}, {"y"})})));
  CHECK_MESSAGE(has(twice, "the value 'y' is defined twice"), twice);
  const std::string output = error_of(model_of(graph_of({node("Neg", {"x"}, {"q"})})));
  CHECK_MESSAGE(has(output, "nothing makes the output 'y'"), output);
}

TEST_CASE("onnx: bytes that are no model") {
  CHECK(has(error_of(""), "no graph"));
  CHECK(has(error_of("\x3a\x7f"), "not a protobuf message"));
  CHECK(has(error_of(model_of(graph_of({Message()}))), "names no operator"));
}

TEST_CASE("onnx: shapes that lie") {
  const auto with = [](std::vector<int64_t> dims, std::string_view raw) {
    Message tensor, graph = graph_of({node("Identity", {"x"}, {"y"})});
    tensor.integers(1, dims);
    tensor.integer(2, 1);
    tensor.data(8, "w");
    tensor.data(9, raw);
    graph.message(5, tensor);
    return error_of(model_of(graph));
  };
  CHECK(has(with({3}, "12345678"), "tensor 'w': the data does not fit type FLOAT and shape [3]"));
  CHECK(has(with({-1}, "1234"), "negative"));
  CHECK(has(with({int64_t{1} << 62, 4}, ""), "more elements"));
  CHECK(with({2}, "12345678") == "no error");
}

TEST_CASE("onnx: external data stays in its folder") {
  const TempFolder folder, elsewhere;
  const float values[] = {1.5f, -2.0f};
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), values, 8);
  folder.write("w.data", "1234" + bytes);
  elsewhere.write("secret", bytes);
  const OnnxModel model = parse(external_model("w.data", "4"), folder.path());
  CHECK(model.graph().initializer("w")->floats() == std::vector<float>{1.5f, -2.0f});
  CHECK(model.data_files().size() == 1);
  CHECK(has(error_of(external_model("w.data", "8"), folder.path()), "past the end"));
  CHECK(has(error_of(external_model("w.data", "x"), folder.path()), "offset of external data is no number"));
  CHECK(has(error_of(external_model("../secret"), folder.path()), "leaves the folder"));
  CHECK(has(error_of(external_model((elsewhere / "secret").string()), folder.path()), "is absolute"));
  CHECK(has(error_of(external_model("absent.data"), folder.path()), "not there: 'absent.data'"));
  std::filesystem::create_symlink(elsewhere / "secret", folder / "link");
  CHECK(has(error_of(external_model("link"), folder.path()), "a link that leaves the folder"));
  std::filesystem::create_symlink(folder / "w.data", folder / "inner");
  CHECK(error_of(external_model("inner", "4"), folder.path()) == "no error");
}

TEST_CASE("onnx: the files of a model that is a link may lie beside its target") {
  const TempFolder blobs, snapshot;
  blobs.write("0001", external_model("w.data"));
  blobs.write("0002", "12345678");
  std::filesystem::create_symlink(blobs / "0001", snapshot / "model.onnx");
  std::filesystem::create_symlink(blobs / "0002", snapshot / "w.data");
  CHECK(OnnxModel::open(snapshot / "model.onnx").graph().initializer("w")->elements() == 2);
}

TEST_CASE("onnx: more nodes than anybody needs, and deep nests, are refused in bounded time") {
  std::string many;
  const std::string one = node("Neg", {}, {}).bytes();
  Message graph;
  for (int i = 0; i < (1 << 20) + 1; ++i) graph.data(1, one);
  CHECK(has(error_of(model_of(graph)), "more than 262144 nodes"));
  Message inner = graph_of({node("Neg", {"x"}, {"y"})});
  for (int depth = 0; depth < 80; ++depth) {
    Message attribute, n = node("Loop", {}, {"y"});
    attribute.data(1, "body");
    attribute.message(6, inner);
    attribute.integer(20, 5);
    n.message(5, attribute);
    inner = graph_of({n});
  }
  CHECK(has(error_of(model_of(inner)), "nested more than 64 deep"));
}

TEST_CASE("onnx: functions that call each other are refused in bounded time") {
  // Each of 60 functions calls the next one twice: 2^60 nodes, if they were put in place.
  Message opset, model;
  opset.integer(2, 18);
  model.message(7, graph_of({node("f0", {"x"}, {"y"})}));
  model.message(8, opset);
  for (int i = 0; i < 60; ++i) {
    Message f;
    f.data(1, fmt::format("f{}", i));
    f.data(4, "a");
    f.data(5, "c");
    const std::string next = i == 59 ? "Neg" : fmt::format("f{}", i + 1);
    f.message(7, node(next, {"a"}, {"b"}));
    f.message(7, node(next, {"b"}, {"c"}));
    f.message(9, opset);
    model.message(25, f);
  }
  CHECK(has(error_of(model.bytes()), "more than 262144 nodes"));
  Message self, loop;
  self.data(1, "f0");
  self.data(4, "a");
  self.data(5, "c");
  self.message(7, node("f0", {"a"}, {"c"}));
  loop.message(7, graph_of({node("f0", {"x"}, {"y"})}));
  loop.message(8, opset);
  loop.message(25, self);
  CHECK(has(error_of(loop.bytes()), "nested more than 64 deep"));
}
