// Single-op programs with expected values, from Apple's own op tests.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "anemone/error.h"
#include "base/npy.h"
#include "check/check.h"
#include "corpus/corpus.h"
#include "package/package.h"
#include "support/data.h"

using namespace anemone;
namespace fs = std::filesystem;

namespace {

// The cases come as archives; they are unpacked into a folder that goes away with the test.
struct Unpacked {
  explicit Unpacked(const fs::path& root)
      : folder(fs::temp_directory_path() / fmt::format("anemone-mil-ops-{}", ::getpid())) {
    fs::create_directories(folder);
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.path().string().ends_with(".tar.xz")) {
        const std::string command =
            fmt::format("tar -xJf '{}' -C '{}'", entry.path().string(), folder.string());
        REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
      }
    for (const fs::path& plain : folders_in(root)) cases.push_back(plain);
    for (const fs::path& unpacked : folders_in(folder)) cases.push_back(unpacked);
  }
  ~Unpacked() { fs::remove_all(folder); }

  fs::path folder;
  std::vector<fs::path> cases;
};

// The program takes, stores or computes halves.
bool declares_half(const Package& package) {
  bool half = false;
  for (const auto& function : package.program.functions) {
    for (const auto& input : function->inputs) half = half || input->type.dtype == DType::fp16;
    for_each_op(std::as_const(function->body), [&](const Operation& op) {
      for (const auto& output : op.outputs) half = half || output->type.dtype == DType::fp16;
    });
  }
  return half;
}

struct Runner {
  explicit Runner(const fs::path& path)
      : package(open_package(path)), half(declares_half(*package)), predictor(make_predictor(package)) {}

  std::shared_ptr<const Package> package;
  bool half;
  std::unique_ptr<Predictor> predictor;
};

std::map<std::string, Array> arrays(const fs::path& path) {
  std::map<std::string, Array> out;
  for (auto& [name, array] : read_npz(path)) out.emplace(name, std::move(array));
  return out;
}

// Half data moved by one step of fp16, up or down by chance: at least twice what rounding to fp16 did to it.
class Nudge {
 public:
  explicit Nudge(unsigned seed) : random_(seed) {}

  std::shared_ptr<const Package> package(const Package& from) {
    auto out = std::make_shared<Package>();
    out->program = from.program.clone();
    out->description = from.description;
    out->spec_version = from.spec_version;
    for (const auto& function : out->program.functions)
      for_each_op(function->body, [&](Operation& op) {
        for (auto& [name, constant] : op.attributes)
          if (constant.type.is_tensor() && constant.type.dtype == DType::fp16) constant = nudged(constant);
      });
    return out;
  }

  // Of the inputs: those that are halves, or become halves first of all.
  std::map<std::string, Array> inputs(std::map<std::string, Array> arrays, const Package& package) {
    std::set<std::string> halves;
    for (const auto& function : package.program.functions) {
      for (const auto& input : function->inputs)
        if (input->type.dtype == DType::fp16) halves.insert(input->name);
      for_each_op(std::as_const(function->body), [&](const Operation& op) {
        const Value* from = op.type == "cast" ? op.value("x") : nullptr;
        if (from && !from->producer && op.outputs[0]->type.dtype == DType::fp16) halves.insert(from->name);
      });
    }
    for (auto& [name, array] : arrays)
      if (halves.contains(name))
        for (float& v : array.values<float>()) v *= up() ? 1 + 0x1p-10f : 1 - 0x1p-10f;
    return arrays;
  }

 private:
  bool up() { return (random_() & 1) != 0; }

  Constant nudged(const Constant& constant) {
    const auto stored = constant.bytes();
    Constant::Bytes bytes(stored.begin(), stored.end());
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      uint16_t half;
      std::memcpy(&half, &bytes[i], 2);
      const int magnitude = half & 0x7fff;
      if (magnitude == 0 || magnitude >= 0x7bff) continue;
      half = static_cast<uint16_t>(half + (up() ? 1 : -1));
      std::memcpy(&bytes[i], &half, 2);
    }
    return Constant::from_bytes(constant.type, std::move(bytes));
  }

  std::mt19937 random_;
};

