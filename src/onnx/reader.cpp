#include "onnx/reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::bytes;
using wire::fixed32;
using wire::varint;

void read_texts(wire::Fields& f, std::vector<std::string_view>& out, OnnxBudget& budget) {
  budget.item();
  out.push_back(f.view());
}

// The key and value of a StringStringEntryProto.
std::pair<std::string_view, std::string_view> read_entry(std::string_view message) {
  std::pair<std::string_view, std::string_view> out;
  for (wire::Fields f(message); f.next();) {
    if (f.key() == bytes(1))
      out.first = f.view();
    else if (f.key() == bytes(2))
      out.second = f.view();
    else
      f.skip();
  }
  return out;
}

OnnxDim read_dim(std::string_view message) {
  OnnxDim dim;
  for (wire::Fields f(message); f.next();) {
    if (f.key() == varint(1))
      dim.size = f.integer();
    else if (f.key() == bytes(2))
      dim.symbol = f.view();
    else
      f.skip();
  }
  if (dim.size < -1) throw errorf("a shape has the size {}", dim.size);
  return dim;
}

void read_tensor_type(std::string_view message, OnnxValueInfo& out, OnnxBudget& budget) {
  for (wire::Fields f(message); f.next();) {
    if (f.key() == varint(1)) {
      out.type = onnx_type_from_code(f.integer());
    } else if (f.key() == bytes(2)) {
      out.has_shape = true;
      for (wire::Fields shape(f.view()); shape.next();) {
        if (shape.key() != bytes(1)) {
          shape.skip();
          continue;
        }
        budget.item();
        out.dims.push_back(read_dim(shape.view()));
      }
    } else {
      f.skip();
    }
  }
}

void read_type(std::string_view message, OnnxValueInfo& out, OnnxBudget& budget) {
  using Kind = OnnxValueInfo::Kind;
  for (wire::Fields f(message); f.next();) {
    switch (f.key()) {
      case bytes(1):
        out.kind = Kind::tensor;
        read_tensor_type(f.view(), out, budget);
        continue;
      case bytes(4): out.kind = Kind::sequence; break;
      case bytes(5): out.kind = Kind::map; break;
      case bytes(7): out.kind = Kind::opaque; break;
      case bytes(8): out.kind = Kind::sparse_tensor; break;
      case bytes(9): out.kind = Kind::optional; break;
      default: break;
    }
    f.skip();
  }
}

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

void read_floats(wire::Fields& f, std::vector<float>& out, OnnxBudget& budget) {
  if (f.key() == fixed32(7)) {
    budget.item();
    out.push_back(f.float32());
    return;
  }
  const std::string_view packed = f.view();
  if (packed.size() % 4) throw Error("a list of floats is cut short");
  const size_t before = out.size();
  out.resize(before + packed.size() / 4);
  if (!packed.empty()) std::memcpy(out.data() + before, packed.data(), packed.size());
}

// Files before IR version 2 do not say the kind: it follows from the field that is there.
OnnxAttribute::Kind kind_of_fields(const OnnxAttribute& a, uint32_t last_field) {
  using Kind = OnnxAttribute::Kind;
  switch (last_field) {
    case 2: return Kind::number;
    case 3: return Kind::integer;
    case 4: return Kind::text;
    case 5: return Kind::tensor;
    case 6: return Kind::graph;
    case 7: return Kind::numbers;
    case 8: return Kind::integers;
    case 9: return Kind::texts;
    case 10: return Kind::tensors;
    case 11: return Kind::graphs;
    default: return a.kind;
  }
}

void check_attribute(const OnnxAttribute& a) {
  if (a.name.empty()) throw Error("an attribute has no name");
  if (!a.reference.empty()) return;
  if (a.kind == OnnxAttribute::Kind::tensor && a.tensors.size() != 1)
    throw errorf("the attribute '{}' must have one tensor", onnx_printable(a.name))
        .found(fmt::format("{}", a.tensors.size()));
  if (a.kind == OnnxAttribute::Kind::graph && a.graphs.size() != 1)
    throw errorf("the attribute '{}' must have one graph", onnx_printable(a.name))
        .found(fmt::format("{}", a.graphs.size()));
}

}  // namespace

