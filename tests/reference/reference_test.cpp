// The reference against outputs captured from transformers, in every format that a model is given in.
#include "reference/reference.h"

#include <doctest/doctest.h>

#include "support/data.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "families/family.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using test::GoldenModel;
namespace fs = std::filesystem;

namespace {

Reference load(const fs::path& path, const std::string& skip = "") {
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(path));
  Model model = describe(*checkpoint);
  if (!skip.empty()) set_skip(model, skip);
  return Reference(std::move(checkpoint), std::move(model));
}

// The largest difference, as a part of the golden values' range. fp32 sums in another order differ by about
// 1e-6 of it; a wrong formula by 1e-2 and more.
double difference(std::span<const float> values, std::span<const float> golden) {
  REQUIRE(values.size() == golden.size());
  const auto [least, most] = std::minmax_element(golden.begin(), golden.end());
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(values[i]) - golden[i]));
  return worst / std::max(1e-30, static_cast<double>(*most) - *least);
}
constexpr double kTolerance = 1e-4;

int32_t best(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int32_t> greedy(const Reference& reference, std::span<const int32_t> prompt, size_t count) {
  ReferenceOptions options;
  options.positions = static_cast<int64_t>(prompt.size() + count);
  ReferenceSession session(reference, options);
  std::vector<float> logits = session.step(prompt, LogitRows::last);
  std::vector<int32_t> ids;
  while (ids.size() < count) {
    ids.push_back(best(logits));
    logits = session.step(std::span(ids).last(1), LogitRows::last);
  }
  return ids;
}

void check_set(const Reference& reference, const GoldenModel& model, const std::string& set) {
  std::map<std::string, std::vector<float>> inside;
  ReferenceOptions options;
  options.tap = [&](std::string_view name, int64_t layer, std::span<const float> values) {
    std::vector<float>& all = inside[std::string(name) + (layer < 0 ? "" : "_" + std::to_string(layer))];
    all.insert(all.end(), values.begin(), values.end());
  };
  const std::vector<int32_t> ids = test::read_ids(model.golden / (set + "input_ids.npy"));
  const std::vector<float> logits = reference.logits(ids, options);
  CHECK(difference(logits, read_npy(model.logits(set)).to_float()) <= kTolerance);
  if (!model.exact(set)) return;
  for (const auto& [name, values] : inside) {
    const fs::path golden = model.golden / (set + name + ".npy");
    if (!fs::exists(golden)) continue;
    INFO("value " << name);
    CHECK(difference(values, read_npy(golden).to_float()) <= kTolerance);
  }
  if (fs::exists(model.golden / (set + "greedy_ids.npy"))) {
    const std::vector<int32_t> golden = test::read_ids(model.golden / (set + "greedy_ids.npy"));
    CHECK(greedy(reference, ids, golden.size()) == golden);
  }
}

}  // namespace

TEST_CASE("the reference gives the golden logits, inner values and greedy tokens of every given model") {
  int compared = 0;
  for (const GoldenModel& model : test::golden_models()) {
    INFO("model " << model.name());
    if (!test::is_decoder(Checkpoint::open(model.checkpoint))) continue;
    const Reference reference = load(model.checkpoint, model.skip());
    for (const std::string& set : model.sets()) {
      INFO("golden set '" << set << "'");
      check_set(reference, model, set);
      ++compared;
    }
  }
  MESSAGE(compared << " sets of golden logits compared");
}

TEST_CASE("a configuration as newer tools save it describes the same model") {
  for (const GoldenModel& model : test::golden_models()) {
    const fs::path other = model.checkpoint / "config_v5.json";
    if (!model.variant.empty() || !fs::exists(other) || !test::is_decoder(Checkpoint::open(model.checkpoint)))
      continue;
    INFO("model " << model.name());
    TempFolder folder;
    fs::copy_file(other, folder.path() / "config.json");
    for (const auto& entry : fs::directory_iterator(model.checkpoint))
      if (entry.path().extension() == ".safetensors")
        fs::create_symlink(fs::absolute(entry.path()), folder.path() / entry.path().filename());
    const Reference reference = load(folder.path(), model.skip());
    for (const std::string& set : model.sets()) {
      const std::vector<int32_t> ids = test::read_ids(model.golden / (set + "input_ids.npy"));
      CHECK(difference(reference.logits(ids), read_npy(model.logits(set)).to_float()) <= kTolerance);
    }
  }
}

TEST_CASE("the demo model gives its golden tokens and logits") {
  const fs::path folder = source_dir() / "examples" / "demo_model";
  const auto golden = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
  const Reference reference = load(folder / golden.at("model").get<std::string>());
  for (const auto& item : golden.at("cases")) {
    INFO("prompt: " << item.at("prompt").get<std::string>());
    const auto prompt = item.at("prompt_ids").get<std::vector<int32_t>>();
    const auto expected = item.at("greedy_ids").get<std::vector<int32_t>>();
    const auto margins = item.at("margins").get<std::vector<double>>();
    const std::vector<int32_t> ids = greedy(reference, prompt, expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      if (ids[i] == expected[i]) continue;
      CHECK(margins[i] < 0.05);  // a near tie may go the other way, and then all that follows differs
      break;
    }
  }
}

TEST_CASE("pieces of a text give the same logits as the whole") {
  const Reference reference = load(source_dir() / "examples" / "demo_model" / "demo.gguf");
  std::vector<int32_t> ids(300);  // more than goes through the layers at once
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37 + 11) % 2048);
  const std::vector<float> whole = reference.logits(ids);
  ReferenceSession session(reference);
  std::vector<float> pieces = session.step(std::span(ids).first(7));
  const std::vector<float> none = session.step(std::span(ids).subspan(7, 200), LogitRows::none);
  const std::vector<float> last = session.step(std::span(ids).subspan(207), LogitRows::last);
  CHECK(none.empty());
  CHECK(session.position() == 300);
  CHECK(difference(pieces, std::span(whole).first(pieces.size())) < 1e-6);
  CHECK(difference(last, std::span(whole).last(2048)) < 1e-6);
}

TEST_CASE("positions count from where they are told to; attention sees differences alone") {
  const Reference reference = load(source_dir() / "examples" / "demo_model" / "demo.gguf");
  const std::vector<int32_t> ids = {0, 1098, 668, 1159, 531};
  ReferenceOptions later;
  later.first_position = 100;
  CHECK(difference(reference.logits(ids, later), reference.logits(ids)) < 1e-4);
}

TEST_CASE("ids outside the vocabulary and positions before 0 are errors") {
  const Reference reference = load(source_dir() / "examples" / "demo_model" / "demo.gguf");
  CHECK_THROWS_WITH_AS(reference.logits(std::vector<int32_t>{5, 2048}), doctest::Contains("2048"), Error);
  CHECK_THROWS_WITH_AS(reference.logits(std::vector<int32_t>{-1}), doctest::Contains("0 to 2047"), Error);
  ReferenceOptions options;
  options.first_position = -3;
  CHECK_THROWS_WITH_AS(reference.logits(std::vector<int32_t>{5}, options), doctest::Contains("-3"), Error);
}
