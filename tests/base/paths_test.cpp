#include "base/paths.h"

#include <doctest/doctest.h>

#include "support/temp_folder.h"

namespace anemone {

namespace fs = std::filesystem;

TEST_CASE("an output is apart from an input, unless one is the other, holds it or lies in it") {
  const TempFolder folder;
  fs::create_directories(folder / "in/deep");
  folder.write("in/file", "");
  fs::create_directory_symlink(folder / "in", folder / "link");
  fs::create_hard_link(folder / "in/file", folder / "same");
  const auto clash = [&](const std::string& input, const std::string& output) {
    return error_of([&] { expect_apart(folder / input, folder / output); });
  };
  for (const char* output : {"in", "in/", "in/.", "link", "x/../in", "in/deep/.."})
    CHECK_MESSAGE(clash("in", output).find("take the place of what it is made from") != std::string::npos,
                  output);
  for (const char* output : {"in/new", "in/deep/new", "link/new", "link/not/there/yet", "in/../in/new"})
    CHECK_MESSAGE(clash("in", output).find("inside of what it is made from") != std::string::npos, output);
  for (const char* output : {".", "in/..", ""})
    CHECK_MESSAGE(clash("in", output).find("a folder that holds") != std::string::npos, output);
  CHECK(clash("in/file", "same").find("take the place") != std::string::npos);
  CHECK(clash("link", "in/new").find("inside") != std::string::npos);
  for (const char* output : {"out", "in2", "inside", "in.npz", "not/there/yet"})
    CHECK(clash("in", output) == "");
  CHECK(clash("in/file", "in/other") == "");  // beside a file is not in it
  CHECK(std::string(missing_path("x").what()) == "x: there is no such file or folder");
}

}  // namespace anemone
