// FunctionInterface: the inputs, states and outputs of a function, each with its role. The lowering returns it with the
// program, bundle.json stores it, and code that runs the function uses the roles: nobody has to know names.
//     FunctionInterface i = build_layers(program, "main", model, weights, spec);
//     for (const Port& in : i.inputs) if (in.role.kind == Role::Kind::mask) fill(in.name, masks[in.role.index]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "families/weight_ref.h"

namespace anemone {

// Added to the scores that a token must not see: -inf would break softmax on the device.
inline constexpr float kMaskedOut = -10000.0f;
// The index of the best row comes as two numbers, high * 128 + low: fp16 holds no larger whole numbers exactly.
inline constexpr int64_t kIndexBase = 128;

struct Role {
  enum class Kind {
    stream,   // the residual stream [1, hidden, T, 1]
    carried,  // what else a stage hands to the next: of the routers, [1, width, T, 1]
    cos,      // of rope `index`: [1, 1, T, pairs]
    sin,
    mask,      // `index` of the bundle's masks: [1, 1, T, S] or [1, 1, 1, T]; 0 or kMaskedOut
    write,     // [1, 1, S, T]: 1 where row s of the cache takes token t
    position,  // int32 [1]: the row of the cache that the first token goes to
    keys,      // the cache of `layers`: [layers, kv_heads, S, width]
    values,
    new_keys,  // rows for the cache that the host keeps: [1, kv_heads, T, head_dim]
    new_values,
    recurrent,  // state `index` (its slot) of those that a layer keeps of all tokens so far: [1, 1, R, width]
    new_recurrent,  // the same after this call, where the host keeps it
    advance,  // [1, 1, R, R + T]: which of the old columns and the new tokens states of R = `index` columns keep
    logits,  // rows [first, last) of the vocabulary: [1, rows, T, 1]
    best,    // of rows [first, last): the largest logit, and where it is
    best_high,
    best_low,
    router,   // logits of the choices [first, last) that a host chooses by: [1, choices, T, 1]
    normed,   // what the experts of the layer see: [1, hidden, T, 1]
    shares,   // by how much experts [first, last) count for each token: [1, experts, T, 1]
    mixed,    // what experts add, each as it counts: [1, hidden, T, 1]
    pool,     // [1, 1, T, 1]: how much each token counts in `pooled`
    pooled,   // one vector for the text: [1, hidden, 1, 1]
    classes,  // logits of the classes: [1, classes, T, 1], or [1, classes, 1, 1] for the text
  };

  Kind kind = Kind::stream;
  size_t index = 0;             // of a rope, a mask or a slot; columns of a recurrent state
  std::vector<int64_t> layers;  // of a cache or a recurrent state
  int64_t first = 0, last = 0;  // rows of the vocabulary; choices of a router; experts

  // The same of another kind: the `keys` that `new_keys` go into.
  Role as(Kind other) const {
    Role out = *this;
    out.kind = other;
    return out;
  }
  bool operator==(const Role&) const = default;
};

std::string_view role_name(Role::Kind kind);
// Error for a name that is none.
Role::Kind role_from_name(std::string_view name);

// Keys or values of a cache that grows with the text.
inline bool is_cache(Role::Kind kind) { return kind == Role::Kind::keys || kind == Role::Kind::values; }

struct Port {
  std::string name;
  Role role;
};

// The first port of that kind, and the one of just that role; null where there is none.
const Port* find_port(const std::vector<Port>& ports, Role::Kind kind);
const Port* find_port(const std::vector<Port>& ports, const Role& role);

// A value inside the function that the reference knows too; of several with one name and layer, the last in use counts.
struct Tap {
  std::string value;   // its name in the program
  std::string name;    // what it is: "attn_out", as goldens call it
  int64_t layer = -1;  // -1: outside the layers
  double scale = 1;    // how much larger it stands in the program than in the model
};

// A weight of the model under the name that the function gives it. What is stored is (value + offset) * factor.
struct NamedWeight {
  std::string value;  // its name in the program
  WeightRef ref;
  int64_t layer = -1;  // -1: outside the layers
  double offset = 0, factor = 1;
};

struct FunctionInterface {
  std::vector<Port> inputs, outputs, states;
  std::vector<Tap> taps;
  // In the order of the body. bundle.json does not hold these: code that compares weights has the model, and can build
  // the function again over HollowWeights.
  std::vector<NamedWeight> weights;
};

}  // namespace anemone
