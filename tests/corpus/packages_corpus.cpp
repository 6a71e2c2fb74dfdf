// Whole packages with expected outputs: reference packages with cases, and packages beside an *_io.npz.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "anemone/error.h"
#include "base/npy.h"
#include "corpus/corpus.h"
#include "support/data.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

// Runs the cases of one folder in order; "new" makes a state, "keep" goes on with it, also into another
// function.
void run_cases(const fs::path& folder, Tally& tally, const PredictOptions& options, double slack) {
  const nlohmann::json index = read_json(folder / "cases.json");
  const auto package = open_package(folder / index.at("package").get<std::string>());
  std::map<std::string, std::unique_ptr<Predictor>> predictors;
  std::unique_ptr<State> state;
  for (const auto& entry : index.at("cases")) {
    const std::string name = entry.at("case"), function = entry.at("function"), what = entry.at("state");
    auto& predictor = predictors[function];
    if (!predictor) predictor = make_predictor(package, function, options);
    if (what == "new") state = predictor->make_state();
    const Prediction result =
        predictor->predict(read_arrays(folder / "inputs" / name), what == "none" ? nullptr : state.get());
    for (const auto& [output, expected] : read_arrays(folder / "outputs" / name)) {
      const double atol = entry.at("atol").at(output).get<double>() * slack;
      tally.add(fmt::format("{} {} {}", folder.filename().string(), name, output),
                difference(result.at(output), expected, atol, 0, true));
    }
  }
}

void run_all(const fs::path& root, Tally& tally, const PredictOptions& options, double slack) {
  for (const fs::path& folder : folders_in(root)) {
    if (!fs::exists(folder / "cases.json")) continue;
    try {
      run_cases(folder, tally, options, slack);
    } catch (const Error& e) {
      tally.add(folder.filename().string(), e.what());
    }
  }
}

}  // namespace

TEST_CASE("corpus_packages: every reference package gives its expected outputs") {
  const auto root = data_folder("packages");
  if (!root) return;
  Tally tally("packages, fp32");
  run_all(*root, tally, {}, 1);
  CHECK(tally.passed > 0);
}

TEST_CASE("corpus_packages_fp16: and in fp16 arithmetic, within what half precision allows") {
  const auto root = data_folder("packages");
  if (!root) return;
  // atol is four times the distance between torch half and torch float: rounding after every op stays within
  // it.
  Tally tally("packages, fp16");
  run_all(*root, tally, {.arithmetic = Arithmetic::fp16}, 1);
}

TEST_CASE("corpus_threads: results do not depend on the number of threads") {
  const auto root = data_folder("packages");
  if (!root) return;
  Tally tally("packages, threads");
  for (const fs::path& folder : folders_in(*root)) {
    if (!fs::exists(folder / "cases.json")) continue;
    const nlohmann::json index = read_json(folder / "cases.json");
    const auto package = open_package(folder / index.at("package").get<std::string>());
    const auto& entry = index.at("cases").at(0);
    const auto inputs = read_arrays(folder / "inputs" / entry.at("case").get<std::string>());
    std::vector<Prediction> results;
    for (const int threads : {1, 2, 5}) {
      const auto predictor = make_predictor(package, entry.at("function"), {.threads = threads});
      const auto state = predictor->make_state();
      results.push_back(predictor->predict(inputs, state.get()));
    }
    for (const auto& [name, array] : results[0].outputs)
      for (const auto& other : results)
        tally.add(folder.filename().string() + " " + name, difference(other.at(name), array, 0, 0, true));
  }
}

TEST_CASE("corpus_mlpackages: packages found in the wild agree with another runtime") {
  const auto root = data_folder("mlpackages");
  if (!root) return;
  Tally tally("mlpackages");
  for (const fs::path& package_path : folders_in(*root)) {
    if (package_path.extension() != ".mlpackage" && package_path.extension() != ".mlmodelc") continue;
    const auto package = open_package(package_path);
    CHECK_MESSAGE(!signatures(*package).empty(), package_path.string());
    for (const auto& entry : fs::directory_iterator(*root)) {
      // basic_pitch_io.npz belongs to basic_pitch.mlpackage and to basic_pitch_nmp.mlpackage.
      const std::string stem = entry.path().stem().string(), whose = package_path.stem().string() + "_";
      if (entry.path().extension() != ".npz" || !stem.ends_with("_io")) continue;
      if (!whose.starts_with(stem.substr(0, stem.size() - 2))) continue;
      const auto predictor = make_predictor(package);
      std::map<std::string, Array> inputs, expected;
      std::set<std::string> names;
      for (const TensorInfo& info : predictor->signature().inputs) names.insert(info.name);
      for (auto& [name, array] : read_npz(entry.path()))
        (names.contains(name) ? inputs : expected).emplace(name, std::move(array));
      const Prediction result = predictor->predict(inputs);
      // Names differ between the two formats: every expectation must be met by an output of its own.
      std::set<std::string> used;
      for (const auto& [name, array] : expected) {
        std::string problem = "no output equals it";
        for (const auto& [output, got] : result.outputs) {
          if (used.contains(output) || !difference(got, array, 1e-4, 1e-4, true).empty()) continue;
          used.insert(output);
          problem.clear();
          break;
        }
        tally.add(package_path.filename().string() + " " + name, problem);
      }
    }
  }
}
