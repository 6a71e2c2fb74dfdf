#include "base/words.h"

#include <doctest/doctest.h>

#include <utility>

namespace anemone {

TEST_CASE("sizes have three digits that count, and the unit that fits") {
  for (const auto& [bytes, text] : {std::pair<uint64_t, const char*>{0, "0 B"},
                                    {999, "999 B"},
                                    {1000, "1.0 kB"},
                                    {61'184, "61.2 kB"},
                                    {99'949, "99.9 kB"},
                                    {99'950, "100 kB"},
                                    {529'000, "529 kB"},
                                    {999'499, "999 kB"},
                                    {999'500, "1.0 MB"},
                                    {4'800'000, "4.8 MB"},
                                    {23'593'000, "23.6 MB"},
                                    {1'234'000'000, "1.2 GB"},
                                    {2'500'000'000'000, "2500 GB"}})
    CHECK(size_text(bytes) == text);
}

TEST_CASE("one thing has no s") {
  CHECK(counted(0, "token") == "0 tokens");
  CHECK(counted(1, "token") == "1 token");
  CHECK(counted(2, "token") == "2 tokens");
}

}  // namespace anemone
