#include "checkpoint/gguf.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "checkpoint/gguf_builder.h"
#include "support/temp_folder.h"

using namespace anemone;
using test::GgufBuilder;

namespace {

GgufFile parse(const std::string& bytes) {
  return GgufFile::from_parts({MappedFile::from_bytes("t.gguf", bytes)});
}

std::string error_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

GgufBuilder sound() {
  GgufBuilder b;
  b.value("general.architecture", "llama").number<uint32_t>("llama.block_count", 4, 7);
  b.tensor("a", {32, 2}, 8, 0).tensor("b", {4}, 0, 96).data(112);
  return b;
}

std::string cut(std::string bytes, size_t keep) { return bytes.substr(0, keep); }

std::string patched(std::string bytes, size_t at, std::string_view with) {
  return bytes.replace(at, with.size(), with);
}

}  // namespace

TEST_CASE("metadata of every type is read back") {
  GgufBuilder b;
  b.number<uint8_t>("u8", 0, 200).number<int8_t>("i8", 1, -3).number<uint16_t>("u16", 2, 60000);
  b.number<int16_t>("i16", 3, -300).number<uint32_t>("u32", 4, 4000000000u).number<int32_t>("i32", 5, -70000);
  b.number<float>("f32", 6, 0.5f).number<uint8_t>("bool", 7, 1).value("string", "text \xff\0x");
  b.number<uint64_t>("u64", 10, 1ull << 60)
      .number<int64_t>("i64", 11, -(1ll << 60))
      .number<double>("f64", 12, 0.1);
  b.strings("tokens", {"", "a", std::string(300, 'b')}).array<int32_t>("types", 5, {1, -2, 3});
  b.array<float>("scores", 6, {0.25f, -1.0f})
      .array<uint8_t>("flags", 7, {0, 1})
      .array<uint32_t>("none", 4, {});
  b.number<uint64_t>("huge", 10, UINT64_MAX);
  const GgufFile g = parse(b.bytes());
  CHECK(g.version() == 3);
  CHECK(g.values().size() == 18);
  CHECK(g.integer("u8") == 200);
  CHECK(g.integer("i8") == -3);
  CHECK(g.integer("u16") == 60000);
  CHECK(g.integer("i16") == -300);
  CHECK(g.integer("u32") == 4000000000ll);
  CHECK(g.integer("i32") == -70000);
  CHECK(g.integer("u64") == 1ll << 60);
  CHECK(g.integer("i64") == -(1ll << 60));
  CHECK(g.number("f32") == 0.5);
  CHECK(g.number("f64") == 0.1);
  CHECK(g.number("i8") == -3.0);
  CHECK(g.boolean("bool") == true);
  CHECK(g.string("string") == std::string_view("text \xff\0x"));
  CHECK(g.strings("tokens") == std::vector<std::string_view>{"", "a", g.strings("tokens")[2]});
  CHECK(g.strings("tokens")[2] == std::string(300, 'b'));
  CHECK(g.integers("types") == std::vector<int64_t>{1, -2, 3});
  CHECK(g.integers("u8") == std::vector<int64_t>{200});
  CHECK(g.numbers("scores") == std::vector<double>{0.25, -1.0});
  CHECK(g.booleans("flags") == std::vector<bool>{false, true});
  CHECK(g.integers("none").empty());
  CHECK(!g.integer("absent"));
  CHECK(g.strings("absent").empty());
  CHECK_THROWS_WITH_AS(g.integer("string"), doctest::Contains("'string' has the wrong type; found string"),
                       Error);
  CHECK_THROWS_WITH_AS(g.integer("types"), doctest::Contains("found an array of i32, expected an integer"),
                       Error);
  CHECK_THROWS_WITH_AS(g.string("u8"), doctest::Contains("expected a string"), Error);
  CHECK_THROWS_WITH_AS(g.strings("string"), doctest::Contains("expected an array of strings"), Error);
  CHECK_THROWS_WITH_AS(g.booleans("bool"), doctest::Contains("expected an array of bools"), Error);
  CHECK_THROWS_WITH_AS(g.integer("f32"), doctest::Contains("expected an integer"), Error);
  CHECK_THROWS_WITH_AS(g.integer("huge"), doctest::Contains("out of range"), Error);
}

