// Bundles of the demo model: compressed, and with bits that were searched for.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "compress/compress.h"
#include "compress/search.h"
#include "convert/convert.h"
#include "convert/files.h"
#include "runtime/bundle.h"
#include "runtime/prompt.h"
#include "support/data.h"
#include "support/temp_folder.h"
#include "verify/perplexity.h"

using namespace anemone;

namespace {

namespace fs = std::filesystem;

// The demo model in fp16, once for all cases, and the tokens of a text of the repository.
struct Demo {
  TempFolder folder;
  fs::path bundle = folder / "fp16";
  std::vector<int32_t> ids;
  double perplexity = 0;

  Demo() {
    ConvertOptions options;
    options.context = {128};
    options.tokens = {{1, 1}, {64, 64}};
    options.precision = Precision::fp16;
    convert(source_dir() / "examples/demo_model/demo.gguf", bundle, options);
    ids = load_tokenizer(*Bundle::open(bundle, {}))->encode(slurp(source_dir() / "bench/texts/stories.txt"));
    REQUIRE(ids.size() > 2304);
    ids.resize(2304);
    perplexity = of(bundle);
  }

  // Over the text's last tokens.
  double of(const fs::path& path) const {
    return anemone::perplexity(Bundle::open(path, {}), std::span(ids).last(256), {}).value();
  }
};

const Demo& demo() {
  static const Demo it;
  return it;
}

Recipe recipe(const std::string& rule) { return parse_recipe("{\"rules\": [" + rule + "]}"); }

}  // namespace

TEST_CASE("a compressed bundle is whole, smaller, and close to what it was") {
  const TempFolder folder;
  const CompressReport report =
      compress(demo().bundle, folder / "out", {.recipe = recipe(R"({"quantize": "int8"})")});
  CHECK(report.again == 0);
  CHECK(report.sqnr_db() > 35);
  const BundleInfo info = BundleInfo::read(folder / "out");
  ThreadPool pool(2);
  uint64_t bytes = fs::file_size(folder / "out" / kBundleFile);
  size_t found = 0;
  for (const BundleFile& f : hash_files(folder / "out", pool)) {
    if (f.path == kBundleFile) continue;
    bytes += f.bytes;
    for (const BundleFile& told : info.files) {
      if (told.path != f.path) continue;
      ++found;
      CHECK(told.bytes == f.bytes);
      CHECK(told.xxh3 == f.xxh3);
    }
  }
  CHECK(found == info.files.size());
  CHECK(bytes == report.bytes_after);
  CHECK(report.bytes_after < report.bytes_before);
  const double after = demo().of(folder / "out");
  CHECK(std::isfinite(after));
  CHECK(after == doctest::Approx(demo().perplexity).epsilon(0.02));

  // Once more, from what is quantized already: said, and not from fp16.
  const CompressReport twice = compress(folder / "out", folder / "twice",
                                        {.recipe = recipe(R"({"palettize": {"bits": 4, "fast": true}})")});
  CHECK(twice.again == static_cast<int64_t>(twice.rows.size()));
}

TEST_CASE("calibrated bundles foresee another text better than plain ones") {
  // As the model was trained: stories between <|bos|> and <|eos|>.
  std::string text = slurp(source_dir() / "bench/texts/stories.txt");
  constexpr std::string_view kBetween = "\n<|eos|>\n";
  for (size_t at; (at = text.find(kBetween)) != std::string::npos;)
    text.replace(at, kBetween.size(), "<|eos|><|bos|>");
  const auto ids = load_tokenizer(*Bundle::open(demo().bundle, {}))->encode(text, {.add_special = true});
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
    const auto bundle = Bundle::open(path, {});
    double nats = 0, scored = 0;
    for (const auto story : stories) {
      const Perplexity p = perplexity(bundle, story, {});
      nats += p.nats * static_cast<double>(p.scored);
      scored += static_cast<double>(p.scored);
    }
    return std::exp(nats / scored);
  };
  const TempFolder folder;
  for (const char* rule :
       {R"({"palettize": {"bits": 2, "fast": true}})", R"({"palettize": {"bits": 3, "fast": true}})",
        R"({"palettize": {"bits": 3, "group": 16, "fast": true}})",
        R"({"quantize": {"type": "int4", "per": "tensor"}})"}) {
    CAPTURE(rule);
    CompressOptions options{.recipe = recipe(rule), .overwrite = true};
    const CompressReport before = compress(demo().bundle, folder / "out", options);
    const double plain = of(folder / "out");
    CHECK(before.judged == 0);
    options.calibration.assign(ids.begin(), ids.begin() + 2048);
    const CompressReport after = compress(demo().bundle, folder / "out", options);
    const double calibrated = of(folder / "out");
    CHECK(after.judged == static_cast<int64_t>(after.rows.size()));
    CHECK(after.bytes_after == before.bytes_after);
    INFO("plain " << plain << ", calibrated " << calibrated);
    CHECK(calibrated < plain);
  }
}

TEST_CASE("searched bits stay within the loss, in eight runs") {
  const TempFolder folder;
  SearchOptions options;
  options.ids = {demo().ids.end() - 512, demo().ids.end()};
  options.max_loss = 0.05;
  options.perplexity_tokens = 256;
  options.compress.recipe = recipe(R"({"palettize": {"bits": 8, "group": 16, "fast": true}})");
  int runs = 0;
  options.told = [&](int run, double value, uint64_t) {
    CHECK(run == ++runs);
    CHECK(std::isfinite(value));
  };
  const SearchResult found = search_bits(demo().bundle, folder / "out", options);
  CHECK(found.runs == runs);
  CHECK(runs <= 8);
  CHECK(found.perplexity_before == doctest::Approx(demo().perplexity));
  CHECK(found.perplexity_after <= found.perplexity_before * 1.05);
  CHECK(fs::is_empty(folder.path()));  // trials are gone
  options.compress.recipe = found.recipe;
  CHECK(compress(demo().bundle, folder / "out", options.compress).bytes_after == found.bytes);
  CHECK(demo().of(folder / "out") == doctest::Approx(found.perplexity_after));
  // Smaller than 8 bits everywhere.
  const CompressReport eight = compress(demo().bundle, folder / "eight",
                                        {.recipe = recipe(R"({"palettize": {"bits": 8, "fast": true}})")});
  CHECK(found.bytes < eight.bytes_after);
}
