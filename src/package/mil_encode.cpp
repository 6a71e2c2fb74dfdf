#include <algorithm>

#include "package/mil_codec.h"
#include "package/wire.h"

namespace anemone {
namespace {

using wire::Message;

class ProgramWriter {
 public:
  explicit ProgramWriter(const BlobPlacer& place) : place_(place) {}

  Message program(const Program& program) {
    Message out;
    out.integer(1, program.version);
    std::vector<const Function*> sorted;
    for (const auto& function : program.functions) sorted.push_back(function.get());
    std::ranges::sort(sorted, {}, [](const Function* f) -> const std::string& { return f->name; });
    for (const Function* f : sorted) {
      wire::at_place([&] { return fmt::format("function '{}'", f->name); },
                     [&] { out.message(2, entry(f->name, function(*f))); });
    }
    attributes(out, 4, program.attributes);
    out.raw(program.extra);
    return out;
  }

 private:
  static Message entry(const std::string& key, const Message& value) {
    Message out;
    out.text(1, key);
    out.message(2, value);
    return out;
  }

  // Attributes are sorted already.
  void attributes(Message& out, uint32_t tag, const Attributes& all) {
    for (const auto& [name, constant] : all) {
      wire::at_place([&] { return fmt::format("attribute '{}'", name); },
                     [&] {
                       Message item;
                       item.text(1, name);
                       item.data(2, encode_constant(constant, place_));
                       out.message(tag, item);
                     });
    }
  }

  Message named_value(const Value& value, const Type& type) {
    Message out;
    out.text(1, value.name);
    out.data(2, encode_type(type));
    out.raw(value.extra);
    return out;
  }

  Message function(const Function& function) {
    Message out;
    for (const auto& input : function.inputs) out.message(1, named_value(*input, input->type));
    const std::string opset(opset_info(function.opset).file_name);
    out.text(2, opset);
    out.message(3, entry(opset, block(function.body)));
    attributes(out, 4, function.attributes);
    out.raw(function.extra);
    return out;
  }

  Message block(const Block& block) {
    Message out;
    for (const auto& input : block.inputs) out.message(1, named_value(*input, input->type));
    for (const Value* output : block.outputs) out.data(2, output->name);
    for (const auto& op : block.ops)
      wire::at_place([&] { return fmt::format("op '{}' ({})", op->name(), op->type); },
                     [&] { out.message(3, operation(*op)); });
    attributes(out, 4, block.attributes);
    out.raw(block.extra);
    return out;
  }

  Message operation(const Operation& op) {
    Message out;
    out.text(1, op.type);
    std::vector<const Input*> sorted;
    for (const Input& input : op.inputs) sorted.push_back(&input);
    std::ranges::sort(sorted, {}, [](const Input* input) -> const std::string& { return input->name; });
    for (const Input* input : sorted) {
      wire::at_place([&] { return fmt::format("input '{}'", input->name); },
                     [&] { out.message(2, entry(input->name, argument(*input))); });
    }
    for (const auto& output : op.outputs) out.message(3, named_value(*output, output_type(op, *output)));
    for (const auto& inner : op.blocks) out.message(4, block(*inner));
    attributes(out, 5, op.attributes);
    out.raw(op.extra);
    return out;
  }

  // A source may fix its type (how many values are not zero) only while the package is written.
  static const Type& output_type(const Operation& op, const Value& output) {
    if (op.type == "const")
      if (const auto it = op.attributes.find("val"); it != op.attributes.end())
        if (const auto* source = std::get_if<Constant::Source>(&it->second.data)) return (*source)->type();
    return output.type;
  }

  Message argument(const Input& input) {
    Message out;
    for (const Binding& binding : input.bindings) {
      Message item;
      if (binding.value)
        item.data(1, binding.value->name);
      else
        item.data(2, encode_constant(*binding.literal, place_));
      item.raw(binding.extra);
      out.message(1, item);
    }
    out.raw(input.extra);
    return out;
  }

  const BlobPlacer& place_;
};

}  // namespace

std::string encode_program(const Program& program, const BlobPlacer& place) {
  return wire::at_place([] { return std::string("program"); },
                        [&] { return ProgramWriter(place).program(program).bytes(); });
}

}  // namespace anemone
