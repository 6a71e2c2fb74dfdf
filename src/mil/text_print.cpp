#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"
#include "base/shape.h"
#include "mil/stored.h"
#include "mil/text.h"

namespace anemone {
namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Not by fmt, whose "{:a}" of zero differs from version to version.
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, std::abs(value), std::chars_format::hex).ptr;
  return fmt::format("{}0x{}", std::signbit(value) ? "-" : "", std::string_view(digits, end));
}

class Printer {
 public:
  explicit Printer(bool short_scalars) : short_(short_scalars) {}

  std::string program(const Program& program) {
    out_ = fmt::format("program({})\n", short_ ? "1.3" : "1.0");
    if (!program.attributes.empty()) out_ += attributes(program.attributes) + "\n";
    out_ += "{\n";
    for (const auto& function : program.functions) this->function(*function);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  std::string type(const Type& t) const {
    switch (t.kind) {
      case Type::Kind::none: return "none";
      case Type::Kind::tensor:
        if (short_ && t.shape.empty()) return std::string(dtype_name(t.dtype));
        return fmt::format("tensor<{}, {}>", dtype_name(t.dtype), shape(t.shape));
      case Type::Kind::state:
        return fmt::format("state<tensor<{}, {}>>", dtype_name(t.dtype), shape(t.shape));
      case Type::Kind::list: return fmt::format("list<{}, {}>", type(t.items[0]), dim(t.length));
      case Type::Kind::dict: return fmt::format("dict<{}, {}>", type(t.items[0]), type(t.items[1]));
      case Type::Kind::tuple: {
        std::string out = "tuple<";
        for (size_t i = 0; i < t.items.size(); ++i) out += (i ? ", " : "") + type(t.items[i]);
        return out + ">";
      }
    }
    return "";
  }

  static std::string dim(Dim d) { return d.known() ? fmt::format("{}", d.size()) : "?"; }

  static std::string shape(const Shape& s) {
    std::string out = "[";
    for (size_t i = 0; i < s.size(); ++i) out += (i ? ", " : "") + dim(s[i]);
    return out + "]";
  }

  std::string literal(const Constant& c) const {
    if (const auto* blob = std::get_if<Blob>(&c.data)) {
      const Constant path = Constant::text(blob->file_name);
      const char* offset_type = short_ ? "uint64" : "tensor<uint64, []>";
      return fmt::format("{}(BLOBFILE(path = {}, offset = {}({})))", type(c.type), literal(path), offset_type,
                         blob->record_offset);
    }
    return type(c.type) + "(" + value(c) + ")";
  }

  // The part of a literal inside the parentheses.
  std::string value(const Constant& c) const {
    if (const auto* items = std::get_if<Constant::Items>(&c.data)) return aggregate(c.type, *items);
    if (std::holds_alternative<Constant::Source>(c.data)) return "…";  // a weight that is yet to be made
    std::vector<std::string> elements = this->elements(c);
    size_t next = 0;
    const std::vector<int64_t> dims =
        c.type.fixed() ? c.type.dims() : std::vector<int64_t>{static_cast<int64_t>(elements.size())};
    return nested(dims, 0, elements, next);
  }

  std::string aggregate(const Type& t, const Constant::Items& items) const {
    std::string out;
    if (t.kind == Type::Kind::dict) {
      for (size_t i = 0; i + 1 < items.size(); i += 2)
        out += fmt::format("{}{{{}, {}}}", i ? ", " : "", value(items[i]), value(items[i + 1]));
      return "{" + out + "}";
    }
    for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + value(items[i]);
    return t.kind == Type::Kind::list ? "[" + out + "]" : "(" + out + ")";
  }

  std::vector<std::string> elements(const Constant& c) const {
    std::vector<std::string> out;
    if (const auto* strings = std::get_if<Constant::Strings>(&c.data)) {
      for (const std::string& s : *strings) out.push_back(quote(s));
      return out;
    }
    const std::span<const std::byte> bytes = c.bytes();
    if (!c.type.fixed()) {  // as many as there are
      const auto count = static_cast<int64_t>(bytes.size() * 8) / dtype_bits(c.type.dtype);
      return elements(
          Constant::from_bytes(Type::tensor(c.type.dtype, {count}), {bytes.begin(), bytes.end()}));
    }
    const auto load = [&]<class T>(T, size_t i) {
      T v;
      std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof(T));
      return v;
    };
    const DType dtype = c.type.dtype;
    if (dtype == DType::int64)
      for (size_t i = 0; i < bytes.size() / 8; ++i) out.push_back(fmt::format("{}", load(int64_t{}, i)));
    else if (dtype == DType::uint64)
      for (size_t i = 0; i < bytes.size() / 8; ++i) out.push_back(fmt::format("{}", load(uint64_t{}, i)));
    else if (dtype == DType::uint32)
      for (size_t i = 0; i < bytes.size() / 4; ++i) out.push_back(fmt::format("{}", load(uint32_t{}, i)));
    else if (dtype == DType::fp64)
      for (size_t i = 0; i < bytes.size() / 8; ++i) out.push_back(number_text(load(double{}, i)));
    else if (c.type.is_float())
      for (const float v : decode_floats(*stored_constant(c))) out.push_back(number_text(v));
    else if (dtype == DType::boolean)
      for (const int32_t v : decode_ints(*stored_constant(c))) out.push_back(v ? "true" : "false");
    else
      for (const int32_t v : decode_ints(*stored_constant(c))) out.push_back(fmt::format("{}", v));
    return out;
  }