TEST_CASE("the tensor table has row-major shapes and absolute offsets") {
  const std::string bytes = sound().bytes();
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder b = sound();
    b.version = version;
    const GgufFile g = parse(b.bytes());
    REQUIRE(g.tensors().size() == 2);
    CHECK(g.tensor("a")->shape == std::vector<int64_t>{2, 32});
    CHECK(g.tensor("a")->type == BlockType::q8_0);
    CHECK(g.tensor("a")->bytes == 68);
    CHECK(g.tensor("a")->offset == bytes.size() - 112);
    CHECK(g.tensor("b")->offset == bytes.size() - 16);
    CHECK(g.data(*g.tensor("b")).size() == 16);
    CHECK(g.tensor("c") == nullptr);
  }
}

TEST_CASE("a broken GGUF file gives an error that names what is wrong") {
  const std::string good = sound().bytes();
  const auto with_tensor = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset,
                              size_t data = 4096) {
    GgufBuilder b;
    return b.tensor("w", dims, type, offset).data(data).bytes();
  };
  const auto with_value = [](uint32_t type, std::string_view payload) {
    GgufBuilder b;
    return b.raw("k", type, payload).bytes();
  };
  const auto counts = [](int64_t tensors, int64_t values) {
    GgufBuilder b = sound();
    b.extra_tensors = tensors;
    b.extra_values = values;
    return b.bytes();
  };
  const std::string u64max(8, '\xff');
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"", "is not a GGUF file"},
      {"GGML" + good.substr(4), "is not a GGUF file"},
      {"FUGG" + good.substr(4), "big-endian"},
      {"tjgg" + good.substr(4), "older ggml format"},
      {patched(good, 4, std::string("\0\0\0\3", 4)), "big-endian"},
      {patched(good, 4, std::string("\1\0\0\0", 4)), "version 1 is obsolete"},
      {patched(good, 4, std::string("\4\0\0\0", 4)), "found 4, expected 2 or 3"},
      {patched(good, 4, std::string("\0\0\0\0", 4)), "found 0, expected 2 or 3"},
      {cut(good, 10), "GGUF header needs 8 bytes"},
      {cut(good, 60), "claims 2 tensors, more than the file can hold"},
      {cut(good, 95), "past the end"},
      {cut(good, good.size() - 1), "tensor 'b' is not inside the file"},
      {patched(good, 8, u64max), "tensors, more than the file can hold"},
      {patched(good, 16, u64max), "metadata values, more than the file can hold"},
      {counts(1, 0), "t.gguf"},
      {counts(0, 1), "t.gguf"},
      {patched(good, 24, u64max), "metadata key needs 18446744073709551615 bytes"},
      {with_value(13, "1234567890"), "unknown type; found 13"},
      {with_value(7, "\2"), "is not a boolean; found 2"},
      {with_value(9, std::string("\4\0\0\0", 4) + u64max), "claims 18446744073709551615 elements"},
      {with_value(9, std::string("\10\0\0\0", 4) + u64max), "claims 18446744073709551615 elements"},
      {with_value(9, std::string("\11\0\0\0", 4) + std::string(8, '\0')), "array of arrays"},
      {with_value(9, std::string("\10\0\0\0\1\0\0\0\0\0\0\0", 12) + u64max), "metadata string needs"},
      {GgufBuilder().value("", "x").bytes(), "empty key"},
      {GgufBuilder().value("k", "x").value("j", "").value("k", "y").bytes(), "metadata key 'k' occurs twice"},
      {GgufBuilder().tensor("", {1}, 0, 0).data(4).bytes(), "empty name"},
      {GgufBuilder().tensor("w", {1}, 0, 0).tensor("w", {1}, 0, 32).data(64).bytes(),
       "tensor 'w' occurs twice"},
      {GgufBuilder().tensor("v", {9}, 0, 0).tensor("w", {1}, 0, 32).data(64).bytes(), "'v' and 'w' overlap"},
      {with_tensor({}, 0, 0), "impossible number of dimensions; found 0"},
      {with_tensor({1, 1, 1, 1, 1}, 0, 0), "impossible number of dimensions; found 5"},
      {with_tensor({UINT64_MAX}, 0, 0), "impossible dimension"},
      {with_tensor({1ull << 40, 1ull << 40}, 0, 0), "more elements than can be counted"},
      {with_tensor({1ull << 61}, 28, 0), "larger than can be addressed"},
      {with_tensor({1ull << 50}, 0, 0), "is not inside the file"},
      {with_tensor({33}, 8, 0), "not a whole number of Q8_0 blocks"},
      {with_tensor({32}, 12, 0), "expected rows of a multiple of 256"},
      {with_tensor({4}, 4, 0), "unknown or was removed from the format; found type 4"},
      {with_tensor({32}, 9, 0), "found type 9"},
      {with_tensor({4}, 256, 0), "found type 256"},
      {with_tensor({4}, 0, 16), "is not aligned"},
      {with_tensor({4}, 0, UINT64_MAX - 31), "is not inside the file"},
      {with_tensor({4}, 0, 4096), "is not inside the file"},
      {GgufBuilder().number<uint32_t>("general.alignment", 4, 0).bytes(), "not a power of two"},
      {GgufBuilder().number<uint32_t>("general.alignment", 4, 24).bytes(), "not a power of two"},
      {GgufBuilder().value("general.alignment", "x").bytes(), "not a 32-bit integer"},
      {GgufBuilder().number<uint16_t>("split.count", 2, 3).bytes(),
       "found split.no 0 of 3, expected split.no 0 of 1"},
  };
  for (const auto& c : cases) {
    const std::string message = error_of(c.bytes);
    CAPTURE(message);
    CHECK_MESSAGE(message.find(c.message) != std::string::npos, c.message);
    CHECK(message.starts_with("t.gguf"));
  }
}

