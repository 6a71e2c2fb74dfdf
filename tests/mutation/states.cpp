// What is remembered: rows written elsewhere, not at all, or read too early; states of other layers.
#include <algorithm>

#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

Change write_left_out(const std::string& name) {
  return [=](Function& f) {
    return std::erase_if(f.body.ops, [&](const auto& op) { return op->name() == name; }) > 0;
  };
}

Change states_exchanged(const std::string& a_name, const std::string& b_name) {
  return [=](Function& f) {
    Operation *a = find_op(f, a_name), *b = find_op(f, b_name);
    Input *x = a ? a->input("input") : nullptr, *y = b ? b->input("input") : nullptr;
    if (!x || !y || !(x->bindings[0].type() == y->bindings[0].type())) return false;
    std::swap(x->bindings, y->bindings);
    return true;
  };
}

// write_state and read_state of each package, once by their names.
void state_op_sites(const Subject& subject, std::vector<GraphSite>& out) {
  std::vector<std::pair<std::string, std::string>> writes, reads;
  each_op(subject, [&](const std::string& package, const Function&, const Operation& op) {
    if (op.type == "write_state") writes.emplace_back(package, op.name());
    if (op.type == "read_state") reads.emplace_back(package, op.name());
  });
  const std::vector<std::string> words = {"cache", "row", "state"};
  for (const auto& [package, name] : writes)
    out.push_back({"write left out", package, name, "", write_left_out(name), words});
  for (const auto* ops : {&writes, &reads})
    for (size_t i = 0; i + 1 < ops->size(); ++i)
      if ((*ops)[i].first == (*ops)[i + 1].first)
        out.push_back({ops == &writes ? "written to another state" : "read from another state",
                       (*ops)[i].first,
                       (*ops)[i].second,
                       "with " + (*ops)[i + 1].second,
                       states_exchanged((*ops)[i].second, (*ops)[i + 1].second),
                       {"cache", "row", "state"}});
}

bool comes_from(const Operation& op, const Value* value) {
  for (const Input& in : op.inputs)
    for (const Binding& b : in.bindings)
      if (b.value == value) return true;
  return false;
}

// Where rows are put into a cache: the operation whose result has the cache's type and which takes the cache as it was.
// Attention then looks at the old rows.
void update_sites(const Subject& subject, std::vector<GraphSite>& out) {
  each_op(subject, [&](const std::string& package, const Function& f, const Operation& op) {
    if (op.outputs.size() != 1 || op.name().find("_full") == std::string::npos) return;
    const std::string name = op.name();
    const std::string side = name.starts_with("k_") ? "key cache" : "value cache";
    const Value* result = op.outputs[0].get();
    for (const auto& user : f.body.ops) {
      if (user->type == "write_state" || !comes_from(*user, result)) continue;
      out.push_back({"stale rows read",
                     package,
                     name,
                     "by " + user->name(),
                     [name, reader = user->name()](Function& g) {
                       Operation *update = find_op(g, name), *looks = find_op(g, reader);
                       if (!update || !looks) return false;
                       Value* old = update->value("x");
                       for (int depth = 0; old && depth < 2 && !(old->type == update->outputs[0]->type);
                            ++depth)
                         old = old->producer ? old->producer->value("x") : nullptr;
                       if (!old || !(old->type == update->outputs[0]->type)) return false;
                       // The blend's first part is what is kept; what was there before stands behind it.
                       if (old->producer && old->producer->type == "mul" && old->producer->value("x"))
                         old = old->producer->value("x");
                       bool changed = false;
                       for (Input& in : looks->inputs)
                         for (Binding& b : in.bindings)
                           if (b.value == update->outputs[0].get()) b.value = old, changed = true;
                       return changed;
                     },
                     {side}});
    }
    const auto fading = [&](const char* kind, float factor) {
      out.push_back({kind,
                     package,
                     name,
                     "",
                     [=](Function& g) {
                       Operation* update = find_op(g, name);
                       Value* kept = update ? update->value("x") : nullptr;
                       return kept &&
                              put_behind(
                                  g, kept,
                                  [&](Builder& b, Value* old) {
                                    return b.op(
                                        "mul", {{"x", old}, {"y", Constant::number(factor, old->type.dtype)}},
                                        "fading");
                                  },
                                  update);
                     },
                     {side}});
    };
    fading("old rows fade", 0.98f);
    fading("old rows forgotten", 0);
  });
}

