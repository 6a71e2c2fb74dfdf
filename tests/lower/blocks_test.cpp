// Every part that a description may have, in small models that no family makes: the packages on the engine against the
// reference, both over the same description. fp32 arithmetic; weights are half numbers already, so that only sums in
// another order and the constants of the graph differ.
#include <doctest/doctest.h>

#include <functional>

#include "runtime/session.h"
#include "support/made_model.h"

using namespace anemone;
using namespace anemone::test;

namespace {

const std::vector<int32_t> kIds = {1, 7, 33, 7, 2, 40, 19, 5, 11, 28, 47, 0, 6};

struct Part {
  std::string name;
  std::function<void(Model&)> change;
};

ResidualStep& mixer(Model& m, size_t layer) { return m.layers[layer].steps[0]; }
ResidualStep& mlp(Model& m, size_t layer) { return m.layers[layer].steps[1]; }
VocabularyHead& head(Model& m) { return std::get<VocabularyHead>(m.head); }

template <class Change>
std::function<void(Model&)> each(const Change& change) {
  return [change](Model& m) {
    each_attention(m, [&](Attention& a, size_t i) { change(a, std::to_string(i) + "."); });
  };
}

// ZAYA1's way back into the stream: a bias and a gain on both sides of the sum.
void balance(ResidualStep& step, const std::string& at) {
  step.stream_bias = weight(at + "stream_bias", kHidden),
  step.stream_gain = weight(at + "stream_gain", kHidden);
  step.bias = weight(at + "added_bias", kHidden), step.gain = weight(at + "added_gain", kHidden);
}

Experts small_experts(const std::string& at, int64_t count, int64_t used,
                      Experts::Skip skip = Experts::Skip::none) {
  Experts e;
  e.width = 24, e.used = used, e.skip = skip;
  e.router.logits = projection(at + "router", count + (skip == Experts::Skip::none ? 0 : 1), kHidden, true);
  for (int64_t i = 0; i < count; ++i)
    e.experts.push_back(small_mlp(at + "expert_" + std::to_string(i) + "."));
  return e;
}

// ZAYA1's router: a small network that takes over what the layer before gave it.
void route_by_network(Experts& e, const std::string& at, bool first) {
  constexpr int64_t kWidth = 12;
  RouterNetwork n;
  n.width = kWidth;
  n.down = projection(at + "router_down", kWidth, kHidden, true);
  n.first = projection(at + "router_first", kWidth, kWidth, true);
  n.second = projection(at + "router_second", kWidth, kWidth, true);
  n.norm = rms_norm_of(at + "router_norm", kWidth);
  if (!first) n.carry = weight(at + "router_carry", kWidth);
  e.router.network = n;
  e.router.logits = projection(at + "router", e.choices(), kWidth);
  e.router.choice_bias = weight(at + "choice_bias", e.choices());
}

// And its attention: q, k and v mixed with the tokens before.
void mix_over_time(Attention& a, const std::string& at, int64_t steps, int64_t mix_steps) {
  const int64_t channels = a.query_width() + a.key_width(), half = a.key_width() / 2;
  TimeMix mix;
  mix.steps = steps, mix.mix_steps = mix_steps;
  mix.taps = weight(at + "taps", channels, steps), mix.tap_bias = weight(at + "tap_bias", channels);
  mix.mix = weight(at + "mix", channels, a.head_dim * mix_steps),
  mix.mix_bias = weight(at + "mix_bias", channels);
  a.v = projection(at + "v_now", half, kHidden);
  mix.delayed = projection(at + "v_delayed", half, kHidden);
  a.mix = mix;
}

std::vector<Part> parts() {
  return {
      {"nothing", [](Model&) {}},
      {"sinks", each([](Attention& a, const std::string& at) { a.sinks = weight(at + "sinks", a.heads); })},
      {"soft-capped scores", each([](Attention& a, const std::string&) { a.softcap = 1.5; })},
      {"sinks and soft-capped scores", each([](Attention& a, const std::string& at) {
         a.sinks = weight(at + "sinks", a.heads);
         a.softcap = 1.5;
       })},
      {"no rotation", each([](Attention& a, const std::string&) { a.rope.reset(); })},
      {"rotation in one layer", [](Model& m) { find_attention(m.layers[0])->rope.reset(); }},
      {"two rotations",
       [](Model& m) {
         m.ropes.push_back(Rope{.dims = 4, .base = 1000});
         find_attention(m.layers[1])->rope = 1;
       }},
      {"a window in one layer",
       [](Model& m) { find_attention(m.layers[1])->reach = {Reach::Kind::window, 3}; }},
      {"two windows",
       [](Model& m) {
         find_attention(m.layers[0])->reach = {Reach::Kind::window, 5};
         find_attention(m.layers[1])->reach = {Reach::Kind::window, 3};
       }},
      {"head norms", each([](Attention& a, const std::string& at) {
         a.qk_norm = {.q = rms_norm_of(at + "q_norm", 8), .k = rms_norm_of(at + "k_norm", 8)};
       })},
      {"head norms behind the rotation", each([](Attention& a, const std::string& at) {
         a.qk_norm = {
             .q = rms_norm_of(at + "q_norm", 8), .k = rms_norm_of(at + "k_norm", 8), .after_rope = true};
       })},
      {"norms over the width of q and k", each([](Attention& a, const std::string& at) {
         a.qk_norm = {
             .q = rms_norm_of(at + "q_norm", 32), .k = rms_norm_of(at + "k_norm", 16), .over_width = true};
       })},
      {"biases of attention", each([](Attention& a, const std::string& at) {
         a.q = projection(at + "q", 32, kHidden, true), a.k = projection(at + "k", 16, kHidden, true);
         a.v = projection(at + "v", 16, kHidden, true), a.o = projection(at + "o", kHidden, 32, true);
       })},
      {"layers with other heads",
       [](Model& m) {
         Attention& a = *find_attention(m.layers[1]);
         a.heads = 2, a.kv_heads = 2, a.head_dim = 16;
         a.k = projection("1.k", 32, kHidden), a.v = projection("1.v", 32, kHidden);
         m.ropes.push_back(Rope{.dims = 16, .base = 100});
         a.rope = 1;
       }},
      {"stream and added parts with bias and gain",
       [](Model& m) {
         for (const size_t i : {0, 1}) {
           balance(mixer(m, i), std::to_string(i) + ".mixer_");
           balance(mlp(m, i), std::to_string(i) + ".mlp_");
         }
       }},
      {"a gain on the stream alone", [](Model& m) { mixer(m, 1).stream_gain = weight("gain", kHidden); }},
      {"a bias on what is added alone", [](Model& m) { mlp(m, 0).bias = weight("added", kHidden); }},
      {"scaled blocks",
       [](Model& m) {
         for (Layer& layer : m.layers)
           for (ResidualStep& step : layer.steps) step.scale = 0.22;
       }},
      {"norms behind the blocks",
       [](Model& m) {
         for (const size_t i : {0, 1})
           for (ResidualStep* step : {&mixer(m, i), &mlp(m, i)}) {
             step->norm_out = step->norm_in;
             step->norm_in.reset();
           }
       }},
      {"norms on both sides, scaled",
       [](Model& m) {
         mixer(m, 0).norm_out = rms_norm_of("0.behind");
         mlp(m, 1).norm_out = rms_norm_of("1.behind");
         mlp(m, 1).scale = 0.5;
       }},
      {"norms of the sum",
       [](Model& m) {
         for (const size_t i : {0, 1}) {
           const std::string at = std::to_string(i) + ".";
           mixer(m, i).norm_sum = layer_norm_of(at + "sum"), mixer(m, i).norm_in.reset();
           mlp(m, i).norm_sum = layer_norm_of(at + "mlp_sum"), mlp(m, i).norm_in.reset();
         }
       }},
      {"layer norms",
       [](Model& m) {
         mixer(m, 0).norm_in = layer_norm_of("0.norm");
         mlp(m, 1).norm_in = layer_norm_of("1.mlp_norm");
         m.final_norm = layer_norm_of("norm");
       }},
      {"norm gains with an offset",
       [](Model& m) {
         mixer(m, 0).norm_in->offset = 1;
         m.final_norm->offset = 1;
       }},
      {"no final norm", [](Model& m) { m.final_norm.reset(); }},
      {"a plain MLP",
       [](Model& m) {
         PlainMlp plain;
         plain.width = 24;
         plain.up = projection("0.up", 24, kHidden, true),
         plain.down = projection("0.down", kHidden, 24, true);
         mlp(m, 0).block = plain;
         plain.activation = Activation::gelu_tanh;
         plain.up = projection("1.up", 24, kHidden), plain.down = projection("1.down", kHidden, 24);
         mlp(m, 1).block = plain;
       }},
      {"biases of a gated MLP",
       [](Model& m) {
         auto& gated = std::get<GatedMlp>(mlp(m, 0).block);
         gated.gate = projection("0.gate", 24, kHidden, true),
         gated.up = projection("0.up", 24, kHidden, true);
         gated.down = projection("0.down", kHidden, 24, true);
         gated.activation = Activation::gelu;
       }},
      {"three steps in a layer",
       [](Model& m) {
         m.layers[0].steps.push_back({.norm_in = rms_norm_of("0.third"), .block = small_mlp("0.third_")});
       }},
      {"a head with bias, scale and cap",
       [](Model& m) {
         head(m).bias = weight("head.bias", kVocab);
         head(m).scale = 0.4;
         head(m).softcap = 1.2;
       }},
      {"a scaled embedding", [](Model& m) { m.embedding.scale = 4; }},
      {"a norm of the embedding", [](Model& m) { m.embedding.norm = layer_norm_of("embedding_norm"); }},
      {"a tied head",
       [](Model& m) {
         head(m).weight = m.embedding.tokens;
         head(m).tied = true;
       }},
      {"short convolutions", [](Model& m) { mixer(m, 0).block = small_conv("0."); }},
      {"a short convolution of four taps, with biases",
       [](Model& m) {
         ShortConv conv = small_conv("0.", 4);
         conv.gate_in = projection("0.gate_in", kHidden, kHidden, true);
         conv.gate_out = projection("0.gate_out", kHidden, kHidden, true);
         conv.value = projection("0.value", kHidden, kHidden, true);
         conv.o = projection("0.o", kHidden, kHidden, true);
         mixer(m, 0).block = conv;
       }},
      {"a gate with a limit",
       [](Model& m) {
         auto& gated = std::get<GatedMlp>(mlp(m, 0).block);
         gated.limit = 0.4, gated.slope = 1.702;
       }},
      {"experts, by what is chosen",
       [](Model& m) {
         for (const size_t i : {0, 1}) {
           Experts e = small_experts(std::to_string(i) + ".", 5, 2);
           e.share = Experts::Share::of_chosen;
           mlp(m, i).block = e;
         }
       }},
      {"experts, by all", [](Model& m) { mlp(m, 1).block = small_experts("1.", 4, 3); }},
      {"every expert", [](Model& m) { mlp(m, 0).block = small_experts("0.", 3, 3); }},
      {"experts that a router may skip, which passes",
       [](Model& m) {
         for (const size_t i : {0, 1})
           mlp(m, i).block = small_experts(std::to_string(i) + ".", 2, 1, Experts::Skip::pass);
       }},
      {"experts that a router may skip, which adds nothing",
       [](Model& m) {
         for (const size_t i : {0, 1})
           mlp(m, i).block = small_experts(std::to_string(i) + ".", 2, 1, Experts::Skip::zero);
       }},
      {"experts beside one that all tokens use",
       [](Model& m) {
         Experts e = small_experts("1.", 4, 2);
         e.shared.emplace();
         e.shared->mlp = small_mlp("1.shared.");
         mlp(m, 1).block = e;
         mlp(m, 1).scale = 0.5;
       }},
      {"experts beside one that counts more or less",
       [](Model& m) {
         for (const size_t i : {0, 1}) {
           const std::string at = std::to_string(i) + ".";
           Experts e = small_experts(at, 3, 1, Experts::Skip::pass);
           e.shared.emplace();
           e.shared->mlp = small_mlp(at + "shared.");
           e.shared->share = projection(at + "share", 1, kHidden, i == 1);
           mlp(m, i).block = e;
         }
         mlp(m, 0).norm_out = rms_norm_of("0.behind");
       }},
      {"routers that are networks",
       [](Model& m) {
         for (const size_t i : {0, 1}) {
           const std::string at = std::to_string(i) + ".";
           Experts e = small_experts(at, 4, 1, Experts::Skip::pass);
           route_by_network(e, at, i == 0);
           mlp(m, i).block = e;
         }
       }},
      {"a bias and a gain of the embedding",
       [](Model& m) {
         m.embedding.bias = weight("embedding_bias", kHidden),
         m.embedding.gain = weight("embedding_gain", kHidden);
       }},
      {"attention that mixes over time",
       each([](Attention& a, const std::string& at) { mix_over_time(a, at, 2, 2); })},
      {"attention that mixes over time, with norms and a gain of the keys",
       each([](Attention& a, const std::string& at) {
         mix_over_time(a, at, 3, 2);
         a.qk_norm = QkNorm{};
         a.qk_norm->q.eps = a.qk_norm->k.eps = 1e-12;
         a.qk_norm->k_gain = weight(at + "k_gain", a.kv_heads);
       })},
      {"convolutions alone",
       [](Model& m) {
         mixer(m, 0).block = small_conv("0.");
         mixer(m, 1).block = small_conv("1.");
         m.ropes.clear();
       }},
  };
}

}  // namespace

