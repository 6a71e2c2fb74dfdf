#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/staged.h"
#include "base/thread_pool.h"
#include "package/blob.h"
#include "package/build.h"
#include "package/package.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

// Element i of the packed stream is i modulo 2^bits, whatever the rows asked for.
class Counting : public WeightSource {
 public:
  Counting(Type type) : type_(std::move(type)) {}
  const Type& type() const override { return type_; }
  void prepare(ThreadPool&) override { ++prepared; }
  void rows(int64_t begin, int64_t end, std::span<std::byte> out) const override {
    const int bits = dtype_bits(type_.dtype);
    const int64_t row = type_.size() / type_.dim(0).size();
    CHECK(begin % 8 == 0);
    CHECK((end % 8 == 0 || end == type_.dim(0).size()));
    for (int64_t i = 0; i < (end - begin) * row * bits; ++i) {
      const int64_t element = begin * row + i / bits;
      if (element >> (i % bits) & 1) out[static_cast<size_t>(i / 8)] |= std::byte{1} << (i % 8);
    }
  }
  int prepared = 0;

 private:
  Type type_;
};

}  // namespace

TEST_CASE("every package of the corpus reads back as it was written, in the same bytes each time") {
  TempFolder folder;
  ThreadPool one(1), many(4);
  for (const auto& path : data_packages()) {
    CAPTURE(path.string());
    const Package package = read_package(path);
    write_package(package, folder / "a.mlpackage", {.overwrite = true, .pool = &one});
    const Package back = read_package(folder / "a.mlpackage");
    CHECK(same_program(package.program, back.program));
    CHECK(package.description == back.description);
    CHECK(package.spec_version == back.spec_version);
    CHECK(package.extra == back.extra);
    write_package(back, folder / "b.mlpackage", {.overwrite = true, .pool = &many});
    CHECK(all_files(folder / "a.mlpackage") == all_files(folder / "b.mlpackage"));
  }
}

TEST_CASE("a package has the files and the weight records of the format") {
  TempFolder folder;
  const WriteReport report = write_package(small_package(), folder / "m.mlpackage");
  CHECK(report.blobs == 1);
  auto files = all_files(folder / "m.mlpackage");
  CHECK(files.size() == 3);
  CHECK(files.contains("Manifest.json"));
  CHECK(files.contains("Data/com.apple.CoreML/model.mlmodel"));
  const std::string weights = files["Data/com.apple.CoreML/weights/weight.bin"];
  REQUIRE(weights.size() == 64 + 64 + 64);  // header, record, data: no tail
  const auto u32 = [&](size_t at) {
    uint32_t v;
    std::memcpy(&v, weights.data() + at, 4);
    return v;
  };
  const auto u64 = [&](size_t at) {
    uint64_t v;
    std::memcpy(&v, weights.data() + at, 8);
    return v;
  };
  CHECK(u32(0) == 1);
  CHECK(u32(4) == 2);
  CHECK(u32(64) == 0xDEADBEEF);
  CHECK(u32(68) == 1);  // fp16
  CHECK(u64(72) == 64);
  CHECK(u64(80) == 128);
  CHECK(u64(88) == 0);
  CHECK(weights.substr(128, 6) == std::string("\x00\x00\x00\x38\x00\x3c", 6));  // 0, 0.5, 1
}

TEST_CASE("the threshold decides between in place and weight file") {
  TempFolder folder;
  struct Case {
    DType dtype;
    int64_t elements;
    int version;
    bool blob;
  };
  const Case cases[] = {
      {DType::fp16, 9, 9, false},     {DType::fp16, 10, 9, true},  {DType::fp16, 10, 6, true},
      {DType::int32, 10, 8, false},   {DType::int32, 10, 9, true}, {DType::int4, 10, 9, true},
      {DType::boolean, 50, 9, false}, {DType::uint8, 10, 7, true},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(dtype_name(c.dtype)));
    Package package = small_package();
    package.spec_version = c.version;
    package.program.functions[0]->body.ops[0]->attributes.at("val") =
        Constant::from_bytes(Type::tensor(c.dtype, {c.elements}),
                             Constant::Bytes(static_cast<size_t>(c.elements * dtype_bits(c.dtype) + 7) / 8));
    package.program.functions[0]->body.ops[0]->outputs[0]->type = Type::tensor(c.dtype, {c.elements});
    const WriteReport report = write_package(package, folder / "m.mlpackage", {.overwrite = true});
    CHECK(report.blobs == (c.blob ? 1 : 0));
  }
}

