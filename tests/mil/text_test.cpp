#include "mil/text.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "anemone/error.h"
#include "base/mapped_file.h"
#include "support/data.h"

using namespace anemone;

namespace {

const char* const kSmall = R"(program(1.3)
[buildInfo = dict<string, string>({{"tool", "ours"}})]
{
    func main<ios18>(tensor<fp16, [1, 8, ?, 4]> x, state<tensor<fp16, [1, 8]>> acc) {
            tensor<fp16, [8, 8, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [8, 8, 1, 1]>(BLOBFILE(path = string("@model_path/weights/weight.bin"), offset = uint64(64)))];
            tensor<int32, [2]> st = const()[name = string("st"), val = tensor<int32, [2]>([1, -1])];
            bool flag = const()[name = string("flag"), val = bool(true)];
            tensor<fp32, [2, 2]> m = const()[name = string("m"), val = tensor<fp32, [2, 2]>([[0x1p+0, -0x1.8p+1], [inf, nan]])];
            tensor<int4, [3]> q = const()[name = string("q"), val = tensor<int4, [3]>([-8, 7, 1])];
            string s = const()[name = string("s"), val = string("a \"quoted\" \\ text")];
            tensor<fp16, [1, 8]> old = read_state(input = acc)[name = string("old")];
            tensor<fp16, [1, 8, ?, 4]> h, tensor<fp16, [1, 8, ?, 4]> g = split(axis = int32(1), x = x)[name = string("h")];
            tensor<fp16, [1, 8, ?, 4]> y = concat(axis = int32(1), values = (h, g))[name = string("y")];
            tensor<fp16, [1]> c = cond(pred = flag)[name = string("c")] () {
                tensor<fp16, [1]> a = identity(x = y)[name = string("a")];
            } -> (a) () {
                tensor<fp16, [1]> b = identity(x = y)[name = string("b")];
            } -> (b);
            write_state(data = old, input = acc)[name = string("wr")];
        } -> (y, c);
}
)";

}  // namespace

TEST_CASE("MIL text parses, prints and parses again to the same program") {
  const Program p = parse_mil(kSmall, "small");
  const std::string printed = print_mil(p);
  const Program q = parse_mil(printed, "printed");
  CHECK(same_program(p, q));
  CHECK(print_mil(q) == printed);
  CHECK(printed == kSmall);
  const Function& f = *p.find_function("main");
  CHECK(f.inputs[0]->type == Type::tensor(DType::fp16, {1, 8, Dim::unknown(), 4}));
  CHECK(f.body.ops.size() == 11);
  CHECK(f.body.ops[9]->blocks.size() == 2);
  CHECK(f.body.ops[4]->outputs[0]->constant()->bytes().size() == 2);
}

TEST_CASE("literals of unknown size print the elements that they have, whatever their type") {
  for (const char* literal :
       {"tensor<fp16, [?]>([0x1p+0, -0x1.8p+1])", "tensor<int16, [?]>([1, -4])", "tensor<bool, [?]>([true])",
        "tensor<uint32, [?]>([4294967295])", "tensor<int32, [?]>([])"}) {
    const std::string text = fmt::format("program(1.0)\n[a = {}]\n{{\n}}\n", literal);
    CHECK(print_mil(parse_mil(text, "m.mil")) == text);
  }
  // Packed bytes do not tell how many elements there are.
  CHECK_THROWS_AS(parse_mil("program(1.0)\n[a = tensor<int4, [?]>([1])]\n{\n}\n", "m.mil"), Error);
}

TEST_CASE("what is wrong in MIL text is said with line and column") {
  const auto error = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    try {
      parse_mil(text, "m.mil");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK(error(kSmall, "x = x)", "x = z)") == "m.mil:12:102: the value 'z' is not defined");
  CHECK(error(kSmall, "ios18", "ios99").find("unknown opset 'ios99'") != std::string::npos);
  CHECK(error(kSmall, "[1, -1]", "[1, -1, 3]").find("has 3 elements") != std::string::npos);
  CHECK(error(kSmall, "program(1.3)", "program(7)").find("unknown version") != std::string::npos);
  CHECK(error(kSmall, "tensor<int4", "tensor<int5").find("unknown type 'int5'") != std::string::npos);
  CHECK(error(kSmall, "st = const", "w = const").find("'w' is defined twice") != std::string::npos);
  CHECK(error("program(1.0){" + std::string(100, '[') + "func", "func", "func").find("m.mil:1:") == 0);
  CHECK(error(kSmall, "} -> (y, c);", "").find("m.mil:") == 0);
  // A number that its type does not hold is not cut to fit.
  CHECK(error(kSmall, "[-8, 7, 1]", "[-8, 8, 1]") ==
        "m.mil:9:93: the number is outside its type; found 8, expected int4: -8 to 7");
  for (const char* literal :
       {"int8(128)", "int8(-129)", "uint8(-1)", "uint8(256)", "int32(2147483648)", "uint1(2)",
        "uint64(18446744073709551616)", "int64(-9223372036854775809)", "fp8e5m2(1)"})
    CHECK_MESSAGE(error(kSmall, "bool(true)", literal) != "no error", literal);
  for (const char* literal : {"int8(-128)", "uint8(255)", "uint8(-0)", "int32(-2147483648)",
                              "uint64(18446744073709551615)", "int64(-9223372036854775808)", "int32(0x10)"})
    CHECK_MESSAGE(error(kSmall, "bool(true)", literal) == "no error", literal);
}

TEST_CASE("a fault behind the text is said with the place in the text, and once") {
  const auto broken = [](Blob&, const Type&) { throw Error("the blob is not there").at("weight.bin"); };
  try {
    parse_mil(kSmall, "m.mil", broken);
    CHECK(false);
  } catch (const Error& e) {
    CHECK(std::string(e.what()) == "m.mil:5:183: weight.bin: the blob is not there");
  }
}

TEST_CASE("compiled models' texts parse, print and parse again to the same program") {
  const auto root = data_folder("mil_text");
  if (!root) return;
  int count = 0;
  const auto temporary = std::filesystem::temp_directory_path() / "anemone_mil_text_test.mil";
  for (const auto& entry : std::filesystem::directory_iterator(*root)) {
    std::filesystem::path path = entry.path();
    if (path.string().ends_with(".mil.xz")) {
      const std::string command = "xz -dc '" + path.string() + "' > '" + temporary.string() + "'";
      REQUIRE(std::system(command.c_str()) == 0);
      path = temporary;
    } else if (path.extension() != ".mil") {
      continue;
    }
    INFO(entry.path().string());
    const auto file = MappedFile::open(path);
    const Program p = parse_mil(file->text(), path.string());
    const std::string printed = print_mil(p);
    CHECK(same_program(p, parse_mil(printed, "printed")));
    ++count;
    // And this printer writes what the compiler writes, but for a line break at the very end.
    if (file->text().find("\"coremlc-version\"") == std::string_view::npos) continue;
    CHECK(printed.substr(0, printed.rfind('}')) == file->text().substr(0, file->text().rfind('}')));
  }
  std::filesystem::remove(temporary);
  CHECK(count > 0);
}