// The one-hot matrix that says where rows go, changed by rows.
Change on_write(const std::string& input, const std::function<float(int64_t row, int64_t rows)>& factor) {
  return [=](Function& f) {
    return put_behind(f, find_value(f, input), [&](Builder& b, Value* old) -> Value* {
      if (!old->type.shape[2].known()) return nullptr;
      const int64_t rows = old->type.shape[2].size();
      std::vector<float> values;
      for (int64_t r = 0; r < rows; ++r) values.push_back(factor(r, rows));
      if (std::all_of(values.begin(), values.end(), [](float v) { return v == 1; })) return nullptr;
      Value* by = b.constant(Constant::numbers(values, old->type.dtype, {1, 1, rows, 1}), "rows_written");
      return b.op("mul", {{"x", old}, {"y", by}}, "write_wrong");
    });
  };
}

Value* row_further(Builder& b, Value* old) {
  if (old->type.dtype == DType::int32)
    return b.op("add", {{"x", old}, {"y", Constant::ints({1})}}, "position_further");
  const Shape& shape = old->type.shape;
  if (!shape[2].known() || !shape[3].known()) return nullptr;
  const int64_t rows = shape[2].size(), tokens = shape[3].size();
  Value* head = b.op("slice_by_size",
                     {{"x", old},
                      {"begin", Constant::ints({0, 0, 0, 0})},
                      {"size", Constant::ints({1, 1, rows - 1, tokens})}},
                     "write_head");
  Value* none = b.constant(
      Constant::numbers(std::vector<float>(static_cast<size_t>(tokens)), old->type.dtype, {1, 1, 1, tokens}),
      "write_none");
  return b.op("concat",
              {{"values", std::vector<Value*>{none, head}},
               {"axis", Constant::integer(2)},
               {"interleave", Constant::boolean(false)}},
              "write_further");
}

void where_sites(const Subject& subject, Rng& rng, std::vector<GraphSite>& out) {
  const std::vector<std::string> words = {"cache", "row"};
  for (const Stage& stage : subject.info.stages) {
    const std::string& function = stage.functions.front().name;
    for (const Role::Kind kind : {Role::Kind::write, Role::Kind::position}) {
      const std::string input = port_name(subject, stage.package, function, kind);
      if (input.empty()) continue;
      out.push_back({"written one row further", stage.package, input, "",
                     [=](Function& f) { return put_behind(f, find_value(f, input), row_further); }, words});
      if (kind == Role::Kind::position) continue;
      const int64_t one = rng.below(stage.functions.front().context);
      const auto add = [&](const char* name, const std::function<float(int64_t, int64_t)>& factor) {
        out.push_back({name, stage.package, input, "", on_write(input, factor), words});
      };
      add("rows from 64 on not written", [](int64_t r, int64_t) { return r < 64 ? 1.0f : 0.0f; });
      add("last row not written", [](int64_t r, int64_t n) { return r + 1 < n ? 1.0f : 0.0f; });
      add("one row not written", [one](int64_t r, int64_t) { return r == one ? 0.0f : 1.0f; });
      add("half of each row written", [](int64_t, int64_t) { return 0.5f; });
    }
  }
}

// In bundle.json: the host takes one state for another.
void role_sites(const Subject& subject, std::vector<Mutation>& out) {
  for (size_t s = 0; s < subject.info.stages.size(); ++s)
    for (size_t f = 0; f < subject.info.stages[s].functions.size(); ++f)
      for (const char* side : {"states", "inputs", "outputs"}) {
        const Json& function = subject.json.at("stages").at(s).at("functions").at(f);
        if (!function.contains(side)) continue;
        const Json& ports = function.at(side);
        for (size_t i = 0; i + 1 < ports.size(); ++i) {
          if (!ports[i].contains("layers") || !ports[i + 1].contains("layers")) continue;
          Mutation m;
          m.group = "states";
          m.kind = "names of two memories exchanged";
          m.place = fmt::format("bundle.json stages[{}].functions[{}].{}[{}]", s, f, side, i);
          m.expected = {{"cache", "row", "state", ports[i].at("name").get<std::string>(),
                         fmt::format("layer {}", ports[i].at("layers").at(0).get<int64_t>())},
                        4};
          m.apply = [=, side = std::string(side)](Workspace& w) {
            w.edit_info([&](Json& info) {
              Json& all = info.at("stages").at(s).at("functions").at(f).at(side);
              std::swap(all.at(i).at("name"), all.at(i + 1).at("name"));
            });
          };
          out.push_back(std::move(m));
        }
      }
}

}  // namespace

std::vector<GraphSite> state_graph_sites(const Subject& subject, Rng& rng) {
  std::vector<GraphSite> out;
  state_op_sites(subject, out);
  update_sites(subject, out);
  where_sites(subject, rng, out);
  return out;
}

std::vector<Mutation> state_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out = mutations_of("states", subject, state_graph_sites(subject, rng));
  role_sites(subject, out);
  return out;
}

}  // namespace anemone::mutation
