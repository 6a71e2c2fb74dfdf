// What the functions of a bundle take, keep and give: the roles that the lowering hands out with what it built.
#include "lower/functions.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "families/weights.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;
using lower::HeadSpec;
using lower::KvKind;
using lower::KvWrite;
using lower::LayersSpec;

namespace {

// "keys 0,1 = k_cache": role, what it counts, name.
std::string text(const Port& port) {
  const Role& role = port.role;
  std::string out(role_name(role.kind));
  if (role.kind == Role::Kind::cos || role.kind == Role::Kind::sin || role.kind == Role::Kind::mask ||
      role.kind == Role::Kind::advance)
    out += fmt::format(" {}", role.index);
  if (!role.layers.empty()) out += fmt::format(" {}", fmt::join(role.layers, ","));
  if (role.last) out += fmt::format(" {}-{}", role.first, role.last);
  return out + " = " + port.name;
}

std::vector<std::string> text(const std::vector<Port>& ports) {
  std::vector<std::string> out;
  for (const Port& port : ports) out.push_back(text(port));
  return out;
}

using Texts = std::vector<std::string>;

struct Built {
  Program program;
  FunctionInterface interface;
};

Built build(const Model& model, LayersSpec spec, const HeadSpec* head = nullptr) {
  const MadeModel made(model);
  CheckpointWeights weights(*made.checkpoint, Precision::fp16);
  Built out;
  if (spec.last == 0) spec.last = model.layers.size();
  out.interface = head ? lower::build_whole(out.program, "main", model, weights, spec, *head)
                       : lower::build_layers(out.program, "main", model, weights, spec);
  return out;
}

// Every port is one of the function's own, and the function has no others.
void check_names(const Built& built) {
  const Function& f = *built.program.functions.at(0);
  std::set<std::string> inputs, states;
  for (const auto& input : f.inputs)
    (input->type.kind == Type::Kind::state ? states : inputs).insert(input->name);
  for (const Port& port : built.interface.inputs) CHECK(inputs.erase(port.name) == 1);
  for (const Port& port : built.interface.states) CHECK(states.erase(port.name) == 1);
  CHECK(inputs.empty());
  CHECK(states.empty());
  REQUIRE(f.body.outputs.size() == built.interface.outputs.size());
  for (size_t i = 0; i < f.body.outputs.size(); ++i)
    CHECK(f.body.outputs[i]->name == built.interface.outputs[i].name);
}

}  // namespace

TEST_CASE("a function with states: a pair a layer, written by mask or by slice") {
  const Model model = small_decoder(3);
  const Built mask = build(model, {.first = 1, .last = 3, .context = 16});
  CHECK(text(mask.interface.inputs) ==
        Texts{"stream = x", "cos 0 = cos", "sin 0 = sin", "mask 0 = mask", "write = write"});
  CHECK(text(mask.interface.states) ==
        Texts{"keys 1 = k_cache_1", "values 1 = v_cache_1", "keys 2 = k_cache_2", "values 2 = v_cache_2"});
  CHECK(text(mask.interface.outputs) == Texts{"stream = y"});
  check_names(mask);
  const Built slice = build(model, {.context = 16, .tokens = {4, 4}, .write = KvWrite::slice});
  CHECK(text(slice.interface.inputs).back() == "position = position");
  CHECK(slice.interface.states.size() == 6);
  check_names(slice);
}

TEST_CASE("a function with packed states: one pair for all layers, by their numbers") {
  const Built built = build(small_decoder(3), {.first = 1, .last = 3, .context = 16, .kv = KvKind::packed});
  CHECK(text(built.interface.states) == Texts{"keys 1,2 = k_cache", "values 1,2 = v_cache"});
  check_names(built);
}

TEST_CASE("a function whose cache the host keeps: inputs, and the new rows as outputs") {
  const Built built = build(small_decoder(2), {.context = 16, .tokens = {4, 4}, .kv = KvKind::io});
  CHECK(text(built.interface.inputs) == Texts{"stream = x", "cos 0 = cos", "sin 0 = sin", "mask 0 = mask",
                                              "write = write", "keys 0 = k_cache_0", "values 0 = v_cache_0",
                                              "keys 1 = k_cache_1", "values 1 = v_cache_1"});
  CHECK(built.interface.states.empty());
  CHECK(text(built.interface.outputs) == Texts{"stream = y", "new_keys 0 = k_new_0", "new_keys 1 = k_new_1",
                                               "new_values 0 = v_new_0", "new_values 1 = v_new_1"});
  check_names(built);
}

