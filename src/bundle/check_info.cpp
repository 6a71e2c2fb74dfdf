#include "bundle/check_info.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "bundle/check_experts.h"

namespace anemone {
namespace {

using Kind = Role::Kind;

constexpr int64_t kMostWidth = 1 << 24, kMostRows = (int64_t{1} << 31) - 1, kMostLayers = 1 << 16,
                  kMostPositions = 1 << 24;
constexpr size_t kMostSlots = 256;

void expect_between(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw errorf("the {} is {}", what, value).expected(fmt::format("{} to {}", least, most));
}

void expect_finite(const char* what, double value) {
  if (!std::isfinite(value)) throw errorf("the {} is not a number", what).found(fmt::format("{}", value));
}

void check_table(const EmbeddingTable& table, const char* what) {
  if (table.dtype != "fp16" && table.dtype != "int8")
    throw errorf("the {} has the type '{}'", what, table.dtype).expected("fp16 or int8");
  expect_between("number of rows of an embedding", table.rows, 1, kMostRows);
  if (table && table.dtype == "int8" && table.scales.empty())
    throw errorf("the {} is int8 and has no file of scales", what);
}

// Where a role may stand.
enum class Side { input, state, output };

bool belongs(Kind kind, Side side) {
  switch (kind) {
    case Kind::stream:
    case Kind::carried:
    case Kind::normed:
    case Kind::mixed: return side != Side::state;
    case Kind::cos:
    case Kind::sin:
    case Kind::mask:
    case Kind::write:
    case Kind::position:
    case Kind::advance:
    case Kind::shares:
    case Kind::pool: return side == Side::input;
    case Kind::keys:
    case Kind::values:
    case Kind::recurrent: return side != Side::output;
    case Kind::new_keys:
    case Kind::new_values:
    case Kind::new_recurrent:
    case Kind::logits:
    case Kind::best:
    case Kind::best_high:
    case Kind::best_low:
    case Kind::router:
    case Kind::pooled:
    case Kind::classes: return side == Side::output;
  }
  return false;
}

// One function of one stage.
class FunctionCheck {
 public:
  FunctionCheck(const BundleInfo& info, const Stage& stage, const StageFunction& function)
      : info_(info), stage_(stage), f_(function) {}

  void check() {
    if (f_.name.empty()) throw errorf("a function has no name");
    expect_between("least number of tokens", f_.least_tokens, 1, kMostPositions);
    expect_between("most number of tokens", f_.most_tokens, f_.least_tokens, kMostPositions);
    expect_between("context", f_.context, 0, kMostPositions);
    check_side(f_.interface.inputs, Side::input);
    check_side(f_.interface.states, Side::state);
    check_side(f_.interface.outputs, Side::output);
    if (stage_.kind == StageKind::experts) return;  // check_experts()
    need_input(Kind::stream, "the stream goes through every stage but those of experts");
    check_memory();
    check_result();
  }

 private:
  bool keeps(Kind kind) const {
    return find_port(f_.interface.states, kind) || find_port(f_.interface.inputs, kind);
  }

  void need_input(Kind kind, const char* why) const {
    if (!f_.find_input(kind)) throw errorf("no input has the role '{}'", role_name(kind)).hint(why);
  }

  void check_side(const std::vector<Port>& ports, Side side) const {
    std::set<std::string> names;
    for (auto port = ports.begin(); port != ports.end(); ++port) {
      try {
        if (port->name.empty()) throw errorf("has no name");
        if (!names.insert(port->name).second) throw errorf("occurs twice");
        if (!belongs(port->role.kind, side)) throw errorf("is in a list where its role is not allowed");
        check_role(port->role);
        if (std::any_of(ports.begin(), port, [&](const Port& p) { return p.role == port->role; }))
          throw errorf("has the same role as another one");
      } catch (const Error& e) {
        throw errorf("the {} '{}' of the role '{}' {}", side_name(side), port->name,
                     role_name(port->role.kind), e.what());
      }
    }
  }

