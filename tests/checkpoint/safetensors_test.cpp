#include "checkpoint/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/gguf_builder.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

std::string file_of(std::string_view header, size_t data_bytes) {
  std::string bytes;
  test::put<uint64_t>(bytes, header.size());
  return bytes + std::string(header) + std::string(data_bytes, '\1');
}

SafetensorsFile parse(const std::string& bytes) {
  return SafetensorsFile::from_file(MappedFile::from_bytes("t.safetensors", bytes));
}

std::string error_of(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, uint64_t begin,
                  uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin,
                     end);
}

std::string one(std::string_view dtype, std::string_view shape, uint64_t begin, uint64_t end, size_t data) {
  return file_of("{" + entry("w", dtype, shape, begin, end) + "}", data);
}

}  // namespace

TEST_CASE("a safetensors header is read, in any order, with metadata and padding") {
  const std::string header = R"({"__metadata__":{"format":"pt","a":"b"},)" +
                             entry("b", "F16", "[2, 3]", 4, 16) + "," + entry("a", "F32", "[]", 0, 4) + "," +
                             entry("empty", "I64", "[0,7]", 16, 16) + "}     ";
  const SafetensorsFile f = parse(file_of(header, 12 + 4));
  REQUIRE(f.tensors().size() == 3);
  CHECK(f.tensors()[0].name == "a");
  CHECK(f.tensor("a")->shape.empty());
  CHECK(f.tensor("b")->shape == std::vector<int64_t>{2, 3});
  CHECK(f.tensor("b")->type == BlockType::f16);
  CHECK(f.tensor("b")->offset == 8 + header.size() + 4);
  CHECK(f.data(*f.tensor("b")).size() == 12);
  CHECK(f.tensor("empty")->bytes == 0);
  CHECK(f.tensor("c") == nullptr);
  CHECK(f.metadata("a") == "b");
  CHECK(!f.metadata("z"));
}

TEST_CASE("every dtype has its size") {
  const struct {
    const char* name;
    uint64_t bytes;
  } types[] = {{"F64", 8},  {"F32", 4},     {"F16", 2},     {"BF16", 2},   {"I64", 8}, {"I32", 4},
               {"I16", 2},  {"I8", 1},      {"U64", 8},     {"U32", 4},    {"U16", 2}, {"U8", 1},
               {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& t : types) {
    CAPTURE(t.name);
    CHECK(parse(one(t.name, "[3]", 0, 3 * t.bytes, 3 * t.bytes)).tensor("w")->bytes == 3 * t.bytes);
  }
}

TEST_CASE("a broken safetensors file gives an error that names what is wrong") {
  const std::string good = one("F32", "[2]", 0, 8, 8);
  std::string huge = good;
  huge.replace(0, 8, std::string(8, '\xff'));
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"", "header length needs 8 bytes"},
      {good.substr(0, 7), "header length needs 8 bytes"},
      {good.substr(0, 20), "header does not fit"},
      {huge, "header does not fit"},
      {good.substr(0, good.size() - 1), "tensor 'w' is not inside the file"},
      {good + "x", "the tensors do not fill the file; found 9 bytes of data, expected 8"},
      {file_of(" {}", 0), "does not begin with '{'"},
      {file_of("", 0), "does not begin with '{'"},
      {file_of("{", 0), "not valid JSON"},
      {file_of("{}x", 0), "not valid JSON"},
      {file_of("{\"\xff\":1}", 0), "not valid JSON"},
      {file_of("{\"w\":1}", 0), "unexpected value at 'w'; found 1"},
      {file_of("{\"w\":[]}", 0), "found a list"},
      {file_of("{\"w\":null}", 0), "found null"},
      {file_of(R"({"w":{}})", 0), "entry of tensor 'w' is incomplete"},
      {file_of(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 0), "incomplete"},
      {file_of(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,4,5]}})", 4),
       "unexpected value at 'data_offsets'"},
      {file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})", 0), "unexpected field; found 'dtype'"},
      {file_of(R"({"w":{"stride":1}})", 0), "unexpected field; found 'stride'"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), "unexpected value at 'a'"},
      {one("F32", "[-2]", 0, 8, 8), "found -2"},
      {one("F32", "[2.0]", 0, 8, 8), "found 2.0"},
      {one("F32", "[[2]]", 0, 8, 8), "found a list"},
      {one("F31", "[2]", 0, 8, 8), "dtype that is not supported; found 'F31'"},
      {one("F32", "[3]", 0, 8, 8), "expected 12 bytes for [3] of F32"},
      {one("F32", "[2]", 8, 0, 8), "the size of its shape"},
      {one("F32", "[2]", 1, 9, 9), "leaves a gap"},
      {one("F32", "[4611686018427387904, 4611686018427387904]", 0, 8, 8),
       "more elements than can be counted"},
      {one("F64", "[4611686018427387904]", 0, 8, 8), "more than can be addressed"},
      {one("F32", "[2]", 0, UINT64_MAX, 8), "is not inside the file"},
      {file_of("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 2, 6) + "}", 6),
       "overlaps"},
      {file_of("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("a", "U8", "[4]", 4, 8) + "}", 8),
       "'a' occurs twice"},
  };
  for (const auto& c : cases) {
    const std::string message = error_of(c.bytes);
    CAPTURE(message);
    CHECK_MESSAGE(message.find(c.message) != std::string::npos, c.message);
    CHECK(message.starts_with("t.safetensors"));
  }
  CHECK(error_of(good) == "no error");
  for (size_t size = 0; size < good.size(); ++size) CHECK(error_of(good.substr(0, size)) != "no error");
}

