#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "e2e/command.h"
#include "mil/builder.h"
#include "package/package.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

std::map<std::string, Array> arrays(const std::filesystem::path& path) {
  std::map<std::string, Array> out;
  for (auto& [name, array] : read_npz(path)) out.emplace(name, std::move(array));
  return out;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  return worst;
}

// All letters of the example, one call each, the state passed on through a file; the difference from numpy.
void run_text(const std::string& arithmetic, double tolerance) {
  const TempFolder folder;
  const auto expected = arrays(recall_package().parent_path() / "expected.npz");
  const std::vector<float> logits = expected.at("logits").to_float();
  const auto best = expected.at("best").to_int();
  size_t step = 0;
  for (const auto& inputs : recall_steps()) {
    CAPTURE(step);
    const Outcome call =
        anemone_command({"predict", recall_package(), "--inputs", inputs, "--state", folder / "state.npz",
                         "--outputs", folder / "out.npz", "--arith", arithmetic});
    CAPTURE(call.err);
    REQUIRE(call.status == 0);
    const auto out = arrays(folder / "out.npz");
    CHECK(largest_difference(out.at("logits").to_float(), std::span(logits).subspan(32 * step, 32)) <
          tolerance);
    // Where nothing matches, several letters are equally good: the choice counts only where one is clearly
    // the best.
    if (logits[32 * step + static_cast<size_t>(best[step])] > 7)
      CHECK(out.at("best").to_int()[0] == best[step]);
    ++step;
  }
  CHECK(step == best.size());
  const auto state = arrays(folder / "state.npz");
  for (const char* name : {"last", "k_cache", "v_cache"}) {
    CAPTURE(name);
    CHECK(state.at(name).shape() == expected.at(name).shape());
    CHECK(largest_difference(state.at(name).to_float(), expected.at(name).to_float()) < tolerance / 8);
  }
}

// y = x + x over four whole numbers.
std::filesystem::path integer_package(const TempFolder& folder) {
  Package package;
  package.spec_version = 9;
  Function& f = add_function(package.program, "main", Opset::ios18);
  Value* x = add_input(f, "x", Type::tensor(DType::int32, {4}));
  Builder b(f);
  b.output(b.op("add", {{"x", x}, {"y", x}}, "y"));
  package.description = description_of(package.program);
  const auto path = folder / "whole.mlpackage";
  write_package(package, path);
  return path;
}

}  // namespace

TEST_CASE("the example says what numpy says, letter by letter, with its state in a file") {
  // Sums of 64 products of numbers below 12, in fp32: 64 * 12 * 2^-24, times 8 in the head.
  run_text("fp32", 1e-3);
}

TEST_CASE("and within half precision in fp16 arithmetic") {
  // Scores reach 18, where halves are 2^-6 apart: attention, and with it logits up to 8, move by some
  // percent.
  run_text("fp16", 0.25);
}

TEST_CASE("predict prints a summary, or JSON that says the same") {
  const std::string inputs = recall_steps().at(0);
  const Outcome plain =
      anemone_command({"predict", recall_package(), "--inputs", inputs, "--repeat", "3", "--time"});
  CHECK(plain.status == 0);
  CHECK(plain.out.find("logits  fp32 [1, 32, 1, 1]\n") != std::string::npos);
  CHECK(plain.out.find("3 calls: first ") != std::string::npos);
  const Outcome made =
      anemone_command({"predict", recall_package(), "--inputs", inputs, "--json", "--tap", "attention"});
  const auto json = nlohmann::json::parse(made.out);
  CHECK(json.at("outputs").at("logits").at("shape") == nlohmann::json({1, 32, 1, 1}));
  CHECK(json.at("outputs").at("attention").at("max").get<double>() == doctest::Approx(1));
  CHECK(json.at("milliseconds").get<double>() >= 0);
}

TEST_CASE("whole numbers are printed in full, and what is not finite by name") {
  const TempFolder folder;
  write_npy(folder / "x.npy", Array::from<int32_t>({4}, {61728394, -5, 1, 2}));
  const Outcome whole =
      anemone_command({"predict", integer_package(folder), "--input", "x=" + (folder / "x.npy").string()});
  CHECK(whole.out == "y  int32 [4]\n  from -10 to 123456788, mean 3.08642e+07\n  first: 123456788 -10 2 4\n");
  write_npz(folder / "nan.npz", {{"letter", Array::from<float>({1}, {NAN})}});
  spill(folder / "m.mil",
        "program(1.0)\n{ func main<ios17>(tensor<fp32, [1]> letter) { tensor<fp32, [1]> y = relu(x = "
        "letter)[name = "
        "tensor<string, []>(\"y\")]; } -> (y); }\n");
  const Outcome nan = anemone_command({"predict", folder / "m.mil", "--inputs", folder / "nan.npz"});
  CHECK(nan.out == "y  fp32 [1]\n  1 values, none of them finite\n  first: nan\n");
  const Outcome json =
      anemone_command({"predict", folder / "m.mil", "--inputs", folder / "nan.npz", "--json"});
  CHECK(nlohmann::json::parse(json.out).at("outputs").at("y").at("max").is_null());
}

