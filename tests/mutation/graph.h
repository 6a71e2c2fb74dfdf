// What mutations of programs share: walking operations, putting values in the place of others, naming the place.
//     each_op(subject, [&](const std::string& package, const Function& f, const Operation& op) { … });
//     GraphSite site{"dropped", package, op.name(), "", [](Function& f) { return drop(f, "l1_q_scaled"); }};
//     Mutation m = mutation_of("ops", subject, site);
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mil/builder.h"
#include "mutation/mutation.h"

namespace anemone::mutation {

// Changes a function; false where it has nothing to change.
using Change = std::function<bool(Function&)>;

struct GraphSite {
  std::string kind, package;
  std::string op;      // the operation at fault, by its name
  std::string detail;  // for people; may be empty
  Change change;
  std::vector<std::string> more_places = {};  // words that name the place, too
};

// In every function of the package, or in `only` one.
Mutation mutation_of(std::string_view group, const Subject& subject, const GraphSite& site,
                     const std::string& only = "");
std::vector<Mutation> mutations_of(std::string_view group, const Subject& subject,
                                   const std::vector<GraphSite>& sites);

// The groups whose changes can be made in one function alone.
std::vector<GraphSite> constant_graph_sites(const Subject& subject, Rng& rng);
std::vector<GraphSite> wiring_graph_sites(const Subject& subject, Rng& rng);
std::vector<GraphSite> op_graph_sites(const Subject& subject, Rng& rng);
std::vector<GraphSite> mask_graph_sites(const Subject& subject, Rng& rng);
std::vector<GraphSite> state_graph_sites(const Subject& subject, Rng& rng);
std::vector<GraphSite> padding_graph_sites(const Subject& subject, Rng& rng);

// Every operation of every package, once by its name: functions of a package share most names.
void each_op(
    const Subject& subject,
    const std::function<void(const std::string& package, const Function& f, const Operation& op)>& visit);

Operation* find_op(Function& function, std::string_view name);
// A result or an input of the function.
Value* find_value(Function& function, std::string_view name);
// The value with this role in a function of bundle.json; nothing where the function has none.
std::string port_name(const Subject& subject, const std::string& package, const std::string& function,
                      Role::Kind kind);

// "layer N" for the first layer that takes an input of these roles and this index.
std::vector<std::string> layers_with(const Subject& subject, std::initializer_list<Role::Kind> kinds,
                                     size_t index);
// The layer that a name of the lowering says ("l3_q_scaled", "attn_out_3"), or -1.
int64_t layer_of(std::string_view name);
// The words by which a report may name this value or operation of the package.
std::vector<std::string> places_of(const Subject& subject, const std::string& package,
                                   const std::string& name);

// The same for the weight that a byte of a package's weight file belongs to; nothing for other files.
std::vector<std::string> weight_names_at(const Subject& subject, const std::string& file, size_t byte);

// Makes the operation give its input `x` as it is.
bool drop(Operation& op, std::string_view input);
// What `make` builds from `old` takes its place in all users, with its name, as if the operation gave it; or in one.
using Make = std::function<Value*(Builder& b, Value* old)>;
bool put_behind(Function& function, Value* old, const Make& make, const Operation* only_user = nullptr);

// Whether the operation's declared results are what its type rule gives.
bool types_hold(const Operation& op, Opset opset);

}  // namespace anemone::mutation