TEST_CASE("an index puts the files together, and may not contradict them") {
  TempFolder folder;
  const auto index = [&](std::string_view map) {
    return folder.write("model.safetensors.index.json",
                        fmt::format(R"({{"metadata":{{}},"weight_map":{}}})", map));
  };
  folder.write("one.safetensors",
               file_of("{" + entry("a", "U8", "[4]", 0, 4) + "," + entry("x", "U8", "[1]", 4, 5) + "}", 5));
  folder.write("two.safetensors",
               file_of("{" + entry("b", "U8", "[2]", 0, 2) + "," + entry("c", "U8", "[1]", 2, 3) + "}", 3));
  folder.write("again.safetensors", file_of("{" + entry("a", "U8", "[4]", 0, 4) + "}", 4));
  index(R"({"a":"one.safetensors","b":"two.safetensors"})");
  const SafetensorsFile f = SafetensorsFile::open(folder.path());
  CHECK(f.parts().size() == 2);
  CHECK(f.tensors().size() == 4);  // those that it does not name as well
  CHECK(f.tensor("a")->bytes == 4);
  CHECK(f.data(*f.tensor("b")).size() == 2);
  const auto fails_with = [&](std::string_view map, const char* message) {
    CHECK_THROWS_WITH_AS(SafetensorsFile::open(index(map)), doctest::Contains(message), Error);
  };
  fails_with(R"({"a":"three.safetensors"})", "a file of the index is missing");
  fails_with(R"({"a":"../one.safetensors"})", "outside the folder");
  fails_with(R"({"a":""})", "outside the folder");
  fails_with(R"({"q":"one.safetensors"})", "tensor 'q' of the index is not in its file");
  fails_with(R"({"a":"two.safetensors","b":"one.safetensors"})",
             "of the index is not in its file; found it in");
  fails_with(R"({"x":"one.safetensors","a":"again.safetensors"})", "tensor 'a' occurs twice; found it in");
  fails_with(R"({"a":7})", "is not an index");
  fails_with(R"({"a":7})", "tensor 'a' in a file whose name is not a text");
  fails_with("{\"a\":\"" + std::string(5000, 'x') + "\"}", "name is too long");
  fails_with(R"(["one.safetensors"])", "is not an index");
  fails_with("{}", "names no tensor");
  fails_with("{", "is not an index");
  fails_with(std::string(100000, '[') + "1", "nested too deep");
}

TEST_CASE("a folder without one clear checkpoint is refused") {
  TempFolder folder;
  CHECK_THROWS_WITH_AS(SafetensorsFile::open(folder.path()), doctest::Contains("found 0 .safetensors files"),
                       Error);
  folder.write("one.safetensors", file_of("{}", 0));
  CHECK(SafetensorsFile::open(folder.path()).tensors().empty());
  folder.write("two.safetensors", file_of("{}", 0));
  CHECK_THROWS_WITH_AS(SafetensorsFile::open(folder.path()), doctest::Contains("found 2 .safetensors files"),
                       Error);
}