void OnnxBudget::node() {
  if (++nodes > kNodes)
    throw errorf("the model has more than {} nodes, with its functions in place", kNodes)
        .hint("loops that an exporter wrote out make such graphs: export them as Loop or Scan");
}

void OnnxBudget::item() {
  if (++items > kItems) throw errorf("the model has more than {} names, attributes and sizes", kItems);
}

OnnxReader::OnnxReader(std::shared_ptr<const MappedFile> file, const std::filesystem::path& folder)
    : file_(std::move(file)), external_(file_->path(), folder) {
  model_.file_ = file_;
  model_.texts_ = std::make_shared<std::deque<std::string>>();
}

OnnxModel OnnxReader::read() {
  return wire::at_place([&] { return file_->path(); },
                        [&] {
                          read_model(file_->text());
                          if (!external_.missing().empty()) {
                            std::string all;
                            for (const std::string& name : external_.missing())
                              all += (all.empty() ? "'" : ", '") + name + "'";
                            throw errorf("data of tensors is in files that are not there: {}", all)
                                .hint("put them beside the model");
                          }
                          set_versions(graph_->nodes, model_.opsets_);
                          if (!functions_.empty())
                            inline_functions(*graph_, functions_, budget_, *model_.texts_);
                          finish_graph(*graph_);
                          model_.graph_ = graph_;
                          model_.data_files_ = external_.files();
                          return std::move(model_);
                        });
}

void OnnxReader::read_model(std::string_view message) {
  bool has_graph = false;
  for (wire::Fields f(message); f.next();) {
    switch (f.key()) {
      case varint(1): model_.ir_version_ = f.integer(); break;
      case bytes(2): model_.producer_ = f.view(); break;
      case bytes(3): model_.producer_version_ = f.view(); break;
      case bytes(7):
        if (has_graph) throw Error("the model has two graphs");
        has_graph = true;
        graph_ = read_graph(f.view(), 0);
        break;
      case bytes(8): read_opset(f.view(), model_.opsets_); break;
      case bytes(14):
        budget_.item();
        model_.metadata_.insert(read_entry(f.view()));
        break;
      case bytes(25): functions_.push_back(read_function(f.view())); break;
      default: f.skip();
    }
  }
  if (!has_graph) throw Error("the file has no graph").expected("an ONNX model").hint("is it complete?");
  if (model_.opsets_.empty())
    throw Error("the model imports no operators (opset_import)").hint("is it an ONNX model?");
}

void OnnxReader::read_opset(std::string_view message, std::map<std::string_view, int64_t>& out) const {
  std::string_view domain;
  int64_t version = 0;
  for (wire::Fields f(message); f.next();) {
    if (f.key() == bytes(1))
      domain = plain_domain(f.view());
    else if (f.key() == varint(2))
      version = f.integer();
    else
      f.skip();
  }
  out.insert_or_assign(domain, version);
}

std::shared_ptr<OnnxGraph> OnnxReader::read_graph(std::string_view message, int depth) {
  if (depth > wire::kMaxDepth) throw errorf("graphs are nested more than {} deep", wire::kMaxDepth);
  auto graph = std::make_shared<OnnxGraph>();
  for (wire::Fields f(message); f.next();) {
    switch (f.key()) {
      case bytes(1):
        wire::at_place([&] { return fmt::format("node {}", graph->nodes.size()); },
                       [&] { graph->nodes.push_back(read_node(f.view(), depth)); });
        break;
      case bytes(2): graph->name = f.view(); break;
      case bytes(5):
        budget_.item();
        graph->initializers.push_back(read_tensor(f.view()));
        if (graph->initializers.back().name().empty()) throw Error("an initializer has no name");
        break;
      case bytes(11): graph->inputs.push_back(read_value_info(f.view())); break;
      case bytes(12): graph->outputs.push_back(read_value_info(f.view())); break;
      case bytes(13): graph->infos.push_back(read_value_info(f.view())); break;
      case bytes(15):
        throw Error("the graph has sparse initializers, which are not supported")
            .hint("save the model with dense ones");
      default: f.skip();
    }
  }
  return graph;
}

