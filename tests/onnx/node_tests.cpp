// All of ONNX's own node tests in one process.
//     onnx_node_tests FOLDER [--table]      FOLDER has one folder per case, from make_node_cases.py
// Prints what did not pass, and sums by operator with --table. Exit status 1 where a case failed, in the package or in
// the interpreter.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "onnx/node_case.h"
#include "support/temp_folder.h"

namespace {

using namespace anemone;
using Kind = test::NodeResult::Kind;

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Sums {
  int passed = 0, fixed = 0, failed = 0, refused = 0, other = 0, interpreter = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "onnx_node_tests FOLDER [--table]\n");
    return 2;
  }
  const bool table = argc > 2 && std::string(argv[2]) == "--table";
  std::vector<std::filesystem::path> cases;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  const TempFolder folder;
  Sums all;
  std::map<std::string, Sums> by_op;
  for (const auto& path : cases) {
    const test::NodeResult r =
        test::run_node_case(read_all(path / "model.onnx"), read_all(path / "data.onnx"), folder.path());
    const auto count = [&](Sums& s) {
      ++(r.kind == Kind::passed    ? s.passed
         : r.kind == Kind::fixed   ? s.fixed
         : r.kind == Kind::failed  ? s.failed
         : r.kind == Kind::refused ? s.refused
                                   : s.other);
    };
    count(all);
    if (!r.interpreter.empty()) {
      ++all.interpreter;
      fmt::print("INTERPRETER {}: {}\n", path.filename().string(), r.interpreter);
    }
    // What an operator stands for, written out, says little about each of its parts.
    if (!path.filename().string().ends_with("_expanded"))
      for (const std::string& op : r.ops) count(by_op[op]);
    const char* kinds[] = {"passed", "fixed", "FAILED", "refused", "n/a"};
    if (r.kind != Kind::passed && !table)
      fmt::print("{} {}: {}\n", kinds[static_cast<int>(r.kind)], path.filename().string(), r.why);
  }
  if (table)
    for (const auto& [op, s] : by_op)
      fmt::print("| {} | {} | {} | {} | {} | {} |\n", op, s.passed, s.fixed, s.refused, s.failed, s.other);
  fmt::print("{} passed, {} with fixed inputs, {} refused, {} failed, {} do not apply\n", all.passed,
             all.fixed, all.refused, all.failed, all.other);
  fmt::print("{} of the passed cases give other values with the interpreter\n", all.interpreter);
  return all.failed || all.interpreter ? 1 : 0;
}
