#include "package/weight_places.h"

namespace anemone {
namespace {

class Walker {
 public:
  explicit Walker(const WeightLayout& layout) : layout_(layout) {}

  std::vector<WeightPlace> walk(const Program& program) && {
    for (const auto& function : program.functions) {
      function_ = function->name;
      block(function->body);
      attributes(function->attributes);
    }
    function_.clear();
    attributes(program.attributes);
    return std::move(out_);
  }

 private:
  void add(const std::string& value, const std::string& param, const Constant& constant) {
    if (const auto it = layout_.blob_of.find(&constant); it != layout_.blob_of.end()) {
      const FileBlob& blob = layout_.blobs[it->second];
      out_.push_back({function_, value, param, std::string(kWeightFile), blob.data_offset(), blob.bytes});
    }
    if (const auto* items = std::get_if<Constant::Items>(&constant.data))
      for (const Constant& item : *items) add(value, param, item);
  }

  void attributes(const Attributes& all) {
    for (const auto& [name, constant] : all) add("", name, constant);
  }

  void block(const Block& block) {
    for (const auto& op : block.ops) operation(*op);
    attributes(block.attributes);
  }

  void operation(const Operation& op) {
    const std::string value = op.outputs.empty() ? "" : op.outputs[0]->name;
    const bool is_const = op.type == "const", is_constexpr = op.type.starts_with("constexpr_");
    for (const Input& input : op.inputs)
      for (const Binding& binding : input.bindings)
        if (const Constant* constant = binding.constant(); constant && (binding.literal || is_constexpr))
          add(value, input.name, *constant);
    for (const auto& inner : op.blocks) block(*inner);
    for (const auto& [name, constant] : op.attributes)
      add(value, is_const && name == "val" ? "" : name, constant);
  }

  const WeightLayout& layout_;
  std::string function_;
  std::vector<WeightPlace> out_;
};

}  // namespace

std::vector<WeightPlace> weight_places(const Program& program, const WeightLayout& layout) {
  return Walker(layout).walk(program);
}

const WeightPlace* WriteReport::find(std::string_view function, std::string_view value,
                                     std::string_view param) const {
  for (const WeightPlace& place : places)
    if (place.value == value && place.param == param && place.function == function) return &place;
  return nullptr;
}

}  // namespace anemone