TEST_CASE("no prefix of a GGUF file is taken for a whole one, and none crashes") {
  const std::string good = sound().bytes();
  for (size_t size = 0; size < good.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(good.substr(0, size)) != "no error");
  }
  CHECK(error_of(good) == "no error");
}

TEST_CASE("the alignment of the file is used") {
  GgufBuilder b;
  b.alignment = 256;
  b.number<uint32_t>("general.alignment", 4, 256).tensor("w", {1}, 0, 256).data(260);
  const GgufFile g = parse(b.bytes());
  CHECK(g.tensor("w")->offset % 256 == 0);
  CHECK(g.tensor("w")->offset + 4 == b.bytes().size());
}

TEST_CASE("a split checkpoint is opened from any of its parts") {
  const auto part = [](uint16_t number, uint16_t count, int32_t total) {
    GgufBuilder b;
    if (number == 0) b.value("general.architecture", "llama");
    b.number("split.no", 2, number).number("split.count", 2, count).number("split.tensors.count", 5, total);
    if (number > 0) b.tensor("w" + std::to_string(number), {2}, 0, 0).data(8);
    return b.bytes();
  };
  const TempFolder folder;
  const auto name = [&](int i) { return folder.path() / ("m-0000" + std::to_string(i) + "-of-00003.gguf"); };
  const auto write = [&](const std::filesystem::path& path, const std::string& bytes) {
    return folder.write(path.filename().string(), bytes);
  };
  for (int i = 0; i < 3; ++i) write(name(i + 1), part(static_cast<uint16_t>(i), 3, 2));
  for (int i = 1; i <= 3; ++i) {
    const GgufFile g = GgufFile::open(name(i));
    CHECK(g.parts().size() == 3);
    CHECK(g.string("general.architecture") == "llama");
    REQUIRE(g.tensors().size() == 2);
    CHECK(g.tensor("w2")->part == 2);
    CHECK(g.data(*g.tensor("w2")).size() == 8);
  }
  const auto other = write("other.gguf", part(0, 3, 2));
  CHECK_THROWS_WITH_AS(GgufFile::open(other), doctest::Contains("its name does not say which"), Error);
  write(name(2), part(2, 3, 2));
  CHECK_THROWS_WITH_AS(GgufFile::open(name(1)),
                       doctest::Contains("found split.no 2 of 3, expected split.no 1 of 3"), Error);
  write(name(2), part(1, 3, 2));
  write(name(1), part(0, 3, 5));
  CHECK_THROWS_WITH_AS(GgufFile::open(name(1)), doctest::Contains("found 2 tensors, expected 5"), Error);
  std::filesystem::remove(name(3));
  CHECK_THROWS_WITH_AS(GgufFile::open(name(1)), doctest::Contains("part 3 of 3 is missing"), Error);
}
