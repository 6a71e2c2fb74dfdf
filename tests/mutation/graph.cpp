#include "mutation/graph.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "mil/verify.h"

namespace anemone::mutation {
namespace {

constexpr int kLastGraphRung = 4;  // behind it only made text is looked at

void rename(Value& value, const std::string& name) {
  value.name = name;
  if (!value.producer) return;
  const auto it = value.producer->attributes.find("name");
  if (it != value.producer->attributes.end()) it->second = Constant::text(name);
}

// Rebinds the uses of a value in one operation.
bool rebind(Operation& op, const Value* from, Value* to) {
  bool changed = false;
  for (Input& in : op.inputs)
    for (Binding& b : in.bindings)
      if (b.value == from) {
        b.value = to;
        changed = true;
      }
  return changed;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string_view> words(std::string_view name) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('_', at), name.size());
    out.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

int64_t first_with_cache(const Stage& stage) {
  int64_t least = stage.last_layer;
  const FunctionInterface& all = stage.functions.front().interface;
  for (const auto* ports : {&all.states, &all.inputs})
    for (const Port& port : *ports)
      if (port.role.kind == Role::Kind::keys)
        for (const int64_t layer : port.role.layers) least = std::min(least, layer);
  return least;
}

// The numbers that an operation takes: a report may name one of them.
std::vector<std::string> constants_of(const Package& package, const std::string& op) {
  std::vector<std::string> out;
  for (const auto& f : package.program.functions)
    for (const auto& found : f->body.ops) {
      if (found->name() != op) continue;
      for (const Input& in : found->inputs)
        for (const Binding& b : in.bindings)
          if (b.value && b.value->constant()) out.push_back(b.value->name);
      return out;
    }
  return out;
}

}  // namespace

Mutation mutation_of(std::string_view group, const Subject& subject, const GraphSite& site,
                     const std::string& only) {
  Mutation m;
  m.group = group;
  m.kind = site.kind;
  m.place = fmt::format("{} {}{}{}{}", site.package, only.empty() ? "" : only + " ", site.op,
                        site.detail.empty() ? "" : ": ", site.detail);
  m.expected = {places_of(subject, site.package, site.op), kLastGraphRung};
  m.expected.places.insert(m.expected.places.end(), site.more_places.begin(), site.more_places.end());
  for (const std::string& constant : constants_of(*subject.packages.at(site.package), site.op))
    m.expected.places.push_back(constant);
  m.apply = [package = site.package, only, change = site.change](Workspace& w) {
    w.edit_program(package, [&](Program& program) {
      bool changed = false;
      for (const auto& f : program.functions)
        if (only.empty() || f->name == only) changed = change(*f) || changed;
      if (!changed) throw NotApplicable{"no function has it"};
    });
  };
  return m;
}

std::vector<Mutation> mutations_of(std::string_view group, const Subject& subject,
                                   const std::vector<GraphSite>& sites) {
  std::vector<Mutation> out;
  out.reserve(sites.size());
  for (const GraphSite& site : sites) out.push_back(mutation_of(group, subject, site));
  return out;
}

void each_op(const Subject& subject,
             const std::function<void(const std::string&, const Function&, const Operation&)>& visit) {
  for (const auto& [name, package] : subject.packages) {
    std::set<std::string> seen;
    for (const auto& f : package->program.functions)
      for (const auto& op : f->body.ops)
        if (seen.insert(op->name()).second) visit(name, *f, *op);
  }
}

Operation* find_op(Function& function, std::string_view name) {
  for (const auto& op : function.body.ops)
    if (op->name() == name) return op.get();
  return nullptr;
}

Value* find_value(Function& function, std::string_view name) {
  for (const auto& input : function.inputs)
    if (input->name == name) return input.get();
  for (const auto& op : function.body.ops)
    for (const auto& value : op->outputs)
      if (value->name == name) return value.get();
  return nullptr;
}

std::string port_name(const Subject& subject, const std::string& package, const std::string& function,
                      Role::Kind kind) {
  for (const StageFunction& f : subject.stage_of(package).functions)
    if (f.name == function)
      if (const Port* port = f.find_input(kind)) return port->name;
  return "";
}

std::vector<std::string> layers_with(const Subject& subject, std::initializer_list<Role::Kind> kinds,
                                     size_t index) {
  int64_t least = -1;
  for (const Stage& stage : subject.info.stages) {
    const StageFunction& f = stage.functions.front();
    const Function* function = subject.packages.at(stage.package)->program.find_function(f.name);
    for (const Port& port : f.interface.inputs) {
      if (!function || port.role.index != index ||
          std::find(kinds.begin(), kinds.end(), port.role.kind) == kinds.end())
        continue;
      for (const auto& op : function->body.ops)
        for (const Input& in : op->inputs)
          for (const Binding& b : in.bindings)
            if (const int64_t layer = layer_of(op->name());
                b.value && b.value->name == port.name && layer >= 0 && (least < 0 || layer < least))
              least = layer;
    }
  }
  if (least < 0) return {};
  return {fmt::format("layer {}", least)};
}

int64_t layer_of(std::string_view name) {
  const std::vector<std::string_view> parts = words(name);
  if (parts[0].size() > 1 && parts[0][0] == 'l' && is_number(parts[0].substr(1)))
    return std::stoll(std::string(parts[0].substr(1)));
  static const std::set<std::string_view> kOutside = {"logits", "head", "best",  "high", "low",
                                                      "begin",  "end",  "final", "cos",  "sin"};
  if (kOutside.contains(parts[0])) return -1;
  for (const std::string_view part : parts)
    if (is_number(part)) return std::stoll(std::string(part));
  return -1;
}

std::vector<std::string> places_of(const Subject& subject, const std::string& package,
                                   const std::string& name) {
  std::vector<std::string> out{name};
  const Stage& stage = subject.stage_of(package);
  const int64_t layer = layer_of(name);
  const std::string first(words(name)[0]);
  static const std::set<std::string> kHead = {"logits", "head", "best", "high", "low", "classes", "pooled"};
  if (stage.kind == StageKind::experts) {
    const std::vector<std::string_view> parts = words(name);  // "l1", "e5", "gate"
    const bool one =
        parts.size() > 1 && parts[1].size() > 1 && parts[1][0] == 'e' && is_number(parts[1].substr(1));
    out.push_back(one ? fmt::format("expert {}", parts[1].substr(1))
                      : fmt::format("layer {}", stage.first_layer));
  } else if (!stage.has_layers() || (layer < 0 && kHead.contains(first)))
    out.insert(out.end(), {"head", "logits", "classes"});
  else if (layer >= 0)
    out.push_back(fmt::format("layer {}", layer));
  else if (first == "embed")
    out.push_back("embedding");
  else if (first == "y" ||
           first == "final")  // the end of a stage's last layer, or the norm behind all layers
    out.insert(out.end(),
               {"final norm", "final_norm", "head", fmt::format("layer {}", stage.last_layer - 1)});
  else  // what all layers share serves the cache, and shows in the first that has one
    out.insert(out.end(), {"cache", "rows", "row", fmt::format("layer {}", first_with_cache(stage))});
  return out;
}

bool drop(Operation& op, std::string_view input) {
  Input* in = op.input(input);
  if (!in || in->bindings.size() != 1 || op.outputs.size() != 1 || op.type == "identity") return false;
  if (!(in->bindings[0].type() == op.outputs[0]->type)) return false;
  const Binding binding = in->bindings[0];
  op.type = "identity";
  op.inputs.clear();
  op.inputs.push_back({"x", {binding}, ""});
  return true;
}

bool put_behind(Function& function, Value* old, const Make& make, const Operation* only_user) {
  if (!old) return false;
  std::vector<std::unique_ptr<Operation>>& ops = function.body.ops;
  const size_t before = ops.size();
  Builder b(function);
  Value* fresh = make(b, old);
  if (!fresh || ops.size() == before) return false;
  size_t place = before;
  for (size_t i = 0; i < before; ++i)
    if ((!only_user || ops[i].get() == only_user) && rebind(*ops[i], old, fresh)) place = std::min(place, i);
  const bool is_output = std::find(function.body.outputs.begin(), function.body.outputs.end(), old) !=
                         function.body.outputs.end();
  if (place == before && (only_user || !is_output)) return false;
  if (!only_user && old->producer) {
    std::replace(function.body.outputs.begin(), function.body.outputs.end(), old, fresh);
    const std::string name = old->name;
    rename(*old, fresh->name);
    rename(*fresh, name);
  }
  std::rotate(ops.begin() + static_cast<ptrdiff_t>(place), ops.begin() + static_cast<ptrdiff_t>(before),
              ops.end());
  return true;
}

bool types_hold(const Operation& op, Opset opset) {
  try {
    const Types types = declared_types(op, opset);
    if (types.size() != op.outputs.size()) return false;
    for (size_t i = 0; i < types.size(); ++i)
      if (!may_be_declared(types[i], op.outputs[i]->type)) return false;
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace anemone::mutation
