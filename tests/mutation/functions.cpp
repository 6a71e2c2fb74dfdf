// One function of a package is wrong where the others are right; functions in each other's place.
#include "base/error.h"
#include "mutation/graph.h"

namespace anemone::mutation {
namespace {

// Any change of a program, in one function alone: a chunk, a tier.
void in_one_function(const Subject& subject, Rng& rng, std::vector<Mutation>& out) {
  using Sites = std::vector<GraphSite> (*)(const Subject&, Rng&);
  constexpr std::pair<const char*, Sites> kAll[] = {
      {"constants", constant_graph_sites}, {"wiring", wiring_graph_sites}, {"ops", op_graph_sites},
      {"masks", mask_graph_sites},         {"states", state_graph_sites},  {"padding", padding_graph_sites}};
  for (const auto& [group, sites] : kAll) {
    for (GraphSite site : sites(subject, rng)) {
      const auto& functions = subject.packages.at(site.package)->program.functions;
      if (functions.size() < 2) continue;
      const std::string only =
          functions[static_cast<size_t>(rng.below(static_cast<int64_t>(functions.size())))]->name;
      site.kind = fmt::format("one function: {}", group);
      site.more_places.push_back(only);
      out.push_back(mutation_of("functions", subject, site, only));
    }
  }
}

void exchanged_functions(const Subject& subject, std::vector<Mutation>& out) {
  for (const auto& [package, opened] : subject.packages) {
    const auto& functions = opened->program.functions;
    for (size_t i = 0; i + 1 < functions.size(); ++i) {
      const std::string a = functions[i]->name, b = functions[i + 1]->name;
      Mutation m;
      m.group = "functions";
      m.kind = "two functions exchanged";
      m.place = fmt::format("{} {} and {}", package, a, b);
      m.expected = {{a, b, package}, 6};
      m.apply = [=, package = package](Workspace& w) {
        w.edit_package(package, [&](Package& p) {
          std::swap(p.program.find_function(a)->name, p.program.find_function(b)->name);
          p.description = [&] {
            Description d = description_of(p.program);
            d.metadata = p.description.metadata;
            return d;
          }();
        });
      };
      out.push_back(std::move(m));
    }
  }
}

}  // namespace

std::vector<Mutation> function_sites(const Subject& subject, Rng& rng) {
  std::vector<Mutation> out;
  in_one_function(subject, rng, out);
  exchanged_functions(subject, out);
  return out;
}

}  // namespace anemone::mutation