OnnxNode OnnxReader::read_node(std::string_view message, int depth) {
  budget_.node();
  OnnxNode node;
  for (wire::Fields f(message); f.next();) {
    switch (f.key()) {
      case bytes(1): read_texts(f, node.inputs, budget_); break;
      case bytes(2): read_texts(f, node.outputs, budget_); break;
      case bytes(3): node.name = f.view(); break;
      case bytes(4): node.op = f.view(); break;
      case bytes(5):
        budget_.item();
        wire::at_place([&] { return node.op.empty() ? std::string("attributes") : node.place(); },
                       [&] { node.attributes.push_back(read_attribute(f.view(), depth)); });
        break;
      case bytes(7): node.domain = plain_domain(f.view()); break;
      case bytes(8): node.overload = f.view(); break;
      default: f.skip();
    }
  }
  if (node.op.empty()) throw Error("the node names no operator (op_type)").at(node.place());
  return node;
}

OnnxAttribute OnnxReader::read_attribute(std::string_view message, int depth) {
  OnnxAttribute a;
  uint32_t field = 0;
  bool typed = false;
  for (wire::Fields f(message); f.next();) {
    if (f.tag() >= 2 && f.tag() <= 11) field = f.tag();
    switch (f.key()) {
      case bytes(1): a.name = f.view(); break;
      case fixed32(2): a.number = f.float32(); break;
      case varint(3): a.integer = f.integer(); break;
      case bytes(4): a.text = f.view(); break;
      case bytes(5): a.tensors.push_back(read_tensor(f.view())); break;
      case bytes(6): a.graphs.push_back(read_graph(f.view(), depth + 1)); break;
      case bytes(7):
      case fixed32(7): read_floats(f, a.numbers, budget_); break;
      case bytes(8):
      case varint(8): f.integers(a.integers); break;
      case bytes(9): read_texts(f, a.texts, budget_); break;
      case bytes(10):
        budget_.item();
        a.tensors.push_back(read_tensor(f.view()));
        break;
      case bytes(11): a.graphs.push_back(read_graph(f.view(), depth + 1)); break;
      case varint(20): {
        const int64_t code = f.integer();
        typed = code > 0;
        if (code < 0 || code > 14) throw errorf("an attribute has the unknown kind {}", code);
        a.kind = static_cast<OnnxAttribute::Kind>(code);
        break;
      }
      case bytes(21): a.reference = f.view(); break;
      default: f.skip();
    }
  }
  if (!typed) a.kind = kind_of_fields(a, field);
  check_attribute(a);
  return a;
}

OnnxValueInfo OnnxReader::read_value_info(std::string_view message) {
  budget_.item();
  OnnxValueInfo info;
  for (wire::Fields f(message); f.next();) {
    if (f.key() == bytes(1))
      info.name = f.view();
    else if (f.key() == bytes(2))
      wire::at_place([&] { return fmt::format("value '{}'", onnx_printable(info.name)); },
                     [&] { read_type(f.view(), info, budget_); });
    else
      f.skip();
  }
  return info;
}

OnnxFunction OnnxReader::read_function(std::string_view message) {
  budget_.item();
  OnnxFunction out;
  const auto place = [&] { return fmt::format("function '{}'", onnx_printable(out.name)); };
  wire::at_place(place, [&] {
    for (wire::Fields f(message); f.next();) {
      switch (f.key()) {
        case bytes(1): out.name = f.view(); break;
        case bytes(4): read_texts(f, out.inputs, budget_); break;
        case bytes(5): read_texts(f, out.outputs, budget_); break;
        case bytes(7): out.nodes.push_back(read_node(f.view(), 0)); break;
        case bytes(9): read_opset(f.view(), out.opsets); break;
        case bytes(10): out.domain = plain_domain(f.view()); break;
        case bytes(11): out.defaults.push_back(read_attribute(f.view(), 0)); break;
        case bytes(13): out.overload = f.view(); break;
        default: f.skip();
      }
    }
  });
  set_versions(out.nodes, out.opsets);
  return out;
}

OnnxModel OnnxModel::open(const std::filesystem::path& path) {
  return OnnxReader(MappedFile::open(path), path.parent_path()).read();
}

OnnxModel OnnxModel::from_file(std::shared_ptr<const MappedFile> file, const std::filesystem::path& folder) {
  return OnnxReader(std::move(file), folder).read();
}

}  // namespace anemone
