#include "kernels/dequant.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "base/half.h"
#include "kernels/all_targets.h"

using namespace anemone;
using test::for_each_target;

namespace {

struct Case {
  const BlockInfo* info;
  std::vector<std::byte> bytes;
  std::vector<float> floats;
};

// tests/data/dequant_cases.bin, as tests/oracle/make_dequant_cases.py writes it, or a larger file of that
// kind.
std::vector<Case> oracle_cases() {
  const char* given = std::getenv("ANEMONE_DEQUANT_CASES");
  std::ifstream file(given ? std::filesystem::path(given) : source_dir() / "tests/data/dequant_cases.bin",
                     std::ios::binary);
  std::vector<Case> cases;
  uint32_t head[3];
  while (file.read(reinterpret_cast<char*>(head), sizeof head)) {
    Case c{block_info(static_cast<BlockType>(head[0])), std::vector<std::byte>(head[1]),
           std::vector<float>(head[2])};
    file.read(reinterpret_cast<char*>(c.bytes.data()), head[1]);
    file.read(reinterpret_cast<char*>(c.floats.data()), 4 * head[2]);
    REQUIRE(file.good());
    REQUIRE(c.info);
    cases.push_back(std::move(c));
  }
  return cases;
}

int differences(const std::vector<float>& a, const std::vector<float>& b) {
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i)
    wrong += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) &&
             !(std::isnan(a[i]) && std::isnan(b[i]));
  return wrong;
}

int differences(const std::vector<uint16_t>& a, const std::vector<float>& b) {
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i)
    wrong += std::isnan(b[i]) ? !std::isnan(half_to_float(a[i])) : a[i] != half_from_float(b[i]);
  return wrong;
}

std::vector<std::byte> random_bytes(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

}  // namespace

TEST_CASE("the oracle has a case for every type that decodes") {
  std::set<BlockType> seen;
  for (const Case& c : oracle_cases()) seen.insert(c.info->type);
  for (uint32_t id = 0; id < 300; ++id) {
    const BlockInfo* info = block_info(static_cast<BlockType>(id));
    if (info) CHECK_MESSAGE(seen.count(info->type) == info->decodes, info->name);
  }
}

TEST_CASE("every type decodes bit for bit as the gguf package does, on every target") {
  for (const Case& c : oracle_cases()) {
    const auto count = static_cast<int64_t>(c.floats.size());
    CAPTURE(c.info->name);
    REQUIRE(block_bytes(*c.info, count) == c.bytes.size());
    std::vector<float> plain(c.floats.size());
    decode_blocks_plain(c.info->type, c.bytes.data(), count, plain.data());
    CHECK(differences(plain, c.floats) == 0);
    for_each_target([&](const char* target) {
      CAPTURE(target);
      std::vector<float> floats(c.floats.size());
      std::vector<uint16_t> halves(c.floats.size());
      decode_blocks(c.info->type, c.bytes.data(), count, floats.data());
      decode_blocks(c.info->type, c.bytes.data(), count, halves.data());
      CHECK(differences(floats, c.floats) == 0);
      CHECK(differences(halves, c.floats) == 0);
    });
  }
}

TEST_CASE("fast and plain decoders agree on any bytes, infinities and NaN included") {
  for (uint32_t id = 0; id < 300; ++id) {
    const BlockInfo* info = block_info(static_cast<BlockType>(id));
    if (!info || !info->decodes) continue;
    CAPTURE(info->name);
    const int64_t count = int64_t{256} * 37;
    const auto bytes = random_bytes(block_bytes(*info, count), id);
    std::vector<float> plain(static_cast<size_t>(count)), floats(plain.size());
    std::vector<uint16_t> halves(plain.size());
    decode_blocks_plain(info->type, bytes.data(), count, plain.data());
    for_each_target([&](const char* target) {
      CAPTURE(target);
      decode_blocks(info->type, bytes.data(), count, floats.data());
      decode_blocks(info->type, bytes.data(), count, halves.data());
      CHECK(differences(floats, plain) == 0);
      CHECK(differences(halves, plain) == 0);
    });
  }
}

TEST_CASE("any range of elements, at any address, equals the same part of the whole") {
  for (const Case& c : oracle_cases()) {
    CAPTURE(c.info->name);
    std::vector<std::byte> shifted(c.bytes.size() + 3);
    std::memcpy(shifted.data() + 3, c.bytes.data(), c.bytes.size());
    const auto total = static_cast<int64_t>(c.floats.size());
    std::mt19937 random(static_cast<uint32_t>(c.info->type));
    for (int round = 0; round < 60; ++round) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint32_t>(total + 1));
      const auto count = static_cast<int64_t>(random() % static_cast<uint32_t>(total - begin + 1));
      std::vector<float> out(static_cast<size_t>(count) + 1, 99.0f);
      std::vector<uint16_t> halves(static_cast<size_t>(count) + 1, 0x5555);
      decode_range(c.info->type, shifted.data() + 3, begin, count, out.data());
      decode_range(c.info->type, shifted.data() + 3, begin, count, halves.data());
      CHECK(out.back() == 99.0f);
      CHECK(halves.back() == 0x5555);
      out.pop_back();
      halves.pop_back();
      const std::vector<float> expected(c.floats.begin() + begin, c.floats.begin() + begin + count);
      CHECK(differences(out, expected) == 0);
      CHECK(differences(halves, expected) == 0);
    }
  }
}
