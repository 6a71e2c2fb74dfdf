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
    CHECK_FALSE(fs::exists(compiled));
  }
  CHECK_FALSE(other.find("0123456789abcdef"));
  REQUIRE(cache.entries().size() == 1);
  CHECK(cache.entries()[0].package == "layers.mlpackage");
  CHECK(cache.entries()[0].bytes == 3);
}

TEST_CASE("cleaning removes what the cache made, whatever else is in its folder") {
  const TempFolder folder;
  // As if somebody had named a folder of his own.
  const std::map<std::string, std::string> others = {{"letter.txt", "Dear Ann"},
                                                     {"photos/sea.jpg", "sea"},
                                                     {"photos/0123456789abcdef", "a name of 16 digits"},
                                                     {"photos/notes.json", "{}"},
                                                     {"models/tide.mlmodelc/model.mil", "compiled by hand"},
                                                     {"24A1/readme.json", "{}"},
                                                     {"24A1/0123456789abcdef.json.bak", "{}"},
                                                     {"24A1/fedcba9876543210.mlmodelc", "a file"},
                                                     {"24A1/.0123456789abcdef.mlmodelc/model.mil", "hidden"},
                                                     {"24A1/0123456789abcdef.json.d/a", "a folder"},
                                                     {"anyapp/0123456789abcdef.json", "{}"},
                                                     {"24a1/0123456789abcdef.findings.json", "{}"},
                                                     {"24A1x2/0123456789abcdef.mlmodelc/m", "no build"},
                                                     {"keys/house", "under the mat"},
                                                     {"keys/abc", "short"},
                                                     {"keys/0123456789abcdef0123456789abcdef", "a hash"},
                                                     {"keys/0123456789abcdef.pem", "a key"},
                                                     {"keys/fedcba9876543210", "16 digits, and no key"},
                                                     {"keys/aaaaaaaaaaaaaaaa/b", "a folder"}};
  for (const auto& [name, text] : others) spill(folder / name, text);
  fs::create_directory(folder / "empty");
  const CompiledCache cache(folder.path(), "24B2");
  for (const char* build : {"24A1", "24B2", "24A0"}) {
    const fs::path compiled = folder / "made.mlmodelc";
    spill(compiled / "model.mil", build);
    CompiledCache(folder.path(), build).put(compiled, "0123456789abcdef", "layers.mlpackage");
  }
  // What a killed process left.
  spill(folder / "24A1/.0123456789abcdef.mlmodelc.partial-77-0/model.mil", "half");
  spill(folder / "24A1/0123456789abcdef.findings.json.77.0x7ffc01", "half");
  spill(folder / "keys/0123456789abcdee.77.0x7ffc01", "half");
  const TempFolder package;
  cache.key(made_package(package.path() / "a.mlpackage", "m", "w"));
  CHECK(cache.entries().size() == 3);
  cache.clean(false);
  CHECK(cache.find("0123456789abcdef"));
  CHECK(cache.entries().size() == 1);
  CHECK_FALSE(fs::exists(folder / "24A0"));
  CHECK(all_files(folder / "24A1").size() == 5);
  CHECK(all_files(folder / "keys").size() == 8);  // six of others, one key, one half
  cache.clean(true);
  CHECK(cache.entries().empty());
  CHECK(all_files(folder.path()) == others);
  CHECK(fs::exists(folder / "empty"));
}

TEST_CASE("a folder that cannot be moved stays where it is") {
  const TempFolder folder;
  spill(folder / "a.mlmodelc/model.mil", "compiled");
  const std::string text =
      error_of([&] { move_folder(folder / "a.mlmodelc", folder / "nowhere/b.mlmodelc"); });
  CHECK(text.find("nowhere/b.mlmodelc: the compiled package cannot be moved there: No such file") !=
        std::string::npos);
  CHECK(slurp(folder / "a.mlmodelc/model.mil") == "compiled");
  move_folder(folder / "a.mlmodelc", folder / "b.mlmodelc");
  CHECK_FALSE(std::filesystem::exists(folder / "a.mlmodelc"));
  CHECK(slurp(folder / "b.mlmodelc/model.mil") == "compiled");
}