  static std::string nested(const std::vector<int64_t>& dims, size_t axis,
                            const std::vector<std::string>& elements, size_t& next) {
    if (axis == dims.size()) return next < elements.size() ? elements[next++] : "";
    std::string out = "[";
    for (int64_t i = 0; i < dims[axis] && (next < elements.size() || elements.empty()); ++i) {
      if (elements.empty() && i > 0) break;  // a dimension of an empty tensor
      out += (i ? ", " : "") + nested(dims, axis + 1, elements, next);
    }
    return out + "]";
  }

  std::string attributes(const Attributes& attributes) const {
    std::string out = "[";
    for (const auto& [name, constant] : attributes)
      out += fmt::format("{}{} = {}", out.size() > 1 ? ", " : "", name, literal(constant));
    return out + "]";
  }

  std::string parameters(const std::vector<std::unique_ptr<Value>>& values) const {
    std::string out;
    for (const auto& value : values)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", type(value->type), value->name);
    return out;
  }

  static std::string names(const std::vector<Value*>& values) {
    std::string out;
    for (const Value* value : values) out += (out.empty() ? "" : ", ") + value->name;
    return out;
  }

  void function(const Function& f) {
    out_ += fmt::format("    func {}<{}>({}) ", f.name, opset_info(f.opset).text_name, parameters(f.inputs));
    if (!f.attributes.empty()) out_ += attributes(f.attributes) + " ";
    out_ += "{\n";
    for (const auto& op : f.body.ops) operation(*op, 12);
    out_ += fmt::format("        }} -> ({});\n", names(f.body.outputs));
  }

  std::string binding(const Binding& b) const { return b.value ? b.value->name : literal(*b.literal); }

  void operation(const Operation& op, int indent) {
    const std::string pad(static_cast<size_t>(indent), ' ');
    out_ += pad;
    if (!op.outputs.empty()) out_ += parameters(op.outputs) + " = ";
    out_ += op.type + "(";
    std::vector<const Input*> inputs;
    for (const Input& input : op.inputs) inputs.push_back(&input);
    std::sort(inputs.begin(), inputs.end(), [](const Input* a, const Input* b) { return a->name < b->name; });
    for (size_t i = 0; i < inputs.size(); ++i) {
      out_ += (i ? ", " : "") + inputs[i]->name + " = ";
      const auto& bindings = inputs[i]->bindings;
      if (bindings.size() == 1 && !is_tuple_parameter(inputs[i]->name)) {
        out_ += binding(bindings[0]);
        continue;
      }
      out_ += "(";
      for (size_t k = 0; k < bindings.size(); ++k) out_ += (k ? ", " : "") + binding(bindings[k]);
      out_ += ")";
    }
    out_ += ")";
    out_ += attributes(op.attributes);
    for (const auto& block : op.blocks) {
      out_ += fmt::format(" ({}) {{\n", parameters(block->inputs));
      for (const auto& inner : block->ops) operation(*inner, indent + 4);
      out_ += fmt::format("{}}} -> ({})", pad, names(block->outputs));
    }
    out_ += ";\n";
  }

  // A parameter that takes a tuple keeps its parentheses around a single value.
  static bool is_tuple_parameter(std::string_view name) {
    return name == "values" || name == "loop_vars" || name == "ref_tensors";
  }

  const bool short_;
  std::string out_;
};

}  // namespace

std::string print_mil(const Program& program) {
  const bool recent = std::any_of(program.functions.begin(), program.functions.end(),
                                  [](const auto& f) { return f->opset >= Opset::ios18; });
  return Printer(recent).program(program);
}

}  // namespace anemone