TEST_CASE("equal weights are stored once, also across functions") {
  TempFolder folder;
  Package package = small_package();
  Package other = small_package();
  other.program.functions[0]->name = "second";
  package.program.functions.push_back(std::move(other.program.functions[0]));
  add_const(*package.program.functions[0], "different",
            Constant::numbers(std::vector<float>(32, 7.0f), DType::fp16, {32}));
  package.description = description_of(package.program);
  const WriteReport report = write_package(package, folder / "m.mlpackage");
  CHECK(report.blobs == 2);
  CHECK(report.shared == 1);
  const Package back = read_package(folder / "m.mlpackage");
  CHECK(same_program(package.program, back.program));
  const auto offset = [&](size_t f) {
    return std::get<Blob>(back.program.functions[f]->body.ops[0]->attributes.at("val").data).record_offset;
  };
  CHECK(offset(0) == offset(1));
}

TEST_CASE("the report tells where every weight lies") {
  TempFolder folder;
  Package package = small_package();
  Package other = small_package();
  other.program.functions[0]->name = "second";
  package.program.functions.push_back(std::move(other.program.functions[0]));
  Function& f = *package.program.functions[0];
  add_const(f, "few", Constant::numbers(std::vector<float>{1, 2}, DType::fp16, {2}));
  // A constexpr operation with a literal, a const and an attribute.
  Value* scale = add_const(f, "s", Constant::numbers(std::vector<float>(16, 2.0f), DType::fp16, {16, 1}));
  Value* quantised = add_op(f, "constexpr_blockwise_shift_scale", "q", Type::tensor(DType::fp16, {16, 4}),
                            {{"scale", scale}});
  Binding data;
  data.literal = std::make_shared<Constant>(
      Constant::from_bytes(Type::tensor(DType::int8, {16, 4}), Constant::Bytes(64, std::byte{5})));
  quantised->producer->inputs.push_back({"data", {data}, ""});
  Value* old = add_op(f, "constexpr_affine_dequantize", "old", Type::tensor(DType::fp16, {32}));
  old->producer->attributes["quantized_data"] =
      Constant::from_bytes(Type::tensor(DType::int8, {32}), Constant::Bytes(32, std::byte{9}));
  add_const(f, "made", Constant::from_source(std::make_shared<Counting>(Type::tensor(DType::int8, {40}))));
  package.description = description_of(package.program);

  const WriteReport report = write_package(package, folder / "m.mlpackage");
  CHECK(report.find("main", "few") == nullptr);  // in the program itself
  CHECK(report.find("second", "q", "data") == nullptr);
  CHECK(report.find("main", "q", "offset") == nullptr);
  REQUIRE(report.find("main", "w"));
  CHECK(report.find("main", "w")->offset == report.find("second", "w")->offset);  // equal: stored once
  CHECK(report.find("main", "q", "scale")->offset == report.find("main", "s")->offset);
  CHECK(report.places.size() == 7);

  const auto written = [&](const char* value, const char* param) {
    const WeightPlace* place = report.find("main", value, param);
    REQUIRE(place);
    CHECK(place->file == "Data/com.apple.CoreML/weights/weight.bin");
    return slurp(folder / "m.mlpackage" / place->file).substr(place->offset, place->bytes);
  };
  CHECK(written("q", "data") == std::string(64, '\5'));
  CHECK(written("old", "quantized_data") == std::string(32, '\t'));
  std::string twos;
  for (int i = 0; i < 16; ++i) twos += std::string("\0\x40", 2);  // 2 in fp16
  CHECK(written("q", "scale") == twos);
  CHECK(written("made", "").substr(0, 4) == std::string("\0\1\2\3", 4));
  CHECK(written("made", "").size() == 40);

  // The same as a reader finds.
  const Package back = read_package(folder / "m.mlpackage");
  for (const auto& function : back.program.functions)
    for (const auto& op : function->body.ops) {
      const auto* blob = op->type == "const" ? std::get_if<Blob>(&op->attributes.at("val").data) : nullptr;
      const WeightPlace* place = report.find(function->name, op->outputs[0]->name);
      if (op->type == "const") CHECK((place != nullptr) == (blob != nullptr));
      if (blob) CHECK(place->offset == blob->data_offset);
    }
}

