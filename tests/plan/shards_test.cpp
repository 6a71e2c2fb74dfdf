#include "plan/shards.h"

#include <doctest/doctest.h>

using namespace anemone;

namespace {

std::vector<uint64_t> bytes_of(const std::vector<Shard>& shards) {
  std::vector<uint64_t> out;
  for (const Shard& shard : shards) out.push_back(shard.bytes);
  return out;
}

// Layers whose projections hold `layer` elements together, and a head of vocab x hidden.
Model model_of(size_t layers, int64_t layer, int64_t vocab, int64_t hidden) {
  Model m;
  m.vocab = vocab;
  m.hidden = hidden;
  m.layers.resize(layers);
  for (Layer& l : m.layers) {
    Attention a;
    a.q.weight = {"q", 0, layer, 1};
    l.steps.push_back({.block = a});
  }
  m.head = VocabularyHead{.weight = {"head", 0, vocab, hidden}};
  return m;
}

uint64_t bytes(const WeightRef& ref) { return static_cast<uint64_t>(ref.rows() * ref.columns); }

}  // namespace

TEST_CASE("a row of items is cut into the fewest ranges, the largest as small as it can be") {
  using Sizes = std::vector<uint64_t>;
  struct Row {
    Sizes items;
    uint64_t limit;
    Sizes expected;
  };
  const Row rows[] = {
      {{}, 10, {}},
      {{4}, 10, {4}},
      {{4, 4, 4, 4}, 100, {16}},
      {{4, 4, 4, 4}, 12, {8, 8}},  // not 12 and 4
      {{4, 4, 4, 4, 4}, 8, {8, 8, 4}},
      {{1, 1, 1, 9}, 10, {3, 9}},  // not 10 and 2: the order stays
      {{30, 1, 1}, 10, {30, 2}},   // what is larger than the limit stands alone
      {{1, 30, 1, 30}, 10, {1, 30, 1, 30}},
      {{5, 5, 5, 5, 5, 5, 5}, 15, {15, 15, 5}},
      {{3, 3, 3}, UINT64_MAX, {9}},
      {{0, 0, 0}, 10, {0}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.limit);
    const std::vector<Shard> cut = cut_evenly(row.items, row.limit);
    CHECK(bytes_of(cut) == row.expected);
    size_t next = 0;  // ranges follow each other and hold everything
    for (const Shard& shard : cut) {
      CHECK(shard.first == next);
      next = shard.last;
    }
    CHECK(next == row.items.size());
  }
}

TEST_CASE("layers keep their numbers and the head is cut between convolutions") {
  const Model m = model_of(6, 100, 1000, 2);
  const ShardPlan all = plan_shards(m, 0, 6, bytes, {.bytes = 300, .head_rows = 100});
  CHECK(bytes_of(all.layers) == std::vector<uint64_t>{300, 300});
  CHECK(bytes_of(all.heads) == std::vector<uint64_t>{200, 200, 200, 200, 200, 200, 200, 200, 200, 200});
  CHECK(all.calls() == 12);
  CHECK(all.bytes() == 2600);

  const ShardPlan part = plan_shards(m, 2, 5, bytes, {.bytes = 200, .head_rows = 300});
  REQUIRE(part.layers.size() == 2);
  CHECK(part.layers[0].first == 2);
  CHECK(part.layers[1].last == 5);
  REQUIRE(part.heads.size() == 4);
  CHECK(part.heads[3].first == 900);
  CHECK(part.heads[3].last == 1000);  // the last piece is shorter
  CHECK(part.heads[3].bytes == 200);

  const ShardPlan whole = plan_shards(m, 0, 6, bytes, {.bytes = 1, .head_rows = 100, .whole = true});
  CHECK(whole.calls() == 2);
}
