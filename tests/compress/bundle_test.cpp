// Bundles of the demo model: compressed, and with bits that were searched for.
#include <doctest/doctest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "bundle/files.h"
#include "compress/compress.h"
#include "compress/search.h"
#include "convert/convert.h"
#include "engine/cpu_backend.h"
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
    ids = load_tokenizer(*Bundle::open(bundle, cpu_backend({})))
              ->encode(slurp(source_dir() / "bench/texts/stories.txt"));
    REQUIRE(ids.size() > 2304);
    ids.resize(2304);
    perplexity = of(bundle);
  }

  // Over the text's last tokens.
  double of(const fs::path& path) const {
    return anemone::perplexity(Bundle::open(path, cpu_backend({})), std::span(ids).last(256), {}).value();
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