TEST_CASE("sources are written in whole bytes for every bit width") {
  TempFolder folder;
  for (const DType dtype :
       {DType::fp16, DType::uint1, DType::uint3, DType::int4, DType::uint6, DType::int8}) {
    // Large enough for several parts, with a row length that is not a multiple of 8.
    const int64_t rows = 1001 * 64 / dtype_bits(dtype), columns = 1003;
    CAPTURE(std::string(dtype_name(dtype)));
    const auto source = std::make_shared<Counting>(Type::tensor(dtype, {rows, columns}));
    Package package = small_package();
    add_const(*package.program.functions[0], "made", Constant::from_source(source));
    write_package(package, folder / "m.mlpackage", {.overwrite = true});
    CHECK(source->prepared == 1);
    const Package back = read_package(folder / "m.mlpackage");
    const auto& ops = back.program.functions[0]->body.ops;
    const auto bytes = ops.back()->attributes.at("val").bytes();
    const int bits = dtype_bits(dtype);
    bool ok = true;
    for (int64_t element = 0; element < rows * columns; ++element)
      for (int b = 0; b < bits; ++b) {
        const int64_t at = element * bits + b;
        ok &= (static_cast<int>(bytes[static_cast<size_t>(at / 8)]) >> (at % 8) & 1) == (element >> b & 1);
      }
    CHECK(ok);
  }
}

TEST_CASE("small sources go in place, and equal ones are stored once") {
  TempFolder folder;
  Package package = small_package();
  Function& f = *package.program.functions[0];
  add_const(f, "tiny", Constant::from_source(std::make_shared<Counting>(Type::tensor(DType::int8, {4}))));
  add_const(f, "lut", Constant::from_source(std::make_shared<Counting>(Type::tensor(DType::int8, {16}))));
  add_const(f, "same", Constant::from_source(std::make_shared<Counting>(Type::tensor(DType::int8, {16}))));
  const WriteReport report = write_package(package, folder / "m.mlpackage");
  CHECK(report.blobs == 2);
  CHECK(report.shared == 1);
  const Package back = read_package(folder / "m.mlpackage");
  const auto& tiny = back.program.functions[0]->body.ops[2]->attributes.at("val");
  CHECK(!tiny.is_blob());
  CHECK(tiny.bytes()[3] == std::byte{3});
}

TEST_CASE("what stands there is replaced only on request, and a failed write leaves nothing") {
  TempFolder folder;
  write_package(small_package(), folder / "m.mlpackage");
  const auto before = all_files(folder / "m.mlpackage");
  CHECK(error_of([&] { write_package(small_package(1), folder / "m.mlpackage"); }).find("already exists") !=
        std::string::npos);
  CHECK(all_files(folder / "m.mlpackage") == before);

  Package broken = small_package();
  Blob gone;
  gone.file_name = "@model_path/weights/weight.bin";
  broken.program.functions[0]->body.ops[0]->attributes.at("val") =
      Constant::from_blob(Type::tensor(DType::fp16, {4, 8}), gone);
  CHECK(error_of([&] {
          write_package(broken, folder / "m.mlpackage", {.overwrite = true});
        }).find("is missing") != std::string::npos);
  CHECK(all_files(folder / "m.mlpackage") == before);

  write_package(small_package(1), folder / "m.mlpackage", {.overwrite = true});
  CHECK(all_files(folder / "m.mlpackage") != before);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no staging is left
  CHECK(error_of([&] { write_package(small_package(), folder / "m.zip"); }).find(".mlpackage") !=
        std::string::npos);
  CHECK(error_of([&] {
          write_package(small_package(), folder / "no/m.mlpackage");
        }).find("folder does not exist") != std::string::npos);
}

TEST_CASE("a package can be written over the one it was read from") {
  TempFolder folder;
  write_package(small_package(3), folder / "m.mlpackage");
  const auto before = all_files(folder / "m.mlpackage");
  const Package package = read_package(folder / "m.mlpackage");
  write_package(package, folder / "m.mlpackage", {.overwrite = true});
  CHECK(all_files(folder / "m.mlpackage") == before);
}

TEST_CASE("staged output appears whole or not at all") {
  TempFolder folder;
  {
    StagedOutput staged(folder / "a.txt", false);
    spill(staged.path(), "half");
    CHECK(!std::filesystem::exists(folder / "a.txt"));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  {
    StagedOutput staged(folder / "a.txt", false);
    spill(staged.path(), "whole");
    staged.commit();
  }
  CHECK(slurp(folder / "a.txt") == "whole");
  StagedOutput late(folder / "b.txt", false);
  spill(late.path(), "mine");
  spill(folder / "b.txt", "somebody else's");
  CHECK_THROWS_AS(late.commit(), Error);
  CHECK(slurp(folder / "b.txt") == "somebody else's");
}

TEST_CASE("what a signal removed does not come back, whatever other threads still do") {
  TempFolder folder;
  const pid_t child = ::fork();  // outputs are removed for the whole process
  if (child == 0) {
    StagedOutput staged(folder / "bundle", false);
    staged.make_folder("Data");
    remove_staged_outputs();
    int refused = 0;
    for (const char* inside : {"", "Data/weights"}) try {
        staged.make_folder(inside);
      } catch (const Error&) {
        ++refused;
      }
    ::_exit(refused);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(std::filesystem::is_empty(folder.path()));
}
