// Calibration, by what it is for: a text that it did not see. Too slow under sanitizers for a unit test.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/compress_bundle.h"
#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "runtime/bundle.h"
#include "runtime/prompt.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "verify/perplexity.h"

using namespace anemone;

namespace fs = std::filesystem;

TEST_CASE("corpus_calibration: calibrated bundles predict another text better than plain ones") {
  const TempFolder folder;
  const fs::path fp16 = folder / "fp16";
  convert(source_dir() / "examples/demo_model/demo.gguf", fp16,
          {.context = {128}, .tokens = {{1, 1}, {64, 64}}, .precision = Precision::fp16});
  // As the model was trained: stories between <|bos|> and <|eos|>.
  std::string text = slurp(source_dir() / "bench/texts/stories.txt");
  constexpr std::string_view kBetween = "\n<|eos|>\n";
  for (size_t at; (at = text.find(kBetween)) != std::string::npos;)
    text.replace(at, kBetween.size(), "<|eos|><|bos|>");
  const auto ids = load_tokenizer(*Bundle::open(fp16, cpu_backend({})))->encode(text, {.add_special = true});
  REQUIRE(ids.size() > 3072);
  // Each story by itself from its <|bos|> on, as the model is used: a window that begins in the middle of one is
  // nothing that it was trained for, and its perplexity there says little.
  std::vector<std::span<const int32_t>> stories;
  for (size_t at = 2048; at < ids.size();) {
    const auto from = std::find(ids.begin() + static_cast<int64_t>(at), ids.end(), ids[0]);
    const auto to = std::find(std::min(from + 1, ids.end()), ids.end(), ids[0]);
    if (to - from > 1) stories.emplace_back(from, std::min(to, from + 128));
    at = static_cast<size_t>(to - ids.begin());
  }
  REQUIRE(stories.size() > 8);
  const auto of = [&](const fs::path& path) {
    const auto bundle = Bundle::open(path, cpu_backend({}));
    double nats = 0, scored = 0;
    for (const auto story : stories) {
      const Perplexity p = perplexity(bundle, story, {});
      nats += p.nats * static_cast<double>(p.scored);
      scored += static_cast<double>(p.scored);
    }
    return std::exp(nats / scored);
  };
  for (const char* rule :
       {R"({"palettize": {"bits": 2, "fast": true}})", R"({"palettize": {"bits": 3, "fast": true}})",
        R"({"palettize": {"bits": 3, "group": 16, "fast": true}})",
        R"({"quantize": {"type": "int4", "per": "tensor"}})"}) {
    CAPTURE(rule);
    CompressBundleOptions options{
        .compress = {.recipe = parse_recipe(fmt::format("{{\"rules\": [{}]}}", rule)), .overwrite = true},
        .backend = cpu_backend};
    const CompressReport before = compress_bundle(fp16, folder / "out", options);
    const double plain = of(folder / "out");
    CHECK(before.judged == 0);
    options.calibration.assign(ids.begin(), ids.begin() + 2048);
    const CompressReport after = compress_bundle(fp16, folder / "out", options);
    const double calibrated = of(folder / "out");
    CHECK(after.judged == static_cast<int64_t>(after.rows.size()));
    CHECK(after.bytes_after == before.bytes_after);
    INFO("plain " << plain << ", calibrated " << calibrated);
    CHECK(calibrated < plain);
  }
}