TEST_CASE("every part of a description: packages compute what the reference computes") {
  using lower::KvKind;
  using lower::KvWrite;
  for (const Part& part : parts()) {
    CAPTURE(part.name);
    Model model = small_decoder(2);
    part.change(model);
    MadeModel made(model);
    const std::vector<float> expected = made.reference().logits(kIds);
    const bool alike = part.name != "layers with other heads";  // packed states need that
    for (const auto& [form, options] : std::vector<std::pair<std::string, ConvertOptions>>{
             {"one by one", {.context = {16}}},
             {"chunks, slices", {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .kv_write = {KvWrite::slice}}},
             {"packed, chunks",
              {.context = {16}, .tokens = {{4, 4}}, .kv = alike ? KvKind::packed : KvKind::state}},
             {"io, whole, chunks", {.context = {16}, .tokens = {{4, 4}}, .kv = KvKind::io, .whole = true}},
             {"shards, scaled stream",
              {.context = {16},
               .tokens = {{1, 1}, {4, 4}},
               .shard_bytes = 1,
               .head_rows = 20,
               .residual_scale = 0.25}}}) {
      CAPTURE(form);
      Session session(made.bundle(options), {.positions = 16});
      CHECK(range_error(session.forward(kIds), expected) < 1e-3);
    }
  }
}

