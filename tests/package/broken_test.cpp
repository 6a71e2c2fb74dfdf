// Broken and hostile packages: each is one clear error, and nothing outside the package is read.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>

#include "package/build.h"
#include "package/manifest.h"
#include "package/mil_codec.h"
#include "package/package.h"
#include "package/wire.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;

struct Files {
  TempFolder folder;
  fs::path package = folder / "m.mlpackage";
  fs::path manifest = package / "Manifest.json";
  fs::path data = package / "Data" / "com.apple.CoreML";
  fs::path model = data / "model.mlmodel";
  fs::path weights = data / "weights" / "weight.bin";

  Files() { write_package(small_package(), package); }
};

void replace(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = slurp(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  spill(path, text.replace(at, from.size(), to));
}

void poke(const fs::path& path, size_t at, const std::string& bytes) {
  std::string text = slurp(path);
  spill(path, text.replace(at, bytes.size(), bytes));
}

Blob no_blob(const std::string& name, uint64_t offset, const Type&) {
  return Blob{name, offset, offset + 64, 0, nullptr};
}
std::optional<uint64_t> in_place(const Constant&) { return std::nullopt; }

std::string decode_error(const Program& program) {
  return error_of([&] { decode_program(encode_program(program, in_place), no_blob); });
}

}  // namespace

