// K: states and the KV cache.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "check/rule.h"

namespace anemone {
namespace {

using placement::OpView;
using placement::Tensor;

std::vector<const Value*> states(const Function& f) {
  std::vector<const Value*> out;
  for (const auto& input : f.inputs)
    if (input->type.kind == Type::Kind::state) out.push_back(input.get());
  return out;
}

bool has_states(const FunctionSubject& s) { return !states(s.function).empty(); }

void states_at_all(const PackageSubject& s, Findings& out) {
  size_t most = 0;
  for (const FunctionSubject* f : s.functions) most = std::max(most, states(f->function).size());
  if (most > 0)
    out.add(
        Level::hint,
        fmt::format("{} states; convert --kv io writes a twin without, for systems that refuse them", most));
}

void many_states(const FunctionSubject& s, Findings& out) {
  const size_t count = states(s.function).size();
  const Target& target = s.package.bundle.target;
  if (count > 2 && target.phone())
    out.add(Level::error, fmt::format("{} states, and this is for an {}", count, device_name(target.device)));
}

void state_types(const FunctionSubject& s, Findings& out) {
  for (const Value* state : states(s.function))
    if (state->type.dtype != DType::fp16)
      out.add(Level::error, fmt::format("the state '{}' is {}", state->name, state->type.text()));
}

// What a state is written with: through the one operation in front of it.
const Operation* writer(const Operation& op) {
  if (op.type != "write_state" && op.type != "coreml_update_state") return nullptr;
  const Value* data = op.value(op.type == "write_state" ? "data" : "value");
  return data ? data->producer : nullptr;
}

// A slice_update of rows of a state, also behind other updates of the same state.
bool updates_state(const Operation& op) {
  const Value* into = op.value("x");
  while (into && into->producer && into->producer->type == "slice_update") into = into->producer->value("x");
  return into && into->producer && into->producer->type == "read_state";
}

void standalone_updates(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops)
    if (op.op->type == "slice_update" && !updates_state(*op.op))
      out.add(Level::warning, *op.op,
              "updates a tensor that is no state; write it by a mask (--kv-write mask)");
}

// concat(slice(cache), new): the cache moves along.
void shifting(const FunctionSubject& s, Findings& out) {
  for (const auto& op : s.placed.ops) {
    const Operation* by = writer(*op.op);
    const Input* values = by && by->type == "concat" ? by->input("values") : nullptr;
    if (!values || values->bindings.size() != 2) continue;
    for (const Binding& binding : values->bindings) {
      const Operation* slice = binding.value ? binding.value->producer : nullptr;
      const bool cut = slice && (slice->type.starts_with("slice_by") || slice->type == "split");
      const Value* cache = cut ? slice->value("x") : nullptr;
      if (!cache || !cache->producer || cache->producer->type != "read_state") continue;
      out.add(Level::warning, *by, "shifts the cache: concat of the rest of the state and the new rows");
      break;
    }
  }
}

// old · keep + new, or a select of both: every row is written again. Packed states are put together from such parts.
void blending(const FunctionSubject& s, Findings& out) {
  int count = 0;
  double bytes = 0;
  for (const auto& op : s.placed.ops) {
    const Operation* by = writer(*op.op);
    const Input* values = by && by->type == "concat" ? by->input("values") : nullptr;
    const Value* first = values && !values->bindings.empty() ? values->bindings[0].value : nullptr;
    const Operation* blend = first ? first->producer : by;
    if (!blend || (blend->type != "add" && blend->type != "select")) continue;
    ++count;
    bytes += OpView(*by).results()[0].bytes();
  }
  if (count > 0)
    out.add(Level::hint, fmt::format("{} states are blended by a mask: {:.1f} MB read and written a call",
                                     count, 2 * bytes / 1e6));
}

// Nobody has probed slice_update: what it costs if the engine refuses it.
void slicing(const FunctionSubject& s, Findings& out) {
  const auto updates = [](const placement::PlacedOp& op) {
    return op.op->type == "slice_update" && updates_state(*op.op) && op.on_ane();
  };
  const auto count = std::count_if(s.placed.ops.begin(), s.placed.ops.end(), updates);
  if (count == 0) return;
  const placement::PlacedFunction refused = placement::if_refused(s.placed, updates);
  out.add(Level::hint,
          fmt::format("slice_update writes the cache {} times a call; if the engine refuses it: {} segments, "
                      "{:.3f} ms, instead of {} and {:.3f} ms",
                      count, refused.segments.size(), refused.ms, s.placed.segments.size(), s.placed.ms));
}

void cache_writes(const FunctionSubject& s, Findings& out) {
  shifting(s, out);
  standalone_updates(s, out);
}

void cache_costs(const FunctionSubject& s, Findings& out) {
  blending(s, out);
  slicing(s, out);
}

void one_length(const BundleSubject& s, Findings& out) {
  if (!s.info) return;
  std::set<int64_t> lengths;
  for (const Stage& stage : s.info->stages)
    for (const StageFunction& f : stage.functions)
      if (f.context > 0) lengths.insert(f.context);
  if (lengths.size() == 1 && *lengths.begin() >= 1024)
    out.add(Level::hint,
            fmt::format("compiled for {} positions only: attention costs that much from the first token on",
                        *lengths.begin()));
}

void flexible_states(const FunctionSubject& s, Findings& out) {
  if (!s.flexible || !has_states(s)) return;
  bool enumerated = false;
  const Description& said = s.package.package.description;
  const auto listed = std::ranges::find(said.functions, s.function.name, &Interface::name);
  for (const Feature& f : listed == said.functions.end() ? said.main.inputs : listed->inputs)
    enumerated = enumerated || !f.type.array.enumerated.empty();
  if (enumerated)
    out.add(Level::error, "enumerated shapes and states in one function");
  else
    out.add(Level::warning, "a range of shapes and states in one function");
}

constexpr Rule kRules[] = {
    {.id = "K01",
     .grade = Grade::X,
     .level = Level::hint,
     .title = "States run on the engine in many published models, but not in all shapes and systems",
     .why = "40 of 40 shards of one author and whole apps run; other builds answered -14 at load. It depends "
            "on the "
            "number of states, their alignment, how they are written, and the system (K02 to K04, S04).",
     .cost = "-14 at load where refused",
     .fix = "Keep a second version without states (--kv io), and choose when you load.",
     .sources = "AB e30; AN; JR MLSTATE_PATTERN; against: JR EXPERIMENTS, ct#2325, ct#2553",
     .targets = "iOS 18, macOS 15 and later",
     .in_package = states_at_all},
    {.id = "K02",
     .grade = Grade::B,
     .level = Level::error,
     .title = "An iPhone accepts one or two states per package",
     .why = "Three or more fail at predict (0x1d), and the output of the CPU is garbage. Macs accept them.",
     .cost = "the package does not run",
     .fix = "Pack the keys and values of all layers: --kv packed, [2L, heads, S, d].",
     .sources = "JR MLSTATE_PATTERN",
     .targets = "iPhone, iPad",
     .in_function = many_states},
    {.id = "K03",
     .grade = Grade::A,
     .level = Level::error,
     .title = "States must be fp16",
     .why = "Other types fail at load. The last axis must also be a multiple of 32 (S04).",
     .cost = "load failure",
     .fix = "Use fp16.",
     .sources = "ct#2631; kasper0406/stablehlo-coreml#76",
     .in_function = state_types},
    {.id = "K04",
     .grade = Grade::B,
     .level = Level::warning,
     .title = "The cache should be written by slice_update on a state or by a mask, not shifted",
     .why = "concat(cache[1:], new) gets -14 with tied embeddings and a state. Core ML says \"Cannot support "
            "standalone slice_update\" where the updated tensor is no state.",
     .cost = "-14",
     .fix = "A mask, or slice_update on a state; for windows a ring position (pos mod W).",
     .sources = "JR DECODE_STATE 3; AB e26",
     .in_function = cache_writes},
    {.id = "K05",
     .grade = Grade::C,
     .level = Level::hint,
     .title = "Writing the cache costs time: a mask rewrites all of it, slice_update may leave the engine",
     .why = "A mask reads and writes every row. slice_update writes only the new rows, but its position is "
            "an int32 (D02), and it is not certain that the engine accepts it. If it does not, every write "
            "falls back to the CPU, and the mask is faster.",
     .cost = "2 to 4 times the cost of attention",
     .fix = "Measure --kv-write slice on the device; keep the mask until then.",
     .sources = "derived from published runs; JR Bonsai",
     .in_function = cache_costs},
    {.id = "K06",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "Attention costs the compiled length, not the filled length",
     .why = "Masked positions are computed too.",
     .cost = "4.4 times slower at 2K in one comparison",
     .fix = "Several lengths that share weights: --context 512,2048.",
     .sources = "AM; JR; CAD",
     .in_bundle = one_length},
    {.id = "K07",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "Rejected draft tokens need no rollback",
     .why = "Slots after the accepted prefix stay masked and are overwritten.",
     .cost = "",
     .fix = "Verify drafts with a function of several tokens.",
     .sources = "AB e26"},
    {.id = "K08",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "With several tokens attention's result is permuted to [head, dim, token] before it is folded",
     .why = "Otherwise one token is right, but several tokens are wrong.",
     .cost = "wrong numbers",
     .fix = "Test with one token and with the maximum.",
     .sources = "AB e26"},
    {.id = "K09",
     .grade = Grade::B,
     .level = Level::error,
     .title = "With states, shapes must be fixed: several functions, no ranges, no enumerated shapes",
     .why = "A range is specialised at first use (112 + 133 s for 3.8 B on M4 Max); enumerated shapes with a "
            "state are "
            "std::bad_cast.",
     .cost = "minutes at first use, or a crash",
     .fix = "Functions with fixed shapes in one package.",
     .sources = "AB e26; ct#2730; ct#1909",
     .in_function = flexible_states},
    {.id = "K10",
     .grade = Grade::A,
     .level = Level::hint,
     .title = "Core AI on the engine has no states",
     .why = "The cache is a read-only input and new rows are outputs; keys are kept after RoPE.",
     .cost = "",
     .fix = "The same graph as --kv io.",
     .sources = "AP",
     .targets = "Core AI"},
    {.id = "K11",
     .grade = Grade::B,
     .level = Level::hint,
     .title = "A query of one or two positions can fail in Core AI's static exports",
     .why = "0xe00002c2; four and eight positions run at the same speed.",
     .cost = "a crash",
     .fix = "Decode with four positions, padded.",
     .sources = "CAD",
     .targets = "Core AI"},
};

}  // namespace

std::span<const Rule> state_rules() { return kRules; }

}  // namespace anemone