TEST_CASE("experts that the host chooses: packages compute what the reference computes") {
  using lower::KvKind;
  for (const Part& part : parts()) {
    CAPTURE(part.name);
    Model model = small_decoder(3);  // the third layer has no experts
    part.change(model);
    if (std::ranges::none_of(model.layers, [](const Layer& l) { return find_experts(l) != nullptr; }))
      continue;
    MadeModel made(model);
    const std::vector<float> expected = made.reference().logits(kIds);
    for (const ExpertWay way : {ExpertWay::host, ExpertWay::groups})
      for (const auto& [form, options] : std::vector<std::pair<std::string, ConvertOptions>>{
               {"one by one", {.context = {16}}},
               {"chunks, packed", {.context = {16}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed}},
               {"chunks alone, io", {.context = {16}, .tokens = {{4, 4}}, .kv = KvKind::io}},
               {"shards, scaled stream, tiers",
                {.context = {8, 16},
                 .tokens = {{1, 1}, {4, 4}},
                 .shard_bytes = 1,
                 .head_rows = 20,
                 .residual_scale = 0.25}}}) {
        CAPTURE(way_name(way));
        CAPTURE(form);
        ConvertOptions o = options;
        o.experts = way;
        if (way == ExpertWay::groups) o.expert_group = 2;
        const auto bundle = made.bundle(o);
        CHECK(bundle->info().routes());
        Session session(bundle, {.positions = 16});
        CHECK(range_error(session.forward(kIds), expected) < 1e-3);
      }
  }
}
