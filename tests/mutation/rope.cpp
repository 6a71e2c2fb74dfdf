// Rotations: the tables in bundle.json, and where the program uses cos and sin.
#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

void table_sites_of(const Subject& subject, Rng& rng, std::vector<Mutation>& out) {
  const auto add = [&](size_t index, const std::string& kind, const std::string& place,
                       const std::function<void(Json&)>& change) {
    Mutation m;
    m.group = "rope";
    m.kind = kind;
    m.place = "bundle.json " + place;
    m.expected = {layers_with(subject, {Role::Kind::cos, Role::Kind::sin}, index), 4};
    m.expected.places.insert(m.expected.places.end(),
                             {"rope", "ropes", "rotation", "frequencies", "frequency", "attention_factor"});
    m.apply = [=](Workspace& w) { w.edit_info(change); };
    out.push_back(std::move(m));
  };
  for (size_t i = 0; i < subject.info.ropes.size(); ++i) {
    const std::string at = fmt::format("ropes[{}]", i);
    for (const char* key : {"frequencies", "long_frequencies"}) {
      const Json& rope = subject.json.at("ropes").at(i);
      if (!rope.contains(key)) continue;
      const auto n = static_cast<int64_t>(rope.at(key).size());
      const auto k = static_cast<size_t>(rng.below(n));
      const std::string place = fmt::format("{}.{}", at, key);
      add(i, "one frequency times 1.05", fmt::format("{}[{}]", place, k), [=](Json& info) {
        Json& f = info.at("ropes").at(i).at(key).at(k);
        f = f.get<double>() * 1.05;
      });
      add(i, "all frequencies times 1.02", place, [=](Json& info) {
        for (Json& f : info.at("ropes").at(i).at(key)) f = f.get<double>() * 1.02;
      });
      if (n > 1)
        add(i, "two frequencies swapped", place, [=](Json& info) {
          Json& all = info.at("ropes").at(i).at(key);
          std::swap(all.at(k), all.at((k + 1) % static_cast<size_t>(n)));
        });
      add(i, "a frequency zeroed", place, [=](Json& info) { info.at("ropes").at(i).at(key).at(k) = 0.0; });
    }
    add(i, "attention factor times 1.05", at, [=](Json& info) {
      Json& f = info.at("ropes").at(i).at("attention_factor");
      f = f.get<double>() * 1.05;
    });
    if (!subject.info.ropes[i].long_frequencies.empty()) {
      add(i, "long and short table exchanged", at, [=](Json& info) {
        Json& rope = info.at("ropes").at(i);
        std::swap(rope.at("frequencies"), rope.at("long_frequencies"));
      });
      add(i, "long table is the short one", at, [=](Json& info) {
        Json& rope = info.at("ropes").at(i);
        rope["long_frequencies"] = rope.at("frequencies");
      });
      add(i, "long table left out", at,
          [=](Json& info) { info.at("ropes").at(i).erase("long_frequencies"); });
      for (const double factor : {0.5, 2.0})
        add(i, "original context wrong", at, [=](Json& info) {
          Json& n = info.at("ropes").at(i).at("original_context");
          n = static_cast<int64_t>(n.get<double>() * factor);
        });
    }
  }
  if (subject.info.ropes.size() > 1)
    add(0, "two ropes exchanged", "ropes",
        [](Json& info) { std::swap(info.at("ropes").at(0), info.at("ropes").at(1)); });
}

bool takes(const Operation& op, const std::string& name) {
  for (const Input& in : op.inputs)
    for (const Binding& b : in.bindings)
      if (b.value && b.value->name == name) return true;
  return false;
}

// One use of cos or sin takes what `make` gives instead.
void graph_sites_of(const Subject& subject, std::vector<GraphSite>& out) {
  for (const Stage& stage : subject.info.stages) {
    const StageFunction& f = stage.functions.front();
    const Function* function = subject.packages.at(stage.package)->program.find_function(f.name);
    for (const Port& port : f.interface.inputs) {
      const bool cosine = port.role.kind == Role::Kind::cos;
      if (!function || (!cosine && port.role.kind != Role::Kind::sin)) continue;
      for (const auto& op : function->body.ops) {
        if (!takes(*op, port.name)) continue;
        const auto add = [&](const char* kind, const Make& make) {
          out.push_back({kind,
                         stage.package,
                         op->name(),
                         port.name,
                         [input = port.name, name = op->name(), make](Function& g) {
                           const Operation* user = find_op(g, name);
                           return user && put_behind(g, find_value(g, input), make, user);
                         },
                         {"rotation", "rope"}});
        };
        add("negated", [](Builder& b, Value* old) {
          return b.op("mul", {{"x", old}, {"y", Constant::number(-1, old->type.dtype)}}, "negated");
        });
        add("times 1.05", [](Builder& b, Value* old) {
          return b.op("mul", {{"x", old}, {"y", Constant::number(1.05f, old->type.dtype)}}, "scaled");
        });
        // Only the fastest half is rotated.
        add("slow pairs left out", [cosine](Builder& b, Value* old) -> Value* {
          const int64_t pairs = old->type.shape.back().known() ? old->type.shape.back().size() : 0;
          if (pairs < 2) return nullptr;
          std::vector<float> keep(static_cast<size_t>(pairs)), rest(keep.size());
          for (size_t i = 0; i < keep.size(); ++i) {
            keep[i] = i < keep.size() / 2 ? 1 : 0;
            rest[i] = cosine ? 1 - keep[i] : 0;
          }
          const auto row = [&](const std::vector<float>& v, const char* name) {
            return b.constant(Constant::numbers(v, old->type.dtype, {1, 1, 1, pairs}), name);
          };
          Value* keep_row = row(keep, "rotated_pairs");
          Value* rest_row = row(rest, "other_pairs");
          Value* fast = b.op("mul", {{"x", old}, {"y", keep_row}}, "fast");
          return b.op("add", {{"x", fast}, {"y", rest_row}}, "partial");
        });
      }
    }
  }
}

}  // namespace

std::vector<Mutation> rope_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out;
  table_sites_of(subject, rng, out);
  std::vector<GraphSite> sites;
  graph_sites_of(subject, sites);
  for (Mutation& m : mutations_of("rope", subject, sites)) out.push_back(std::move(m));
  return out;
}

}  // namespace anemone::mutation
