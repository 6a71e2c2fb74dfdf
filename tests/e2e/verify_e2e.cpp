#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/npy.h"
#include "e2e/command.h"
#include "support/data.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::e2e;

namespace {

const std::string kModel = (source_dir() / "examples" / "demo_model" / "demo.gguf").string();

std::string converted(const TempFolder& folder, const std::vector<std::string>& more = {}) {
  const std::string bundle = (folder / "bundle").string();
  std::vector<std::string> call{"convert", kModel, "-o", bundle, "--context", "96", "--quiet"};
  call.insert(call.end(), more.begin(), more.end());
  REQUIRE(anemone_command(call).status == 0);
  return bundle;
}

}  // namespace

TEST_CASE("verify: passes with 0, fails with 1, refuses with 2") {
  const TempFolder folder;
  const std::string bundle = converted(folder), page = (folder / "report.html").string();
  const Outcome good =
      anemone_command({"verify", bundle, "--source", kModel, "--steps", "4", "--html", page});
  CHECK(good.status == 0);
  CHECK(good.out.find("PASSED: 6 rungs") != std::string::npos);
  CHECK(slurp(page).find("<svg") != std::string::npos);
  const Outcome bad = anemone_command({"verify", bundle, "--source", kModel, "--steps", "4", "--max-kl",
                                       "1e-9", "--arith", "fp32", "--json"});
  CHECK(bad.status == 1);
  CHECK(nlohmann::json::parse(bad.out)["rungs"].back()["name"] == "reference");
  check_refused(anemone_command({"verify", bundle}), {"--source"});
  check_refused(anemone_command({"verify", kModel, "--source", kModel}), {"verify takes a bundle"});
  check_refused(anemone_command({"verify", bundle, "--golden", (folder / "none.npz").string()}),
                {"none.npz"});
}

TEST_CASE("verify: bundles from ONNX graphs, with experts and as Olive leaves them") {
  for (const char* name : {"genai-gptoss-int4", "qmoe-qwen3-rows4", "olive-qwen3-tied"}) {
    CAPTURE(name);
    const TempFolder folder;
    const std::string source = (source_dir() / "tests/data/onnx/models" / name).string(),
                      bundle = (folder / "bundle").string();
    REQUIRE(anemone_command({"convert", source, "-o", bundle, "--context", "64", "--no-int8", "--quiet"})
                .status == 0);
    const Outcome good = anemone_command({"verify", bundle, "--source", source, "--steps", "4", "--quiet"});
    CHECK(good.status == 0);
    CHECK(good.out == "PASSED: 6 rungs\n");
  }
}

TEST_CASE("golden: what a model computes verifies its bundle, and a bundle of another does not") {
  const TempFolder folder;
  const std::string bundle = converted(folder, {"--precision", "fp16"}), golden = (folder / "g.npz").string();
  folder.write("text.txt", "One morning Mara went to the tide pool with her brother.");
  const std::string text = (folder / "text.txt").string();
  const Outcome made =
      anemone_command({"golden", kModel, "-o", golden, "--text", text, "--steps", "4", "--layers"});
  CHECK(made.status == 0);
  CHECK(made.out.find("4 greedy") != std::string::npos);
  const Outcome good = anemone_command({"verify", bundle, "--golden", golden, "--quiet"});
  CHECK(good.status == 0);
  CHECK(good.out == "PASSED: 5 rungs, 1 skipped\n");
  const std::string own = (folder / "own.npz").string();
  CHECK(anemone_command({"golden", bundle, "-o", own, "--text", text, "--arith", "fp16", "--quiet"}).status ==
        0);
  CHECK(anemone_command({"verify", bundle, "--golden", own, "--quiet"}).status == 0);
  write_npz(folder / "other.npz",
            {{"input_ids", Array::from<int32_t>({2}, {1, 2})}, {"logits", Array(DType::fp32, {2, 7})}});
  check_refused(anemone_command({"verify", bundle, "--golden", (folder / "other.npz").string()}),
                {"another model"});
}

TEST_CASE("perplexity: of a model and of its bundle") {
  const TempFolder folder;
  const std::string bundle = converted(folder);
  folder.write("text.txt", "One morning Mara went to the tide pool with her brother. The water was clear.");
  const std::string text = (folder / "text.txt").string();
  double nats[2];
  for (int i = 0; i < 2; ++i) {
    const Outcome r = anemone_command(
        {"perplexity", i ? bundle : kModel, "--text", text, "--context", "8", "--stride", "4", "--json"});
    REQUIRE(r.status == 0);
    const auto json = nlohmann::json::parse(r.out);
    CHECK(json["scored"].get<int64_t>() == json["tokens"].get<int64_t>() - 1);
    nats[i] = json["nats_per_token"];
  }
  CHECK(nats[1] == doctest::Approx(nats[0]).epsilon(0.05));  // int8 weights
  check_refused(anemone_command({"perplexity", bundle}), {"--text"});
  const std::string picks = converted(folder, {"--argmax-output", "--overwrite"});
  check_refused(anemone_command({"perplexity", picks, "--text", text}), {"only the best token"});
}
