// A sample of ONNX's own node tests (make_node_sample.py chose it), each converted, written, read back and run, and
// computed by the interpreter too.
#include <doctest/doctest.h>

#include <map>

#include "base/mapped_file.h"
#include "base/zip.h"
#include "onnx/node_case.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;

TEST_CASE("onnx: a sample of the node tests gives the expected values") {
  const auto file = MappedFile::open(source_dir() / "tests/data/onnx/node_sample.zip");
  const ZipReader zip(file->bytes(), "node_sample.zip");
  std::map<std::string, std::map<std::string, std::string>> cases;
  for (const ZipEntry& entry : zip.entries()) {
    std::string bytes(entry.bytes, '\0');
    zip.extract(entry, 0, std::as_writable_bytes(std::span(bytes)));
    const size_t slash = entry.name.find('/');
    cases[entry.name.substr(0, slash)][entry.name.substr(slash + 1)] = std::move(bytes);
  }
  REQUIRE(cases.size() == 300);
  const TempFolder folder;
  for (auto& [name, files] : cases) {
    const test::NodeResult r = test::run_node_case(files["model.onnx"], files["data.onnx"], folder.path());
    const bool passed = r.kind == test::NodeResult::Kind::passed || r.kind == test::NodeResult::Kind::fixed;
    CHECK_MESSAGE(passed, name, ": ", r.why);
    CHECK_MESSAGE(r.interpreter.empty(), name, ": ", r.interpreter);
  }
}
