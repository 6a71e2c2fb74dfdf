#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "convert/convert.h"
#include "coreml/compiled_cache.h"
#include "coreml/double_fixture.h"
#include "runtime/session.h"
#include "support/data.h"

using namespace anemone;
using namespace anemone::test;
namespace fs = std::filesystem;

namespace {

// One bundle for all cases.
const fs::path& bundle_path() {
  static const TempFolder folder;
  static const fs::path path = [] {
    convert(source_dir() / "examples/demo_model/demo.gguf", folder.path() / "bundle",
            {.context = {32}, .tokens = {{1, 1}, {4, 4}}, .whole = true, .threads = 1});
    return folder.path() / "bundle";
  }();
  return path;
}

int64_t best(const std::shared_ptr<const Backend>& backend, std::vector<int32_t> ids = {1, 17, 33}) {
  Session session(Bundle::open(bundle_path(), backend));
  return session.forward_best(ids);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("packages are compiled once, for each build of the system and each content") {
  DoubleFixture fixture;
  const fs::path cache = fixture.options().cache;
  const int64_t expected = best(fixture.backend());
  CHECK(apple_double::seen().compiles == 1);  // two functions, one package
  CHECK(best(fixture.backend()) == expected);
  CHECK(apple_double::seen().compiles == 1);
  apple_double::switches().build = "25A1";
  CHECK(best(fixture.backend()) == expected);
  CHECK(apple_double::seen().compiles == 2);
  const CompiledCache now(cache, "25A1");
  REQUIRE(now.entries().size() == 2);
  CHECK(now.entries()[0].build == "24E248");
  CHECK(now.entries()[0].package.ends_with(".mlpackage"));
  const uint64_t bytes = now.entries()[0].bytes;
  CHECK(bytes > 1'000'000);
  CHECK(now.clean(false) >= bytes);
  REQUIRE(now.entries().size() == 1);
  CHECK(now.entries()[0].build == "25A1");
  CHECK(now.clean(true) >= bytes);
  CHECK(now.entries().empty());
}

TEST_CASE("a compile that fails says why, with the words of the error under it") {
  DoubleFixture fixture;
  apple_double::switches().fail_compile = true;
  const std::string text = error_of([&] { best(fixture.backend()); });
  CHECK(text.find("Core ML cannot compile the package") != std::string::npos);
  CHECK(text.find("MpsGraph backend validation on incompatible OS") != std::string::npos);
  CHECK(count(text, "\n") == 0);
  apple_double::switches().fail_compile = false;
  best(fixture.backend());
  CHECK(apple_double::seen().compiles == 2);
}

TEST_CASE("a load that fails is explained by the doctor") {
  DoubleFixture fixture;
  apple_double::switches().fail_load = true;
  const std::string text = error_of([&] { best(fixture.backend()); });
  CHECK(text.find("Core ML cannot load the model") != std::string::npos);
  CHECK(text.find("error code: -14") != std::string::npos);
  CHECK(text.find("The engine refused the plan") != std::string::npos);  // the doctor's words
}

TEST_CASE("a function that is missing on the device") {
  DoubleFixture fixture;
  const auto bundle = Bundle::open(bundle_path(), fixture.backend());
  apple_double::switches().missing_function = bundle->functions().back().name;
  const std::string text = error_of([&] { bundle->predictor(0, apple_double::switches().missing_function); });
  CHECK(text.find("Function name not found: " + apple_double::switches().missing_function) !=
        std::string::npos);
}

TEST_CASE("a cache that cannot be written costs time, and is said") {
  DoubleFixture fixture;
  CoreMlOptions options = fixture.options();
  std::ofstream(fixture.folder().path() / "file") << "x";
  options.cache = fixture.folder().path() / "file" / "cache";  // a file stands where a folder should be
  const int64_t expected = best(fixture.backend());
  for (int i = 0; i < 2; ++i) {
    const auto backend = coreml_backend(options);
    // What is compiled for this time alone lies in a folder that nobody else reads, and that ends with its models.
    {
      Session session(Bundle::open(bundle_path(), backend));
      CHECK(session.forward_best(std::vector<int32_t>{1, 17, 33}) == expected);
      int private_folders = 0;
      for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
        if (entry.path().filename().string().starts_with(".anemone-" + std::to_string(::getpid()) + "-")) {
          CHECK((entry.status().permissions() & fs::perms::mask) == fs::perms::owner_all);
          private_folders += fs::exists(entry.path() / "compiled.mlmodelc");
        }
      CHECK(private_folders == 1);
    }
    for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
      CHECK_FALSE(
          entry.path().filename().string().starts_with(".anemone-" + std::to_string(::getpid()) + "-"));
    CHECK(any_remark(*backend, "compiled anew each time: "));
    CHECK(any_remark(*backend, "the cache of compiled packages cannot be written"));
  }
  CHECK(apple_double::seen().compiles > 2);
}

TEST_CASE("a damaged cache is seen before anything runs") {
  DoubleFixture fixture;
  best(fixture.backend());
  const TempFolder folder;
  convert(source_dir() / "examples/demo_model/demo.gguf", folder.path() / "other",
          {.context = {64}, .tokens = {{1, 1}, {4, 4}}, .whole = true, .threads = 1});
  Bundle::open(folder.path() / "other", fixture.backend())->predictor(0, "t1");
  const auto entries = CompiledCache(fixture.options().cache, "24E248").entries();
  REQUIRE(entries.size() == 2);
  fs::rename(entries[0].path, fixture.folder().path() / "a");
  fs::rename(entries[1].path, entries[0].path);
  fs::rename(fixture.folder().path() / "a", entries[1].path);
  const std::string text = error_of([&] { best(fixture.backend()); });
  CHECK(text.find("doctor --cache --clean --all") != std::string::npos);
}

TEST_CASE("a prediction that fails in the middle of a text") {
  DoubleFixture fixture;
  const int64_t expected = best(fixture.backend(), {1, 17, 33, 44});
  const auto bundle = Bundle::open(bundle_path(), fixture.backend());
  Session session(bundle);
  session.forward_best(std::vector<int32_t>{1, 17, 33});
  apple_double::switches().fail_at = apple_double::seen().predictions + 1;
  const int32_t id = 44;
  const std::string text = error_of([&] { session.forward_best({&id, 1}); });
  CHECK(text.find("a prediction failed") != std::string::npos);
  CHECK(text.find("error code: -14") != std::string::npos);
  CHECK(text.find("function '") != std::string::npos);
  // The session goes on where it was.
  CHECK(session.position() == 3);
  CHECK(session.forward_best({&id, 1}) == expected);
}

TEST_CASE("no surfaces, or too small ones, and no padding: the same tokens") {
  int64_t expected = 0;
  {
    DoubleFixture fixture;
    expected = best(fixture.backend());
  }
  for (const int64_t largest : {int64_t{0}, int64_t{100}, int64_t{16384}}) {
    DoubleFixture fixture;
    apple_double::switches().surfaces = largest > 0;
    apple_double::switches().largest_surface = largest;
    apple_double::switches().padded_rows = largest == 100;
    CHECK(best(fixture.backend()) == expected);
  }
}

TEST_CASE("what the system lacks is one line") {
  DoubleFixture fixture;
  apple_double::switches().macos_major = 14;
  CHECK(error_of([&] { fixture.backend(); }) ==
        "Core ML has states and functions from macOS 15 on, and this is macOS 14.4: use --backend cpu");
  apple_double::reset();
  apple_double::switches().neural_engine = false;
  CHECK(error_of([&] { fixture.backend(); }) ==
        "Core ML sees no Neural Engine on this machine (Apple M4): use --compute-units cpu, or a Mac with an "
        "M1 "
        "or newer");
  CoreMlOptions options = fixture.options();
  options.units = ComputeUnits::cpu;
  CHECK(best(coreml_backend(options)) >= 0);
}

TEST_CASE("loading can be watched, and given up") {
  DoubleFixture fixture;
  CoreMlOptions options = fixture.options();
  std::string phases;
  options.progress = [&](const LoadStep& step) {
    phases += "clwd"[static_cast<int>(step.phase)];
    return true;
  };
  Bundle::open(bundle_path(), coreml_backend(options))->predictor(0, "t1");
  CHECK(phases == "clwd");
  apple_double::switches().late_ms = 700;
  options.progress = [](const LoadStep& step) { return step.seconds == 0; };
  const auto backend = coreml_backend(options);
  CHECK(error_of([&] { best(backend); }).find("loading was given up") != std::string::npos);
}