TEST_CASE("tiers of one package have states of their own names and the same roles") {
  const Built built = build(small_decoder(2), {.context = 16, .kv = KvKind::packed, .state_suffix = "_c16"});
  CHECK(text(built.interface.states) == Texts{"keys 0,1 = k_cache_c16", "values 0,1 = v_cache_c16"});
  const Built recurrent = build(small_decoder(2, 1), {.context = 16, .state_suffix = "_c16"});
  CHECK(text(recurrent.interface.states) ==
        Texts{"keys 1 = k_cache_1_c16", "values 1 = v_cache_1_c16", "recurrent 0 = state_0_c16"});
}

TEST_CASE("masks are numbered by reach: full ones first; a function takes those of its layers alone") {
  Model model = small_decoder(3);
  find_attention(model.layers[0])->reach = {Reach::Kind::window, 4};
  find_attention(model.layers[1])->reach = {Reach::Kind::window, 8};
  CHECK(lower::masks_of(model) ==
        std::vector<Reach>{{Reach::Kind::causal, 0}, {Reach::Kind::window, 4}, {Reach::Kind::window, 8}});
  const Built all = build(model, {.context = 16});
  CHECK(text(all.interface.inputs) == Texts{"stream = x", "cos 0 = cos", "sin 0 = sin", "mask 0 = mask",
                                            "mask 1 = mask_local", "mask 2 = mask_local_1", "write = write"});
  const Built second = build(model, {.first = 1, .last = 2, .context = 16});
  CHECK(text(second.interface.inputs) ==
        Texts{"stream = x", "cos 0 = cos", "sin 0 = sin", "mask 2 = mask_local_1", "write = write"});
  check_names(all);
  check_names(second);
}

TEST_CASE("ropes are taken by the layers that rotate") {
  Model model = small_decoder(3);
  model.ropes.push_back(Rope{.dims = 8, .base = 1000});
  find_attention(model.layers[1])->rope = 1;
  find_attention(model.layers[2])->rope.reset();
  CHECK(text(build(model, {.first = 1, .last = 2, .context = 16}).interface.inputs) ==
        Texts{"stream = x", "cos 1 = cos_1", "sin 1 = sin_1", "mask 0 = mask", "write = write"});
  CHECK(text(build(model, {.first = 2, .last = 3, .context = 16}).interface.inputs) ==
        Texts{"stream = x", "mask 0 = mask", "write = write"});
}

TEST_CASE("a recurrent layer has a state; a call of several tokens is told which of them are real") {
  const Model model = small_decoder(4, 2);  // layers 0 and 2
  const Built one = build(model, {.context = 16});
  CHECK(text(one.interface.inputs) ==
        Texts{"stream = x", "cos 0 = cos", "sin 0 = sin", "mask 0 = mask", "write = write"});
  CHECK(text(one.interface.states) == Texts{"keys 1 = k_cache_1", "values 1 = v_cache_1",
                                            "keys 3 = k_cache_3", "values 3 = v_cache_3",
                                            "recurrent 0 = state_0", "recurrent 2 = state_2"});
  check_names(one);
  const Built several = build(model, {.context = 16, .tokens = {4, 4}});
  CHECK(text(several.interface.inputs).back() == "advance 2 = advance");
  const Function& f = *several.program.functions[0];
  for (const auto& input : f.inputs) {
    if (input->name == "advance") CHECK(input->type.dims() == std::vector<int64_t>{1, 1, 2, 2 + 4});
    if (input->name == "state_2") CHECK(input->type.dims() == std::vector<int64_t>{1, 1, 2, kHidden});
  }
  check_names(several);
}

TEST_CASE(
    "where phones allow two states only, or the host keeps them, a recurrent state is an input and an "
    "output") {
  const Model model = small_decoder(2, 1);
  for (const KvKind kv : {KvKind::packed, KvKind::io}) {
    const Built built = build(model, {.context = 16, .tokens = {4, 4}, .kv = kv});
    const Texts inputs = text(built.interface.inputs), outputs = text(built.interface.outputs);
    CHECK(std::find(inputs.begin(), inputs.end(), "recurrent 0 = state_0") != inputs.end());
    CHECK(outputs.back() == "new_recurrent 0 = state_new_0");
    CHECK(built.interface.states.size() == (kv == KvKind::packed ? 2 : 0));
    check_names(built);
  }
}

TEST_CASE("a function of recurrent layers alone takes no rope, no mask and no row to write") {
  const Model model = small_decoder(2, 1);
  const Built built = build(model, {.first = 0, .last = 1, .context = 16});
  CHECK(text(built.interface.inputs) == Texts{"stream = x"});
  CHECK(text(built.interface.states) == Texts{"recurrent 0 = state_0"});
  check_names(built);
}