  static const char* side_name(Side side) {
    return side == Side::input ? "input" : side == Side::state ? "state" : "output";
  }

  void check_role(const Role& role) const {
    if ((role.kind == Kind::cos || role.kind == Kind::sin) && role.index >= info_.ropes.size())
      throw errorf("is for rope {} of {}", role.index, info_.ropes.size());
    if (role.kind == Kind::mask && role.index >= info_.masks.size())
      throw errorf("is for mask {} of {}", role.index, info_.masks.size());
    const bool of_layers = is_cache(role.kind) || role.kind == Kind::recurrent ||
                           role.kind == Kind::new_keys || role.kind == Kind::new_values ||
                           role.kind == Kind::new_recurrent;
    if (of_layers == role.layers.empty())
      throw Error(of_layers ? "does not name its layers" : "names layers, but its role has none");
    if (role.kind == Kind::recurrent || role.kind == Kind::new_recurrent) {
      if (role.layers.size() > 1) throw errorf("is for {} layers, not for one", role.layers.size());
      if (role.index >= kMostSlots)
        throw errorf("is for slot {}, and a layer has at most {}", role.index, kMostSlots);
    }
    if (role.kind == Kind::advance && role.index > static_cast<size_t>(kMostPositions))
      throw errorf("is for states of {} columns", role.index);
    for (const int64_t layer : role.layers)
      if (layer < stage_.first_layer || layer >= stage_.last_layer)
        throw errorf("is for layer {}, and the stage has layers {} to {}", layer, stage_.first_layer,
                     stage_.last_layer - 1);
    const bool of_rows = role.kind == Kind::logits || role.kind == Kind::best ||
                         role.kind == Kind::best_high || role.kind == Kind::best_low;
    if (of_rows && (role.first < 0 || role.last <= role.first || role.last > info_.vocab))
      throw errorf("is for rows {} to {} of a vocabulary of {}", role.first, role.last, info_.vocab);
  }

  // The states and caches of a function, and the inputs that they need.
  void check_memory() const {
    for (const auto& [kept, fresh] :
         {std::pair{Kind::keys, Kind::new_keys}, std::pair{Kind::values, Kind::new_values},
          std::pair{Kind::recurrent, Kind::new_recurrent}}) {
      check_pairs(f_.interface.inputs, kept, f_.interface.outputs, fresh);
      check_pairs(f_.interface.outputs, fresh, f_.interface.inputs, kept);
    }
    if (keeps(Kind::keys) != keeps(Kind::values))
      throw errorf("keeps keys without values, or values without keys");
    if (keeps(Kind::keys)) {
      need_input(Kind::mask, "what a token sees of the cache");
      if (f_.context < 1) throw errorf("has a cache but no context");
      if (!f_.find_input(Kind::write) && !f_.find_input(Kind::position))
        throw errorf("no input has the role 'write' or 'position'")
            .hint("a cache needs an input that says where new rows go");
    }
    if (keeps(Kind::recurrent) && f_.most_tokens > 1)
      need_input(Kind::advance, "a recurrent state needs an input that says how many tokens are real");
  }

  // Every port of one role has a port of the other for the same layers and slot.
  static void check_pairs(const std::vector<Port>& ports, Kind kind, const std::vector<Port>& others,
                          Kind other) {
    for (const Port& port : ports)
      if (port.role.kind == kind && !find_port(others, port.role.as(other)))
        throw errorf("'{}' has the role '{}', and nothing has the role '{}' for its layers", port.name,
                     role_name(kind), role_name(other));
  }

  void check_result() const {
    const std::vector<Port>& outputs = f_.interface.outputs;
    if (outputs.empty()) throw errorf("no output has a role");
    if (stage_.has_layers() && !stage_.has_head() && !find_port(outputs, Kind::stream))
      throw errorf("no output has the role 'stream'").hint("it is the input of the next stage");
    for (const Port& port : outputs)
      if (port.role.kind == Kind::best)
        for (const Kind part : {Kind::best_high, Kind::best_low})
          if (!find_port(outputs, port.role.as(part)))
            throw errorf("'{}' has the role 'best', and nothing has the role '{}' for its rows", port.name,
                         role_name(part));
  }

