// Mutation: one change of a bundle that a faulty converter, a bad disk or a careless hand could make.
//     for (const Group& group : all_groups())
//       for (const Mutation& m : group.sites(subject, rng)) m.apply(workspace);
// A group gives every site where it can change a subject; where a site has many elements, the seed chooses.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mutation/rng.h"
#include "mutation/workspace.h"

namespace anemone::mutation {

// What a good report of the fault says.
struct Expected {
  std::vector<std::string> places;  // one of these words stands in the reason
  int last_rung = 6;                // the rung that finds it is at most this
};

// When a mutant matters.
enum class Counts {
  results,    // the next token's distribution changes, or the text
  any_bit,    // any number that comes out changes: a damaged file
  what_loads  // always: Core ML would refuse the package
};

struct Mutation {
  std::string group, kind;  // "weights", "row negated"
  std::string place;        // for people: "layers_00.mlpackage l0_q_weight row 12"
  Expected expected;
  std::vector<int32_t> ids;  // tokens whose rows it touches: only a text that has them shows it
  Counts counts = Counts::results;
  bool rehash = true;  // the converter was at fault, so sizes and hashes fit
  std::function<void(Workspace&)> apply;
};

struct Group {
  std::string_view name;
  std::vector<Mutation> (*sites)(const Subject& subject, Rng& rng);
};

std::span<const Group> all_groups();

// One file each.
std::vector<Mutation> weight_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> table_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> constant_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> wiring_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> op_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> mask_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> rope_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> state_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> every_layer_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> function_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> padding_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> info_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> text_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> file_sites(const Subject& subject, Rng& rng);
std::vector<Mutation> description_sites(const Subject& subject, Rng& rng);

}  // namespace anemone::mutation