TEST_CASE("heads say which rows of the vocabulary an output holds") {
  const Model model = small_decoder(1);
  const MadeModel made(model);
  CheckpointWeights weights(*made.checkpoint, Precision::fp16);
  Program program;
  const FunctionInterface rows = lower::build_head(program, "main", model, weights,
                                                   {.first_row = 10, .last_row = kVocab, .piece_rows = 20});
  CHECK(text(rows.inputs) == Texts{"stream = y"});
  CHECK(text(rows.outputs) == Texts{"logits 10-30 = logits_0", "logits 30-48 = logits_1"});
  const HeadSpec picks{.last_row = kVocab, .piece_rows = 30, .argmax = true};
  const Built whole = build(model, {.context = 16, .last_stage = true}, &picks);
  CHECK(text(whole.interface.outputs) == Texts{"best 0-30 = best_0", "best_high 0-30 = high_0",
                                               "best_low 0-30 = low_0", "best 30-48 = best_1",
                                               "best_high 30-48 = high_1", "best_low 30-48 = low_1"});
  check_names(whole);
}

TEST_CASE("taps name values of the program, each with its layer, and what the stream is multiplied by") {
  Model model = small_decoder(2, 1);
  model.layers[1].steps[0].scale = 0.5;
  const Built built = build(model, {.context = 16, .residual_scale = 0.25, .last_stage = true});
  std::set<std::string> values;
  for (const auto& op : built.program.functions[0]->body.ops)
    for (const auto& value : op->outputs) values.insert(value->name);
  std::map<std::string, double> scales;
  for (const Tap& tap : built.interface.taps) {
    CHECK(values.contains(tap.value));
    scales[tap.name + (tap.layer < 0 ? "" : fmt::format("_{}", tap.layer))] = tap.scale;
  }
  CHECK(scales.at("attn_out_0") == 0.25);
  CHECK(scales.at("attn_out_1") == 0.125);  // the writer carries the block's own factor too
  CHECK(scales.at("mlp_out_1") == 0.25);
  CHECK(scales.at("attn_residual_0") == 0.25);
  CHECK(scales.at("layer_out_1") == 0.25);
  CHECK(scales.at("final_norm") == 1);
  CHECK(scales.at("q_1") == 1);
  CHECK(!scales.contains("q_0"));
}

TEST_CASE("roles have names, and a name that is none is refused") {
  for (int i = 0; i <= static_cast<int>(Role::Kind::classes); ++i) {
    const auto kind = static_cast<Role::Kind>(i);
    CHECK(!role_name(kind).empty());
    CHECK(role_from_name(role_name(kind)) == kind);
  }
  CHECK_THROWS_WITH_AS(role_from_name("hidden"), doctest::Contains("there is no role 'hidden'"), Error);
}

TEST_CASE("the lowering lists the name of every weight of the model, with its layer") {
  Model m = small_decoder(3, 1);
  m.embedding.norm = layer_norm_of("embedding_norm");
  std::get<VocabularyHead>(m.head).bias = weight("head_bias", kVocab);
  const LayersSpec layers{.first = 0, .last = 3, .context = 32, .first_stage = true, .last_stage = true};
  const HeadSpec head{.first_row = 0, .last_row = kVocab, .piece_rows = 20};
  Program program;
  lower::HollowWeights hollow;
  const FunctionInterface whole = lower::build_whole(program, "main", m, hollow, layers, head);

  std::vector<std::pair<WeightRef, int64_t>> expected, listed;
  each_weight(m, [&](const WeightUse& w) {
    if (w.place == WeightUse::Place::table) return;
    if (w.place != WeightUse::Place::head) return expected.emplace_back(w.ref, w.layer), void();
    for (const int64_t row : {0, 20, 40}) {
      WeightRef piece = w.ref;
      piece.row_begin = row;
      piece.row_end = std::min<int64_t>(row + 20, kVocab);
      expected.emplace_back(piece, -1);
    }
  });
  for (const NamedWeight& w : whole.weights) {
    listed.emplace_back(w.ref, w.layer);
    const bool there =
        std::any_of(program.functions[0]->body.ops.begin(), program.functions[0]->body.ops.end(),
                    [&](const auto& op) { return !op->outputs.empty() && op->outputs[0]->name == w.value; });
    CHECK_MESSAGE(there, w.value);
  }
  std::sort(expected.begin(), expected.end());
  std::sort(listed.begin(), listed.end());
  CHECK(listed == expected);

  // The same graph, whatever is in the weights.
  const Built real = build(m, layers, &head);
  REQUIRE(real.interface.weights.size() == whole.weights.size());
  for (size_t i = 0; i < whole.weights.size(); ++i)
    CHECK(real.interface.weights[i].value == whole.weights[i].value);
}
