#include "engine/arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include <random>
#include <vector>

using namespace anemone;

TEST_CASE("buffers that live at the same time never overlap, and room is used again") {
  std::mt19937 random(3);
  ArenaLayout layout;
  struct Held {
    int64_t at, bytes;
  };
  std::vector<Held> held;
  int64_t most = 0, now = 0;
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && random() % 2) {
      const size_t k = random() % held.size();
      layout.give_back(held[k].at, held[k].bytes);
      now -= (held[k].bytes + 63) / 64 * 64;
      held.erase(held.begin() + static_cast<ptrdiff_t>(k));
      continue;
    }
    const int64_t bytes = 1 + static_cast<int64_t>(random() % 5000);
    const int64_t at = layout.take(bytes);
    CHECK(at % 64 == 0);
    for (const Held& h : held) REQUIRE((at + bytes <= h.at || h.at + h.bytes <= at));
    held.push_back({at, bytes});
    now += (bytes + 63) / 64 * 64;
    most = std::max(most, now);
  }
  CHECK(layout.size() >= most);
  CHECK(layout.size() < 2 * most);  // best fit wastes little
}