TEST_CASE("the two files of a call are written both or not at all") {
  const TempFolder folder;
  check_refused(anemone_command({"predict", recall_package(), "--inputs", recall_steps().at(0), "--outputs",
                                 folder / "out.npz", "--state", folder / "absent" / "state.npz"}),
                {"state.npz", "folder does not exist"});
  CHECK(!std::filesystem::exists(folder / "out.npz"));
  check_refused(anemone_command({"predict", recall_package(), "--inputs", recall_steps().at(0), "--outputs",
                                 folder / "absent" / "out.npz", "--state", folder / "state.npz"}),
                {"out.npz"});
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("wrong inputs are refused with what the function expects") {
  const TempFolder folder;
  const std::string package = recall_package(), inputs = recall_steps().at(0);
  const std::vector<std::string> all = {"letter: fp16 [1, 32, 1, 1]", "write_mask: fp16 [1, 1, 32, 1]",
                                        "mask: fp16 [1, 1, 1, 32]"};
  write_npy(folder / "x.npy", Array(DType::fp32, {1, 33, 1, 1}));
  const std::string file = folder / "x.npy";
  check_refused(anemone_command({"predict", package}), all);
  check_refused(anemone_command({"predict", package, "--inputs", inputs, "--input", "lettre=" + file}), all);
  check_refused(anemone_command({"predict", package, "--inputs", inputs, "--input", "letter=" + file}),
                {"letter", "[1, 33, 1, 1]", "[1, 32, 1, 1]"});
  check_refused(anemone_command({"predict", package, "--inputs", folder / "absent.npz"}), {"absent.npz"});
  check_refused(anemone_command({"predict", package, "--inputs", inputs, "--function", "prefill"}),
                {"prefill", "main"});
  check_refused(anemone_command({"predict", package, "--inputs", inputs, "--tap", "nothing"}), {"nothing"});
  check_refused(anemone_command({"predict", package, "--inputs", file}), {"x.npy", "--input NAME="});
  check_refused(anemone_command({"predict", package, "--input", "letter=" + inputs}), {".npz", "--inputs"});
  check_refused(anemone_command({"predict", package, "--input", "letter="}), {"NAME=FILE", "letter="});
}

TEST_CASE("broken and mistyped arrays are refused by name") {
  const TempFolder folder;
  const std::string bytes = slurp(recall_steps().at(0));
  for (const size_t size : {size_t{0}, size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    CAPTURE(size);
    spill(folder / "cut.npz", bytes.substr(0, size));
    check_refused(anemone_command({"predict", recall_package(), "--inputs", folder / "cut.npz"}),
                  {"cut.npz"});
  }
  const std::string whole = integer_package(folder);
  write_npy(folder / "x.npy", Array::from<float>({4}, {1, 2, 3, 4.5f}));
  check_refused(anemone_command({"predict", whole, "--input", "x=" + (folder / "x.npy").string()}),
                {"'x'", "4.5"});
  write_npy(folder / "x.npy", Array::from<int64_t>({4}, {1, 2, 3, int64_t{1} << 40}));
  check_refused(anemone_command({"predict", whole, "--input", "x=" + (folder / "x.npy").string()}),
                {"'x'", "int32"});
  check_refused(anemone_command({"predict", whole, "--state", folder / "s.npz"}), {"no states"});
}

TEST_CASE("a state of another shape is refused by name") {
  const TempFolder folder;
  write_npz(folder / "state.npz", {{"k_cache", Array(DType::fp32, {1, 1, 16, 64})}});
  check_refused(anemone_command({"predict", recall_package(), "--inputs", recall_steps().at(0), "--state",
                                 folder / "state.npz"}),
                {"state.npz", "k_cache", "[1, 1, 16, 64]", "[1, 1, 32, 64]"});
}

TEST_CASE("predict says where its time goes, and writes it for Perfetto") {
  const TempFolder folder;
  const std::string trace = folder / "t.json";
  const std::vector<std::string> call = {"predict",   recall_package(), "--inputs", recall_steps().at(0),
                                         "--profile", "--trace",        trace,      "--repeat",
                                         "2"};
  const Outcome table = anemone_command(call);
  CHECK(table.status == 0);
  for (const char* part : {"kind of step", "all calls", "longest steps", "share", "t.json written"})
    CHECK_MESSAGE(table.err.find(part) != std::string::npos, table.err);
  const auto events = nlohmann::json::parse(slurp(trace)).at("traceEvents");
  CHECK(std::count_if(events.begin(), events.end(),
                      [](const auto& e) { return e.value("cat", "") == "call"; }) == 2);
  std::vector<std::string> json = call;
  json.push_back("--json");
  const Outcome listed = anemone_command(json);
  const auto profile = nlohmann::json::parse(listed.out).at("profile");
  REQUIRE(!profile.empty());
  for (const auto& step : profile) {
    CHECK(step.at("count").get<int>() % 2 == 0);
    CHECK(step.at("share").get<double>() <= 1);
  }
  const Outcome plain = anemone_command({"predict", recall_package(), "--inputs", recall_steps().at(0)});
  CHECK(table.out == plain.out);
  CHECK(plain.err == "");
  check_refused(anemone_command(
                    {"predict", recall_package(), "--inputs", recall_steps().at(0), "--trace", folder / ""}),
                {"folder"});
}
