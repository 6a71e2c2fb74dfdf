#include "check/known_values.h"

namespace anemone {
namespace {

// Names of our own cache operations: "k_12_old". Others count what they call k and v.
bool cache_word(std::string_view rest) {
  for (const char* word : {"old", "kept", "placed", "full", "write", "padded", "layer"})
    if (rest == word) return true;
  return false;
}

bool number_token(std::string_view token) {
  return !token.empty() && token.size() <= 4 &&
         token.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

KnownValues::KnownValues(const BundleInfo& info, std::string_view package, const Program& program) {
  for (const Stage& stage : info.stages) {
    if (stage.package != package) continue;
    for (const Tap& tap : stage.taps) taps_.insert_or_assign(tap.value, tap);
    if (stage.has_layers()) continue;
    for (const StageFunction& f : stage.functions)
      for (const Port& in : f.interface.inputs)
        if (in.role.kind == Role::Kind::stream)  // what the layers give to a head
          taps_.insert_or_assign(in.name, Tap{in.name, "final_norm", -1, 1});
  }
  for (const auto& function : program.functions) add_layers(*function);
}

// Backwards through the body, so that the end of a layer is met before its operations.
void KnownValues::add_layers(const Function& function) {
  std::map<const Operation*, int> layer_of, ends;
  int layer = -1;
  const auto& ops = function.body.ops;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    for (const auto& value : (*op)->outputs)
      if (const Tap* tap = find(value->name); tap && tap->name == "layer_out")
        ends[op->get()] = layer = static_cast<int>(tap->layer);
    layer_of[op->get()] = layer;
  }
  if (ends.empty()) return;
  for (const auto& op : ops)
    for (const Input& input : op->inputs)
      for (const Binding& b : input.bindings) {
        const auto from = layer_of.find(b.value ? b.value->producer : nullptr);
        const int used = layer_of.at(op.get());
        if (from == layer_of.end() || ends.contains(from->first) || used < 0) continue;
        if (from->second != used) from->second = -1;
      }
  for (const auto& [op, found] : layer_of) layers_.insert_or_assign(op->name(), found);
}

const Tap* KnownValues::find(std::string_view value) const {
  const auto it = taps_.find(value);
  return it == taps_.end() ? nullptr : &it->second;
}

int KnownValues::layer_of(std::string_view op) const {
  if (layers_.empty()) return layer_in_name(op);
  const auto it = layers_.find(op);
  return it == layers_.end() ? -1 : it->second;
}

int layer_in_name(std::string_view name) {
  std::string_view before;
  while (!name.empty()) {
    const size_t end = name.find_first_of("_./");
    const std::string_view token = name.substr(0, end);
    const std::string_view rest = end == std::string_view::npos ? "" : name.substr(end + 1);
    const bool named = before == "layer" || before == "layers" || before == "block" || before == "blocks" ||
                       before == "blk" || before == "h" ||
                       ((before == "k" || before == "v") && cache_word(rest));
    if (named && number_token(token)) return std::stoi(std::string(token));
    if (token.size() > 1 && token[0] == 'l' && number_token(token.substr(1)))
      return std::stoi(std::string(token.substr(1)));
    before = token;
    name = rest;
  }
  return -1;
}

}  // namespace anemone