  const BundleInfo& info_;
  const Stage& stage_;
  const StageFunction& f_;
};

// Layers follow each other from stage to stage. One that is cut at its experts goes on behind them.
void check_layers(const BundleInfo& info) {
  int64_t begin = 0, next = -1;
  const Stage* head = nullptr;
  for (const Stage& stage : info.stages) {
    if (stage.has_head() && !head) head = &stage;
    if ((stage.first_layer == 0 && stage.last_layer == 0) || stage.kind == StageKind::experts) continue;
    if (head && head != &stage)
      throw errorf("the stage '{}' has layers, and stands behind '{}', which gives the result", stage.package,
                   head->package)
          .expected("the stages in the order in which they are computed");
    if (stage.first_layer < 0 || stage.last_layer <= stage.first_layer || stage.last_layer > kMostLayers ||
        (next >= 0 && stage.first_layer != next - (stage.behind_experts() ? 1 : 0)))
      throw errorf("'{}' has layers {} to {}", stage.package, stage.first_layer, stage.last_layer)
          .expected(next < 0 ? "a first and a later layer" : fmt::format("layers from {} on", next));
    if (next < 0) begin = stage.first_layer;
    next = stage.last_layer;
  }
  if (next - begin != info.layers)
    throw errorf("the stages have {} layers, and the model {}", std::max<int64_t>(next, 0) - begin,
                 info.layers);
}

// Of a head of logits, every row once and in order.
void check_rows(const BundleInfo& info) {
  const Kind kind = info.argmax ? Kind::best : Kind::logits;
  int64_t next = 0;
  for (const Stage& stage : info.stages) {
    int64_t end = next;
    for (const StageFunction& f : stage.functions) {
      end = next;
      for (const Port& port : f.interface.outputs) {
        if (port.role.kind != kind) continue;
        if (port.role.first != end)
          throw errorf("'{}' gives rows {} to {} of the vocabulary", stage.package, port.role.first,
                       port.role.last)
              .expected(fmt::format("rows from {} on", end));
        end = port.role.last;
      }
    }
    next = end;
  }
  const Kind other = info.argmax ? Kind::logits : Kind::best;
  for (const Stage& stage : info.stages)
    for (const StageFunction& f : stage.functions)
      if (next == 0 && f.find_output(other))
        throw errorf("the field 'choices.argmax' is {}, and '{}' gives {}", info.argmax, stage.package,
                     info.argmax ? "logits" : "its choice of tokens");
  if (next != info.vocab)
    throw errorf("the heads give {} of the {} rows of the vocabulary", next, info.vocab)
        .expected(fmt::format("outputs of the role '{}' for all of them", role_name(kind)));
}

// The bundle of an encoder returns the stream and its result in the last stage, and has no states.
void check_text(const BundleInfo& info) {
  const bool classifies = info.kind == BundleKind::classify;
  if (classifies && info.labels.empty())
    throw errorf("the bundle classifies, and its classes have no labels")
        .expected("'labels' in 'result', a name for each class");
  for (const Stage& stage : info.stages)
    for (const StageFunction& f : stage.functions)
      for (const auto* ports : {&f.interface.inputs, &f.interface.states})
        for (const Port& port : *ports)
          if (is_cache(port.role.kind) || port.role.kind == Kind::recurrent)
            throw errorf(
                "'{}' of function '{}' has the role '{}', and a bundle of the kind '{}' has no cache and no "
                "state",
                port.name, f.name, role_name(port.role.kind), kind_name(info.kind));
  const Stage& last = info.stages.back();
  for (const StageFunction& f : last.functions)
    for (const Kind kind : {Kind::stream, classifies ? Kind::classes : Kind::pooled})
      if (!f.find_output(kind))
        throw errorf("no output of function '{}' of '{}' has the role '{}'", f.name, last.package,
                     role_name(kind))
            .expected(
                fmt::format("one in the last stage of a bundle of the kind '{}'", kind_name(info.kind)));
}

void check_ropes(const BundleInfo& info) {
  for (const RopeTable& rope : info.ropes) {
    expect_finite("attention factor of a rope", rope.attention_factor);
    if (rope.frequencies.empty() || rope.frequencies.size() > kMostWidth)
      throw errorf("a rope has no frequencies");
    if (!rope.long_frequencies.empty() && rope.long_frequencies.size() != rope.frequencies.size())
      throw errorf("a rope has {} long frequencies and {} others", rope.long_frequencies.size(),
                   rope.frequencies.size());
    for (const double f : rope.frequencies) expect_finite("frequency of a rope", f);
    for (const double f : rope.long_frequencies) expect_finite("frequency of a rope", f);
  }
  for (const Reach& mask : info.masks) {
    const bool sized = mask.kind == Reach::Kind::window || mask.kind == Reach::Kind::band;
    if (sized ? mask.size < 1 : mask.size != 0) throw errorf("a mask has the size {}", mask.size);
  }
}

// One way to run the bundle.
void check_way(const BundleInfo& info) {
  expect_between("hidden size", info.hidden, 1, kMostWidth);
  expect_between("size of the vocabulary", info.vocab, 1, kMostRows);
  expect_between("number of layers", info.layers, 1, kMostLayers);
  expect_finite("scale of the embedding", info.embedding_scale);
  expect_finite("residual scale", info.residual_scale);
  if (info.residual_scale <= 0) throw errorf("the residual scale is {}", info.residual_scale);
  check_table(info.tokens, "embedding of tokens");
  if (!info.tokens && info.embedding_parts.empty()) throw errorf("the token embedding is missing");
  if (info.tokens.rows != info.vocab)
    throw errorf("the embedding has {} rows for a vocabulary of {}", info.tokens.rows, info.vocab);
  if (info.positions) check_table(info.positions, "embedding of positions");
  if (info.types) check_table(info.types, "embedding of token types");
  expect_between("first position", info.first_position, 0, kMostPositions);
  check_ropes(info);
  check_layers(info);
  check_experts(info);
  for (const Stage& stage : info.stages) {
    if (stage.functions.empty()) throw errorf("'{}' has no functions", stage.package);
    for (const StageFunction& f : stage.functions) {
      try {
        FunctionCheck(info, stage, f).check();
      } catch (Error& e) {
        e.within(fmt::format("function '{}' of '{}'", f.name, stage.package));
        throw;
      }
    }
  }
  if (info.kind == BundleKind::generate)
    check_rows(info);
  else
    check_text(info);
}

// Names are unique, and functions know no others. What each variant leaves must be a bundle.
void check_variants(const BundleInfo& info) {
  std::set<std::string> names;
  for (const Variant& v : info.variants) {
    if (v.name.empty()) throw errorf("a variant has no name");
    if (!names.insert(v.name).second) throw errorf("there are two variants '{}'", v.name);
    if (!v.kv_write.empty() && v.kv_write != "mask" && v.kv_write != "slice")
      throw errorf("the variant '{}' writes the cache by '{}'", v.name, v.kv_write).expected("mask or slice");
  }
  for (const Stage& stage : info.stages) {
    std::set<std::string> functions;
    for (const StageFunction& f : stage.functions) {
      if (!functions.insert(f.name).second)
        throw errorf("'{}' has two functions '{}'", stage.package, f.name);
      for (const std::string& variant : f.variants)
        if (!names.contains(variant))
          throw errorf("the function '{}' of '{}' is of a variant '{}', which the bundle does not have",
                       f.name, stage.package, variant);
    }
  }
}

}  // namespace

void check_info(const BundleInfo& info) {
  check_variants(info);
  if (info.variants.empty()) return check_way(info);
  for (const Variant& v : info.variants) {
    try {
      check_way(info.chosen(v.name));
    } catch (Error& e) {
      e.within(fmt::format("variant '{}'", v.name));
      throw;
    }
  }
}

}  // namespace anemone
