#include "engine/arena.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "engine/buffer.h"

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

TEST_CASE("zeros are zeros at any size, and move") {
  for (const uint64_t bytes : {0ull, 100ull, 1ull << 16, (3ull << 20) + 4}) {
    CAPTURE(bytes);
    Buffer a = Buffer::zeros(bytes);
    REQUIRE(a.size() == bytes);
    CHECK(std::all_of(a.data(), a.data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    Buffer b = std::move(a);
    CHECK(b.size() == bytes);
    CHECK(a.size() == 0);
    a = std::move(b);
    CHECK(a.size() == bytes);
  }
}
