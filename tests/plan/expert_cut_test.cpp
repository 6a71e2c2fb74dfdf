#include "plan/expert_cut.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace anemone;

namespace {

uint64_t bytes(const WeightRef& ref) { return static_cast<uint64_t>(ref.rows() * ref.columns); }

// Layers of 100 bytes each; those in `sparse` have `count` experts of 30 bytes besides.
Model model_of(size_t layers, const std::vector<size_t>& sparse, size_t count, int64_t used) {
  Model m;
  m.hidden = 10;
  for (size_t i = 0; i < layers; ++i) {
    Attention a;
    a.q.weight = {"q", 0, 10, 10};
    m.layers.emplace_back().steps.push_back({.block = a});
  }
  for (const size_t i : sparse) {
    Experts e;
    e.used = used;
    for (size_t x = 0; x < count; ++x) {
      GatedMlp mlp;
      for (Projection* p : {&mlp.gate, &mlp.up, &mlp.down}) p->weight = {"e", 0, 1, 10};
      e.experts.push_back(mlp);
    }
    m.layers[i].steps.push_back({.block = e});
  }
  return m;
}

// "<" begins behind experts, ">" ends at a router: "0-0> e0-3 <0-1>".
std::string cuts_text(const Model& m, uint64_t limit, int64_t group) {
  std::string out;
  for (const ExpertCut& c : cut_at_experts(m, 0, m.layers.size(), bytes, {.bytes = limit}, group))
    out += c.has_experts() ? fmt::format("e{}-{}={} ", c.first_expert, c.last_expert - 1, c.bytes)
                           : fmt::format("{}{}-{}{}={} ", c.behind_experts ? "<" : "", c.first, c.last - 1,
                                         c.at_router ? ">" : "", c.bytes);
  return out;
}

}  // namespace

TEST_CASE("a layer is cut at its experts, and the rest of it goes with the next one") {
  const Model m = model_of(2, {0, 1}, 4, 1);
  CHECK(cuts_text(m, 1000, 1) == "0-0>=100 e0-3=120 <0-1>=100 e0-3=120 <1-1=0 ");
}

TEST_CASE("an expert that all tokens use goes with the function behind the router") {
  Model m = model_of(2, {0, 1}, 4, 1);
  for (Layer& layer : m.layers) {
    auto& e = std::get<Experts>(layer.steps[1].block);
    e.shared.emplace();
    for (Projection* p : {&e.shared->mlp.gate, &e.shared->mlp.up, &e.shared->mlp.down})
      p->weight = {"s", 0, 2, 10};
    e.shared->share.weight = {"share", 0, 1, 10};  // stays in fp16, and is no matrix that counts
  }
  CHECK(cuts_text(m, 1000, 1) == "0-0>=100 e0-3=120 <0-1>=160 e0-3=120 <1-1=60 ");
  CHECK(cuts_text(m, 150, 1) == "0-0>=100 e0-3=120 <0-0=60 1-1>=100 e0-3=120 <1-1=60 ");
}

TEST_CASE("layers without experts stay together, as far as the limit allows") {
  CHECK(cuts_text(model_of(5, {1, 4}, 2, 1), 1000, 1) == "0-1>=200 e0-1=60 <1-4>=300 e0-1=60 <4-4=0 ");
  CHECK(cuts_text(model_of(5, {1, 4}, 2, 1), 200, 1) == "0-1>=200 e0-1=60 <1-3=200 4-4>=100 e0-1=60 <4-4=0 ");
}

TEST_CASE("experts go to several packages of whole groups when they are too large for one") {
  CHECK(cuts_text(model_of(1, {0}, 4, 1), 100, 1) == "0-0>=100 e0-1=60 e2-3=60 <0-0=0 ");
  CHECK(cuts_text(model_of(1, {0}, 5, 1), 100, 3) == "0-0>=100 e0-2=90 e3-4=60 <0-0=0 ");
}

TEST_CASE("calls of experts have room for twice the tokens that come on average") {
  const Model m = model_of(1, {0}, 32, 4);
  const Experts& e = *find_experts(m.layers[0]);
  CHECK(expert_slots(e, 1, {1, 64}) == std::vector<int64_t>{1, 16});  // 64 * 4 / 32 = 8 each
  CHECK(expert_slots(e, 4, {1, 64}) == std::vector<int64_t>{1, 64});
  CHECK(expert_slots(e, 1, {1}) == std::vector<int64_t>{1});
  CHECK(expert_slots(e, 1, {3}) == std::vector<int64_t>{1});
}

// Two of four experts: six pairs. Of the groups {0, 1} and {2, 3}, a pair uses both in four cases, one in two.
TEST_CASE("how many groups a token uses is counted over all choices") {
  const Model m = model_of(1, {0}, 4, 2);
  const Experts& e = *find_experts(m.layers[0]);
  CHECK(groups_used(e, 1) == doctest::Approx(2));
  CHECK(groups_used(e, 2) == doctest::Approx((4 * 2 + 2 * 1) / 6.0));
  CHECK(groups_used(e, 4) == doctest::Approx(1));
  Experts skips = e;  // ten pairs of five choices: four of them are one expert and the skip
  skips.skip = Experts::Skip::zero;
  CHECK(groups_used(skips, 1) == doctest::Approx((6 * 2 + 4 * 1) / 10.0));
}
