#include "coreml/compiled_cache.h"

#include <doctest/doctest.h>

#include <fstream>

#include "support/temp_folder.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

fs::path made_package(const fs::path& path, const std::string& model, const std::string& weights) {
  fs::create_directories(path / "Data");
  spill(path / "Data/model.mlmodel", model);
  spill(path / "Data/weight.bin", weights);
  return path;
}

}  // namespace

TEST_CASE("a key is of the content: not of the place, not of the time") {
  const TempFolder folder;
  const CompiledCache cache(folder.path() / "cache", "24A1");
  const std::string key = cache.key(made_package(folder.path() / "a.mlpackage", "m", "w"));
  CHECK(key.size() == 16);
  CHECK(cache.key(made_package(folder.path() / "b.mlpackage", "m", "w")) == key);
  CHECK(cache.key(made_package(folder.path() / "c.mlpackage", "m", "x")) != key);
  CHECK(cache.key(made_package(folder.path() / "d.mlpackage", "x", "w")) != key);
  CHECK(cache.key(folder.path() / "a.mlpackage") == key);  // remembered
  // The same size, written later: read again.
  spill(folder.path() / "a.mlpackage/Data/weight.bin", "v");
  fs::last_write_time(folder.path() / "a.mlpackage/Data/weight.bin",
                      fs::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK(cache.key(folder.path() / "a.mlpackage") != key);
}

TEST_CASE("a compiled package is put once") {
  const TempFolder folder;
  const CompiledCache cache(folder.path() / "cache", "24A1"), other(folder.path() / "cache", "24B2");
  CHECK_FALSE(cache.find("0123456789abcdef"));
  for (const char* name : {"one", "two"}) {
    const fs::path compiled = folder.path() / (std::string(name) + ".mlmodelc");
    fs::create_directories(compiled);
    spill(compiled / "model.mil", name);
    const fs::path kept = cache.put(compiled, "0123456789abcdef", "layers.mlpackage");
    CHECK(kept == cache.find("0123456789abcdef"));
    CHECK(slurp(kept / "model.mil") == "one");  // who was first
  }
  CHECK_FALSE(other.find("0123456789abcdef"));
  REQUIRE(cache.entries().size() == 1);
  CHECK(cache.entries()[0].package == "layers.mlpackage");
  CHECK(cache.entries()[0].bytes == 3);
}
