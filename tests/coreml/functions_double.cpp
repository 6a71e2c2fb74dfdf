// Functions of a package that are decoded one by one: Core ML must be asked for the one that was read.
#include <doctest/doctest.h>

#include "coreml/double_fixture.h"
#include "mil/text.h"
#include "package/package_file.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// Each function multiplies by a number of its own.
std::filesystem::path package_with(const TempFolder& folder, const std::vector<std::string>& functions) {
  std::string text = "program(1.3)\n{ ";
  for (size_t i = 0; i < functions.size(); ++i)
    text += "func " + functions[i] + "<ios18>(tensor<fp16, [1, 40]> x) {" +
            "tensor<fp16, [1, 40]> y = mul(x = x, y = fp16(" + std::to_string(i + 2) +
            "))[name = string(\"y\")]; } -> (y); ";
  Package p;
  p.program = parse_mil(text + "}", "t");
  p.description = description_of(p.program);
  p.spec_version = 9;
  const auto path = folder / (functions.front() + ".mlpackage");
  write_package(p, path);
  return path;
}

float first_of(const Backend& backend, const std::shared_ptr<const Package>& package,
               const std::string& function) {
  Array x(DType::fp32, {1, 40});
  x.values<float>()[0] = 10;
  return backend.open(package, function)->predict({{"x", x}}).outputs.at("y").to_float()[0];
}

}  // namespace

TEST_CASE("a function that was read alone runs as itself, and the package is compiled once") {
  const DoubleFixture fixture;
  const TempFolder folder;
  const auto file = PackageFile::open(package_with(folder, {"two", "three", "four"}));
  const auto backend = fixture.backend();
  // Not the first one, which Core ML takes where nobody names one.
  const auto three = file->function("three");
  CHECK(three->partial);
  CHECK(first_of(*backend, three, "three") == 30);
  CHECK(first_of(*backend, three, "") == 30);
  CHECK(first_of(*backend, file->function("four"), "four") == 40);
  CHECK(first_of(*backend, file->function("two"), "two") == 20);
  CHECK(error_of([&] { backend->open(three, "two"); }).find("there is no function 'two'") !=
        std::string::npos);
  CHECK(first_of(*backend, file->whole(), "four") == 40);
  CHECK(first_of(*backend, file->whole(), "") == 20);
  CHECK(apple_double::seen().compiles == 1);
}

TEST_CASE("the only function of a package is not asked for by name: Core ML refuses that") {
  const DoubleFixture fixture;
  const TempFolder folder;
  const auto file = PackageFile::open(package_with(folder, {"main"}));
  const auto backend = fixture.backend();
  CHECK_FALSE(file->function("main")->partial);
  CHECK(first_of(*backend, file->function("main"), "main") == 20);
  CHECK(first_of(*backend, file->function("main"), "") == 20);
}
