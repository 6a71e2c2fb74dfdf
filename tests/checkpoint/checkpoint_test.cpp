#include "checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/half.h"
#include "base/thread_pool.h"
#include "checkpoint/gguf_builder.h"
#include "kernels/dequant.h"
#include "support/temp_folder.h"

using namespace anemone;
using test::GgufBuilder;

namespace {

// No half in it is infinite or NaN.
std::string random_string(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 0xbf);
  return bytes;
}

template <class T>
bool same(const std::vector<T>& a, std::span<T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), b.size_bytes()) == 0);
}

// A safetensors file with F32 "w" [2, 3] = 0…5, BF16 "b" [2] = 1, -2, I32 "i" [1].
std::string small_safetensors() {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
                             R"("i":{"dtype":"I32","shape":[1],"data_offsets":[28,32]}})";
  std::string bytes;
  test::put<uint64_t>(bytes, header.size());
  bytes += header;
  for (int i = 0; i < 6; ++i) test::put<float>(bytes, static_cast<float>(i));
  test::put<uint16_t>(bytes, 0x3f80);
  test::put<uint16_t>(bytes, 0xc000);
  test::put<int32_t>(bytes, 5);
  return bytes;
}

}  // namespace

TEST_CASE("a folder with safetensors and config.json is a checkpoint") {
  TempFolder folder;
  folder.write("model.safetensors", small_safetensors());
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("config.json: is missing"), Error);
  folder.write("config.json",
               R"({"zeta": 1, "architectures": ["LlamaForCausalLM"], "_name_or_path": "org/small"})");
  folder.write("README.md", "---\ntags: [x]\nlicense: \"apache-2.0\"\n---\n# small\n");
  for (const auto& path : {folder.path(), folder.path() / "model.safetensors"}) {
    const Checkpoint c = Checkpoint::open(path);
    CHECK(c.format_name() == "safetensors");
    CHECK(c.naming() == Naming::hugging_face);
    CHECK(c.architecture() == "LlamaForCausalLM");
    CHECK(c.source_name() == "org/small");
    CHECK(c.license() == "apache-2.0");
    CHECK(c.value("zeta") == nlohmann::ordered_json(1));
    CHECK(c.folder() == folder.path());
    CHECK(c.stored_bytes() == 32);
    const TensorReader& w = c.tensor("w");
    CHECK(w.rows() == 2);
    CHECK(w.row_elements() == 3);
    float row[3];
    w.read_rows(1, 2, row);
    CHECK(row[0] == 3.0f);
    CHECK(row[2] == 5.0f);
    w.read_elements(2, 5, row);
    CHECK(row[0] == 2.0f);
    CHECK(row[2] == 4.0f);
    w.read_elements(6, 6, {});
    CHECK_THROWS_WITH_AS(w.read_elements(4, 7, row), doctest::Contains("no elements 4 to 7; found [2, 3]"),
                         Error);
    CHECK_THROWS_WITH_AS(w.read_elements(-1, 2, row), doctest::Contains("no elements -1 to 2"), Error);
    CHECK_THROWS_WITH_AS(w.read_elements(1, 3, row),
                         doctest::Contains("found room for 3 elements, expected 2"), Error);
    CHECK_THROWS_WITH_AS(c.tensor("i").read_elements(0, 1, std::span(row, 1)),
                         doctest::Contains("cannot be read as floats; found I32"), Error);
    uint16_t halves[2];
    c.tensor("b").read_rows(0, 2, halves);
    CHECK(halves[0] == 0x3c00);
    CHECK(halves[1] == 0xc000);
    CHECK_THROWS_WITH_AS(c.tensor("i").read_rows(0, 1, std::span(row, 1)),
                         doctest::Contains("cannot be read as floats; found I32"), Error);
    CHECK_THROWS_WITH_AS(w.read_rows(1, 3, row), doctest::Contains("no rows 1 to 3"), Error);
    CHECK_THROWS_WITH_AS(w.read_rows(-1, 1, row), doctest::Contains("no rows -1 to 1"), Error);
    CHECK_THROWS_WITH_AS(w.read_rows(0, 2, row), doctest::Contains("found room for 3 elements, expected 6"),
                         Error);
    CHECK_THROWS_WITH_AS(c.tensor("none"), doctest::Contains("there is no tensor 'none'"), Error);
    CHECK(c.find("none") == nullptr);
  }
  folder.write("config.json", "[1]");
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("is not a JSON object"), Error);
  folder.write("config.json", "{\"a\":");
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("is not valid JSON: line "), Error);
  folder.write("config.json", std::string(70, '[') + std::string(70, ']'));
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("nested more than"), Error);
}

