// Single-op programs with expected values, from Apple's own op tests.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "anemone/error.h"
#include "base/npy.h"
#include "corpus/corpus.h"
#include "package/package.h"
#include "support/data.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

// The cases come as archives; they are unpacked into a folder that goes away with the test.
struct Unpacked {
  explicit Unpacked(const fs::path& root) : folder(fs::temp_directory_path() / fmt::format("anemone-mil-ops-{}", ::getpid())) {
    fs::create_directories(folder);
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.path().string().ends_with(".tar.xz")) {
        const std::string command = fmt::format("tar -xJf '{}' -C '{}'", entry.path().string(), folder.string());
        REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
      }
    for (const fs::path& plain : folders_in(root)) cases.push_back(plain);
    for (const fs::path& unpacked : folders_in(folder)) cases.push_back(unpacked);
  }
  ~Unpacked() { fs::remove_all(folder); }

  fs::path folder;
  std::vector<fs::path> cases;
};

// Expected values of programs that declare fp16 were computed in half precision.
PredictOptions options_for(const Package& package) {
  bool half = false;
  for (const auto& function : package.program.functions) {
    for (const auto& input : function->inputs) half = half || input->type.dtype == DType::fp16;
    for_each_op(std::as_const(function->body), [&](const Operation& op) {
      for (const auto& output : op.outputs) half = half || (op.type != "const" && output->type.dtype == DType::fp16);
    });
  }
  return {.arithmetic = half ? Arithmetic::fp16 : Arithmetic::fp32};
}

std::unique_ptr<Predictor> predictor_for(const fs::path& path) {
  const auto package = open_package(path);
  return make_predictor(package, "", options_for(*package));
}

std::map<std::string, Array> arrays(const fs::path& path) {
  std::map<std::string, Array> out;
  for (auto& [name, array] : read_npz(path)) out.emplace(name, std::move(array));
  return out;
}

void check(const nlohmann::json& info, const Prediction& result, const fs::path& folder, Tally& tally) {
  std::string ops;
  for (const auto& [op, count] : info.at("ops").items())
    if (op != "const") ops += op + " ";
  for (const auto& [name, expected] : arrays(folder / "expected.npz"))
    tally.add(fmt::format("{} {}({})", folder.filename().string(), ops, name),
              difference(result.at(name), expected, info.at("atol"), info.at("rtol"), info.at("shapes")));
}

}  // namespace

TEST_CASE("corpus_mil_ops: single-op programs give the values that Apple's tests expect") {
  const auto root = data_folder("mil_ops");
  if (!root) return;
  const Unpacked unpacked(*root);
  Tally tally("mil_ops");
  // Calls on one state run in order: the case that holds the package comes first.
  std::map<std::string, std::vector<std::pair<int, fs::path>>> stateful;
  for (const fs::path& folder : unpacked.cases) {
    if (!fs::exists(folder / "case.json")) continue;
    const nlohmann::json info = read_json(folder / "case.json");
    if (!info.at("skip").is_null()) continue;
    if (info.at("stateful").get<bool>()) {
      stateful[info.at("package")].push_back({info.at("call"), folder});
      continue;
    }
    try {
      check(info, predictor_for(folder / "m.mlpackage")->predict(arrays(folder / "inputs.npz")), folder, tally);
    } catch (const std::exception& e) {
      tally.add(folder.filename().string(), e.what());
    }
  }
  for (auto& [id, calls] : stateful) {
    std::sort(calls.begin(), calls.end());
    try {
      const auto predictor = predictor_for(calls[0].second.parent_path() / id / "m.mlpackage");
      const auto state = predictor->make_state();
      for (const auto& [call, folder] : calls)
        check(read_json(folder / "case.json"), predictor->predict(arrays(folder / "inputs.npz"), state.get()), folder, tally);
    } catch (const std::exception& e) {
      tally.add(id, e.what());
    }
  }
  CHECK(tally.passed > 0);
}