// How far an output moves when the half data of the program and of its inputs does: what rounding explains.
double explained(const Runner& runner, const std::map<std::string, Array>& inputs, const std::string& output,
                 const Array& got) {
  constexpr unsigned kTrials = 8;
  const std::vector<float> before = got.to_float();
  double most = 0;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    Nudge nudge(trial);
    const auto package = nudge.package(*runner.package);
    const std::vector<float> after =
        make_predictor(package)->predict(nudge.inputs(inputs, *package)).at(output).to_float();
    for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
      most = std::max(most, std::abs(static_cast<double>(after[i]) - before[i]));
  }
  return most;
}

// What the test behind a case is known to want instead of equal values; nothing for most. `within` bounds how
// far the values may then differ.
nlohmann::json known_difference(const std::string& test) {
  static const nlohmann::json known = read_json(source_dir() / "tests" / "corpus" / "known_differences.json");
  for (const auto& entry : known)
    if (test.find(entry.at("test").get<std::string>()) != std::string::npos) return entry;
  return {};
}

void check(const nlohmann::json& info, const Runner& runner, State* state, const fs::path& folder,
           Tally& tally) {
  std::string ops;
  for (const auto& [op, count] : info.at("ops").items())
    if (op != "const") ops += op + " ";
  const nlohmann::json known = known_difference(info.at("test"));
  try {
    const std::map<std::string, Array> inputs = arrays(folder / "inputs.npz");
    const Prediction result = runner.predictor->predict(inputs, state);
    for (const auto& [name, expected] : arrays(folder / "expected.npz")) {
      const Array& got = result.at(name);
      const std::string what = fmt::format("{} {}({})", folder.filename().string(), ops, name);
      const std::string problem = difference(got, expected, info.at("atol"), info.at("rtol"),
                                             info.at("shapes"), info.at("mismatch_ratio"));
      const auto within = [&](double bound, double share = 0) {
        return difference(got, expected, bound, share, true).empty();
      };
      if (problem.empty())
        tally.add(what, "");
      else if (!known.is_null() && (!known.contains("within") || within(known.at("within"))))
        tally.know(what, known.at("reason"));
      else if (runner.half && within(state ? 0 : explained(runner, inputs, name, got), 0x1p-11))
        // Not a pass: the expectation was computed from fp32 data, or rounded itself.
        tally.know(what, "the program holds halves of the data that the expectation was computed from");
      else
        tally.add(what, problem);
    }
  } catch (const Error& e) {
    if (known.is_null() || known.contains("within")) throw;
    tally.know(folder.filename().string(), known.at("reason"));
  }
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
      check(info, Runner(folder / "m.mlpackage"), nullptr, folder, tally);
    } catch (const std::exception& e) {
      tally.add(folder.filename().string(), e.what());
    }
  }
  for (auto& [id, calls] : stateful) {
    std::sort(calls.begin(), calls.end());
    try {
      const Runner runner(calls[0].second.parent_path() / id / "m.mlpackage");
      const auto state = runner.predictor->make_state();
      for (const auto& [call, folder] : calls)
        check(read_json(folder / "case.json"), runner, state.get(), folder, tally);
    } catch (const std::exception& e) {
      tally.add(id, e.what());
    }
  }
  CHECK(tally.passed > 0);
}

TEST_CASE("corpus_mil_ops_load: check finds nothing in them that would keep Core ML from loading them") {
  const auto root = data_folder("mil_ops");
  if (!root) return;
  int seen = 0;
  for (const fs::path& folder : Unpacked(*root).cases) {
    if (!fs::exists(folder / "m.mlpackage")) continue;
    CAPTURE(folder.filename().string());
    const CheckReport report = check_package(open_package(folder / "m.mlpackage"), {});
    for (const Finding& f : report.findings) CHECK_MESSAGE(!f.rule->id.starts_with("T"), f.message);
    ++seen;
  }
  CHECK(seen > 0);
}
