#include <doctest/doctest.h>

#include "base/error.h"
#include "package/build.h"
#include "package/package_file.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

namespace {

void check_same(const std::vector<TensorInfo>& a, const std::vector<TensorInfo>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].dtype == b[i].dtype);
    CHECK(a[i].shape == b[i].shape);
    CHECK(a[i].range == b[i].range);
    CHECK(a[i].enumerated == b[i].enumerated);
    CHECK(a[i].optional == b[i].optional);
  }
}

}  // namespace

TEST_CASE("every package of the corpus can be read, with types that fit its constants") {
  for (const auto& path : data_packages()) {
    CAPTURE(path.string());
    Package package;
    REQUIRE_NOTHROW(package = read_package(path));
    CHECK(package.missing_weights.empty());
    CHECK(!package.program.functions.empty());
    for (const auto& function : package.program.functions) {
      CHECK(opset_info(function->opset).spec_version == package.spec_version);
      const Interface& interface = package.description.interface(function->name);
      CHECK(interface.inputs.size() + interface.states.size() == function->inputs.size());
      REQUIRE(interface.outputs.size() == function->body.outputs.size());
      for (size_t i = 0; i < interface.outputs.size(); ++i)
        CHECK(interface.outputs[i].name == function->body.outputs[i]->name);
      for (const auto& input : function->inputs) CHECK(interface.find(input->name) != nullptr);
      for_each_op(std::as_const(function->body), [](const Operation& op) {
        for (const auto& [name, constant] : op.attributes) CHECK_NOTHROW(constant.check_size());
      });
    }
  }
}

TEST_CASE("what a package offers is the same without its operations, and each function alone is the same") {
  for (const auto& path : data_packages()) {
    CAPTURE(path.string());
    const auto file = PackageFile::open(path);
    const auto whole = open_package(path);
    const std::vector<Signature> expected = signatures(*whole);
    REQUIRE(file->signatures().size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(file->signatures()[i].function == expected[i].function);
      check_same(file->signatures()[i].inputs, expected[i].inputs);
      check_same(file->signatures()[i].outputs, expected[i].outputs);
      check_same(file->signatures()[i].states, expected[i].states);
      const auto alone = file->function(expected[i].function);
      REQUIRE(alone->program.functions.size() == 1);
      Program one = whole->program.clone();
      std::erase_if(one.functions, [&](const auto& f) { return f->name != expected[i].function; });
      CHECK(same_program(alone->program, one));
    }
  }
}

TEST_CASE("functions that are read one by one share the mapped weights, and are not written") {
  const TempFolder folder;
  Package package = small_package();
  Function& other = add_function(package.program, "other");
  Value* x = add_input(other, "x", Type::tensor(DType::fp16, {4, 8}));
  const std::vector<float> values(32, 1.5f);
  Value* w = add_const(other, "w", Constant::numbers(values, DType::fp16, {4, 8}));
  other.body.outputs = {add_op(other, "add", "y", Type::tensor(DType::fp16, {4, 8}), {{"x", x}, {"y", w}})};
  package.description = description_of(package.program);
  write_package(package, folder / "two.mlpackage");
  const auto file = PackageFile::open(folder / "two.mlpackage");
  const auto first = file->function("main"), again = file->function("main"), second = file->function("other");
  const auto weight = [](const Package& p) {
    return p.program.functions[0]->body.ops[0]->attributes.at("val").bytes().data();
  };
  CHECK(second->partial);
  if (first->program.functions[0]->body.ops[0]->attributes.at("val").is_blob()) {
    CHECK(weight(*first) == weight(*again));
    CHECK(file->weight_files().size() == 1);
  }
  CHECK_THROWS_WITH_AS(write_package(*second, folder / "one.mlpackage"),
                       doctest::Contains("only one function"), Error);
  CHECK_THROWS_AS(file->function("none"), Error);
  CHECK(file->whole()->program.functions.size() == 2);
  CHECK_FALSE(file->function("other")->partial);  // all of it is there now
}
