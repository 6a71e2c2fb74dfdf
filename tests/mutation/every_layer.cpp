// The same fault in every layer, as a mistake in a lowering makes it.
#include <map>
#include <set>

#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// A text without the number of the layer: "l3_q_scaled" and "l4_q_scaled" are alike.
std::string without_layer(const std::string& text, int64_t layer) {
  const std::string number = std::to_string(layer);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool starts = at == 0 || !std::isdigit(static_cast<unsigned char>(text[at - 1]));
    const size_t end = at + number.size();
    const bool ends = end >= text.size() || !std::isdigit(static_cast<unsigned char>(text[end]));
    if (starts && ends && text.compare(at, number.size(), number) == 0) {
      out += '#';
      at = end;
    } else {
      out += text[at++];
    }
  }
  return out;
}

Mutation joined(const Subject& subject, const std::string& group, const std::vector<GraphSite>& sites) {
  Mutation m = mutation_of("every layer", subject, sites.front());
  m.kind = fmt::format("{}: {}", group, sites.front().kind);
  m.place = "all like " + m.place;
  std::map<std::string, std::vector<Change>> changes;
  for (const GraphSite& site : sites) {
    changes[site.package].push_back(site.change);
    for (std::string& place : places_of(subject, site.package, site.op))
      m.expected.places.push_back(std::move(place));
  }
  m.apply = [changes](Workspace& w) {
    for (const auto& [package, all] : changes)
      w.edit_program(package, [&](Program& program) {
        bool changed = false;
        for (const auto& f : program.functions)
          for (const Change& change : all) changed = change(*f) || changed;
        if (!changed) throw NotApplicable{"no function has it"};
      });
  };
  return m;
}

}  // namespace

std::vector<Mutation> every_layer_sites(const Subject& subject, Rng& rng) {
  using Sites = std::vector<GraphSite> (*)(const Subject&, Rng&);
  constexpr std::pair<const char*, Sites> kAll[] = {{"constants", constant_graph_sites},
                                                    {"wiring", wiring_graph_sites},
                                                    {"ops", op_graph_sites},
                                                    {"masks", mask_graph_sites},
                                                    {"padding", padding_graph_sites}};
  std::vector<Mutation> out;
  for (const auto& [group, sites] : kAll) {
    std::map<std::string, std::vector<GraphSite>> alike;
    for (GraphSite& site : sites(subject, rng)) {
      const int64_t layer = layer_of(site.op);
      if (layer < 0) continue;
      const std::string key = fmt::format("{}|{}|{}", site.kind, without_layer(site.op, layer),
                                          without_layer(site.detail, layer));
      alike[key].push_back(std::move(site));
    }
    for (const auto& [key, found] : alike) {
      std::set<int64_t> layers;
      for (const GraphSite& site : found) layers.insert(layer_of(site.op));
      if (layers.size() > 1) out.push_back(joined(subject, group, found));
    }
  }
  return out;
}

}  // namespace anemone::mutation