TEST_CASE("a GGUF file, or a folder with one, is a checkpoint") {
  TempFolder folder;
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path() / "none"),
                       doctest::Contains("there is no such file or folder"), Error);
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("a folder without a checkpoint"),
                       Error);
  GgufBuilder b;
  b.value("general.architecture", "qwen3").value("general.name", "Small").value("general.license", "mit");
  b.array<int32_t>("general.author", 5, {1}).value("general.organization", "We");
  b.tensor("w", {32, 2}, 8, 0).data(random_string(68, 1));
  const auto path = folder.write("model.bin", b.bytes());
  CHECK(Checkpoint::open(path).architecture() == "qwen3");
  std::filesystem::rename(path, folder.path() / "m.gguf");
  const Checkpoint c = Checkpoint::open(folder.path());
  CHECK(c.format_name() == "GGUF");
  CHECK(c.source_name() == "Small");
  CHECK(c.license() == "mit");
  CHECK(c.author() == "We");
  CHECK(c.folder() == folder.path());
  CHECK(c.value("general.name") == nlohmann::ordered_json("Small"));
  const Checkpoint copy = c;  // a handle
  CHECK(&copy.tensor("w") == &c.tensor("w"));
  folder.write("n.gguf", b.bytes());
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path()), doctest::Contains("found 2 GGUF files"), Error);
  folder.write("x.bin", "\x08");
  CHECK_THROWS_WITH_AS(Checkpoint::open(folder.path() / "x.bin"),
                       doctest::Contains("is not a checkpoint that can be read"), Error);
}

TEST_CASE("any row range of any shape equals the whole, alone or on all cores, with pages given back") {
  constexpr int64_t kRows = 301, kColumns = 2816;  // more than one tile of work, no power of two
  const BlockInfo& q4k = *block_info(BlockType::q4_k);
  const uint64_t matrix = block_bytes(q4k, kRows * kColumns),
                 vector = block_bytes(*block_info(BlockType::q8_0), 96);
  GgufBuilder b;
  b.tensor("matrix", {kColumns, kRows}, 12, 0);
  const uint64_t second = (matrix + 31) / 32 * 32;
  b.tensor("stack", {256, 2, 3}, 12, second);
  const uint64_t third = second + (block_bytes(q4k, 256 * 6) + 31) / 32 * 32;
  b.tensor("vector", {96}, 8, third).data(random_string(third + vector, 5));
  TempFolder folder;
  const Checkpoint c = Checkpoint::open(folder.write("m.gguf", b.bytes()));
  ThreadPool pool(3);
  for (const TensorReader& t : c.tensors()) {
    CAPTURE(t.name());
    const auto count = static_cast<size_t>(t.rows() * t.row_elements());
    std::vector<float> whole(count);
    decode_blocks_plain(t.blocks()->type, t.blocks()->bytes.data(), static_cast<int64_t>(count),
                        whole.data());
    const std::vector<float> parallel = t.read_floats(pool);
    CHECK(same(parallel, std::span(whole)));
    std::vector<uint16_t> halves(count);
    t.read_all(pool, std::span(halves));
    std::mt19937 random(3);
    for (int round = 0; round < 40; ++round) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(t.rows() + 1));
      const auto end = begin + static_cast<int64_t>(random() % static_cast<uint64_t>(t.rows() - begin + 1));
      const auto size = static_cast<size_t>((end - begin) * t.row_elements());
      const auto at = static_cast<size_t>(begin * t.row_elements());
      std::vector<float> part(size);
      std::vector<uint16_t> half_part(size);
      t.read_rows(begin, end, std::span(part));
      t.release_rows(begin, end);
      t.read_rows(begin, end, std::span(half_part));
      CHECK(same(part, std::span(whole).subspan(at, size)));
      CHECK(same(half_part, std::span(halves).subspan(at, size)));
      // The same without regard to rows: from and to any element.
      const auto from = static_cast<int64_t>(random() % (count + 1));
      const auto to = from + static_cast<int64_t>(random() % (count - static_cast<size_t>(from) + 1));
      std::vector<float> elements(static_cast<size_t>(to - from));
      t.release_elements(from, to);
      t.read_elements(from, to, elements);
      CHECK(same(elements, std::span(whole).subspan(static_cast<size_t>(from), elements.size())));
    }
  }
}

TEST_CASE("a tensor beyond 4 GiB is read at its place") {
  constexpr uint64_t kFar = uint64_t{5} << 30;  // a sparse file: nothing but its ends is stored
  GgufBuilder b;
  b.tensor("near", {uint64_t{1} << 20, 1280}, 0, 0).tensor("far", {4}, 0, kFar);
  std::string bytes = b.bytes();
  bytes.resize((bytes.size() + 31) / 32 * 32);
  TempFolder folder;
  const auto path = folder.write("m.gguf", bytes);
  std::filesystem::resize_file(path, bytes.size() + kFar + 16);
  const float values[4] = {1, 2, 3, 4};
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(bytes.size() + kFar - 4));  // also the last of the one before
  file.write(reinterpret_cast<const char*>(values), 4);
  file.write(reinterpret_cast<const char*>(values), 16);
  file.close();
  const Checkpoint c = Checkpoint::open(path);
  float out[4];
  c.tensor("far").read_rows(0, 4, out);
  CHECK(out[3] == 4.0f);
  std::vector<float> row(size_t{1} << 20);
  c.tensor("near").read_rows(1279, 1280, std::span(row));
  CHECK(row.back() == 1.0f);
  CHECK(row.front() == 0.0f);
  c.tensor("near").release_rows(0, 1280);
  CHECK(c.stored_bytes() == kFar + 16);
}