TEST_CASE("a broken package is an error that says what is wrong") {
  struct Case {
    const char* name;
    std::function<void(Files&)> damage;
    std::string message;
  };
  const Case cases[] = {
      {"no manifest", [](Files& f) { fs::remove(f.manifest); }, "has no Manifest.json"},
      {"manifest is not JSON", [](Files& f) { spill(f.manifest, "{\"a\": "); },
       "is not valid JSON near byte 7"},
      {"manifest is a list", [](Files& f) { spill(f.manifest, "[]"); }, "is not a manifest"},
      {"manifest nests deep", [](Files& f) { spill(f.manifest, std::string(100000, '[')); },
       "is not valid JSON"},
      {"newer format", [](Files& f) { replace(f.manifest, "1.0.0", "2.0.0"); }, "newer than this program"},
      {"no version", [](Files& f) { replace(f.manifest, "1.0.0", "x"); }, "is not a version"},
      {"missing key", [](Files& f) { replace(f.manifest, "\"author\"", "\"writer\""); },
       "'author' is missing"},
      {"no root",
       [](Files& f) { replace(f.manifest, "rootModelIdentifier\": \"", "rootModelIdentifier\": \"0"); },
       "is not an item"},
      {"path leaves",
       [](Files& f) { replace(f.manifest, "com.apple.CoreML/model.mlmodel", "../../../../../etc/passwd"); },
       "leaves the package"},
      {"absolute path",
       [](Files& f) { replace(f.manifest, "com.apple.CoreML/model.mlmodel", "/etc/passwd"); },
       "leaves the package"},
      {"no model", [](Files& f) { fs::remove(f.model); }, "is missing"},
      {"model is a folder",
       [](Files& f) {
         fs::remove(f.model);
         fs::create_directory(f.model);
       },
       "is not a file"},
      {"model is a pipe",
       [](Files& f) {
         fs::remove(f.model);
         ::mkfifo(f.model.c_str(), 0600);
       },
       "is not a file"},
      {"model is a link outside",
       [](Files& f) {
         fs::rename(f.model, f.folder / "m");
         fs::create_symlink(f.folder / "m", f.model);
       },
       "leads outside"},
      {"weights are a link outside",
       [](Files& f) {
         fs::rename(f.weights, f.folder / "w");
         fs::create_symlink(f.folder / "w", f.weights);
       },
       "leads outside"},
      {"link to itself",
       [](Files& f) {
         fs::remove(f.model);
         fs::create_symlink(f.model, f.model);
       },
       "cannot be followed"},
      {"empty model", [](Files& f) { spill(f.model, ""); }, "holds no ML Program"},
      {"model is text", [](Files& f) { spill(f.model, "hello, world"); }, "not a protobuf message"},
      {"neural network", [](Files& f) { spill(f.model, std::string("\x08\x04\xa2\x1f\x00", 5)); },
       "a neural network"},
      {"weight file cut", [](Files& f) { fs::resize_file(f.weights, 150); }, "past the end"},
      {"weight record cut", [](Files& f) { fs::resize_file(f.weights, 100); }, "past the end"},
      {"empty weight file", [](Files& f) { fs::resize_file(f.weights, 0); }, "past the end"},
      {"weight file version", [](Files& f) { poke(f.weights, 4, "\x07"); }, "version 7"},
      {"no sentinel", [](Files& f) { poke(f.weights, 64, "\x01"); }, "no blob record"},
      {"other dtype", [](Files& f) { poke(f.weights, 68, "\x02"); }, "another element type"},
      {"other size", [](Files& f) { poke(f.weights, 72, "\x20"); }, "wrong size"},
      {"data past the end", [](Files& f) { poke(f.weights, 80, "\xff\xff\xff\xff\xff\xff\xff\xff"); },
       "past the end"},
      {"data over the file's header", [](Files& f) { poke(f.weights, 80, std::string(1, '\0')); },
       "overlaps a header"},
      {"data over its record", [](Files& f) { poke(f.weights, 80, "\x48"); }, "overlaps a header"},
      {"unaligned data", [](Files& f) { poke(f.weights, 80, "\x7f"); }, "not aligned"},
      {"weights path leaves",
       [](Files& f) { replace(f.model, "@model_path/weights/weight.bin", "@model_path/../../../../../x.x"); },
       "leaves the package"},
      {"weights path absolute",
       [](Files& f) { replace(f.model, "@model_path/weights/weight.bin", "/model_path/weights/weight.bin"); },
       "under @model_path"},
      {"offset inside a record",
       [](Files& f) { replace(f.model, "weight.bin\x10\x40", "weight.bin\x10\x41"); },
       "not that of a record"},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.name));
    Files files;
    c.damage(files);
    const std::string message = error_of([&] { read_package(files.package); });
    CAPTURE(message);
    CHECK(!message.empty());
    CHECK(message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("a file that is no model is told what can be read") {
  const TempFolder folder;
  spill(folder / "note.txt", "hello, world");
  spill(folder / "model.mlmodel", "hello, world");
  CHECK(error_of([&] { read_package(folder / "note.txt"); }) ==
        (folder / "note.txt").string() +
            ": the bytes are not a protobuf message; expected an .mlpackage, .mlmodelc, .mlmodel or .mil");
  CHECK(error_of([&] { read_package(folder / "model.mlmodel"); }).ends_with("is the file cut short?"));
  CHECK(error_of([] { read_package(""); }).find("no name") != std::string::npos);
}

TEST_CASE("a description that differs from the program is noted") {
  const auto notes = [](const std::function<void(Package&)>& change) {
    TempFolder folder;
    Package package = small_package();
    change(package);
    write_package(package, folder / "m.mlpackage");
    std::string out;
    for (const std::string& note : read_package(folder / "m.mlpackage").notes) out += note + "\n";
    return out;
  };
  CHECK(notes([](Package&) {}).empty());
  CHECK(notes([](Package& p) { p.description.main.inputs[0].name = "z"; }) ==
        "function 'main': the input 'z' of the description is not in the program; found 'z'; expected 'x'; "
        "Core ML "
        "would refuse the package\n"
        "function 'main': the input 'x' of the program is not in the description; found 'z'; expected 'x'; "
        "Core ML "
        "would refuse the package\n");
  CHECK(notes([](Package& p) { p.description.main.inputs[0].type.array.shape = {9, 9}; }).find("[9, 9]") !=
        std::string::npos);
  CHECK(notes([](Package& p) { p.description.main.outputs.clear(); }).find("is not in the description") !=
        std::string::npos);
}

TEST_CASE("missing weights are told apart from weights that nobody needs") {
  Files files;
  fs::remove_all(files.data / "weights");
  const Package without = read_package(files.package);
  CHECK(without.weights_folder_missing);
  CHECK(without.missing_weights == std::vector<std::string>{"@model_path/weights/weight.bin"});
  const Constant& w = without.program.functions[0]->body.ops[0]->attributes.at("val");
  CHECK(error_of([&] { w.bytes(); }).find("is missing") != std::string::npos);

  Package unused = small_package();
  unused.program.functions[0]->body.ops[0]->attributes.at("val") = Constant::number(1, DType::fp16);
  unused.program.functions[0]->body.ops[0]->outputs[0]->type = Type::tensor(DType::fp16);
  write_package(unused, files.package, {.overwrite = true});
  fs::remove_all(files.data / "weights");
  const Package fine = read_package(files.package);
  CHECK(fine.weights_folder_missing);
  CHECK(fine.missing_weights.empty());
  CHECK(fine.notes.size() == 1);
}

TEST_CASE("a model cut anywhere is an error") {
  Files files;
  const std::string model = slurp(files.model);
  for (size_t size = 0; size + 1 < model.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(read_model(model.substr(0, size), "cut", no_blob), Error);
  }
}

TEST_CASE("a program that does not hang together is an error by name") {
  Package use_before = small_package();
  auto& ops = use_before.program.functions[0]->body.ops;
  std::swap(ops[0], ops[1]);
  CHECK(decode_error(use_before.program).find("'w' is used but not defined before") != std::string::npos);

  Package twice = small_package();
  twice.program.functions[0]->body.ops[0]->outputs[0]->name = "x";
  CHECK(decode_error(twice.program).find("'x' is defined twice") != std::string::npos);

  Package cycle = small_package();
  Operation& add = *cycle.program.functions[0]->body.ops[1];
  add.inputs[0].bindings[0].value = add.outputs[0].get();
  CHECK(decode_error(cycle.program).find("'y' is used but not defined before") != std::string::npos);
  CHECK(decode_error(cycle.program).find("op 'y' (add)") != std::string::npos);

  Package other_version = small_package();
  other_version.program.version = 2;
  CHECK(decode_error(other_version.program).find("version 2") != std::string::npos);

  Package overflow = small_package();
  overflow.program.functions[0]->inputs[0]->type =
      Type::tensor(DType::fp16, {int64_t{1} << 40, int64_t{1} << 40});
  CHECK(!decode_error(overflow.program).empty());
}

TEST_CASE("nesting without end is an error") {
  std::string type = encode_type(Type::tensor(DType::fp16));
  for (int i = 0; i < 2000; ++i) {
    wire::Message list, outer;
    list.data(1, type);
    outer.message(2, list);
    type = outer.bytes();
  }
  CHECK(error_of([&] { decode_type(type); }).find("too deep") != std::string::npos);

  Package package = small_package();
  Function& f = *package.program.functions[0];
  Block* block = &f.body;
  for (int i = 0; i < 100; ++i) {
    auto& op = *block->ops.emplace_back(std::make_unique<Operation>());
    op.type = "cond";
    block = op.blocks.emplace_back(std::make_unique<Block>()).get();
  }
  CHECK(decode_error(package.program).find("too deep") != std::string::npos);
}

TEST_CASE("what a block defines is not seen outside, and blocks may use the same names") {
  Package package = small_package();
  Function& f = *package.program.functions[0];
  auto& op = *f.body.ops.emplace_back(std::make_unique<Operation>());
  op.type = "cond";
  for (int i = 0; i < 2; ++i) {
    Block& block = *op.blocks.emplace_back(std::make_unique<Block>());
    auto& inner = *block.ops.emplace_back(std::make_unique<Operation>());
    inner.type = "identity";
    Binding outer;
    outer.value = f.inputs[0].get();
    inner.inputs.push_back({"x", {outer}, ""});
    inner.outputs.push_back(std::make_unique<Value>(Value{"inner", outer.value->type, &inner, ""}));
    block.outputs = {inner.outputs[0].get()};
  }
  CHECK(decode_error(package.program).empty());
  const Program back = decode_program(encode_program(package.program, in_place), no_blob);
  CHECK(same_program(package.program, back));
  add_op(f, "identity", "late", Type::tensor(DType::fp16, {4, 8}), {{"x", op.blocks[0]->outputs[0]}});
  CHECK(decode_error(package.program).find("'inner' is used but not defined") != std::string::npos);
}

TEST_CASE("a bare .mlmodel and the blocks of other opsets are read") {
  Files files;
  const Package whole = read_package(files.package);
  const Package bare = read_package(files.model);
  CHECK(same_program(whole.program, bare.program));
  // Another specialization travels along.
  Package package = small_package();
  wire::Message entry, field;
  entry.text(1, "CoreML7");
  entry.data(2, "");
  field.message(3, entry);
  package.program.functions[0]->extra = field.bytes();
  const Program back = decode_program(encode_program(package.program, in_place), no_blob);
  CHECK(back.functions[0]->extra == field.bytes());
}

TEST_CASE("a compiled model is read through the parser of MIL text") {
  TempFolder folder;
  const fs::path path = folder / "m.mlmodelc";
  spill(path / "model.mil", "program text");
  CHECK(error_of([&] { read_package(path); }).find("cannot be read here") != std::string::npos);
  ReadOptions options;
  options.parse_text = [&](std::string_view text, const std::string& name, const BlobOpener&) {
    CHECK(text == "program text");
    CHECK(name == (path / "model.mil").string());
    return std::move(small_package().program);
  };
  CHECK(read_package(path / "model.mil", options).description.main.inputs[0].name == "x");  // the text alone
  const Package derived = read_package(path, options);
  CHECK(derived.description.main.inputs[0].name == "x");
  CHECK(derived.notes.size() == 1);
  // coremldata.bin: kind, 5, zeros, "generic", version, zeros, description.
  const std::string description = encode_description(small_package().description);
  const auto u64 = [](uint64_t v) { return std::string(reinterpret_cast<const char*>(&v), 8); };
  std::string data = std::string("\xf6\x01\0\0\x05\0\0\0", 8) + std::string(20, '\0') + u64(7) + "generic" +
                     u64(9) + std::string(24, '\0') + u64(description.size()) + description + u64(502) +
                     u64(0);
  spill(path / "coremldata.bin", data);
  const Package described = read_package(path, options);
  CHECK(described.notes.empty());
  CHECK(described.spec_version == 9);
  CHECK(described.description == small_package().description);
}
