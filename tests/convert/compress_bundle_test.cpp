// Bundles of the demo model: compressed behind the conversion or while it writes, and with bits that were searched for.
#include <doctest/doctest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "bundle/files.h"
#include "convert/compress_bundle.h"
#include "convert/convert.h"
#include "convert/search.h"
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
  const CompressReport report = compress_bundle(demo().bundle, folder / "out",
                                                {.compress = {.recipe = recipe(R"({"quantize": "int8"})")}});
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
  const CompressReport twice =
      compress_bundle(folder / "out", folder / "twice",
                      {.compress = {.recipe = recipe(R"({"palettize": {"bits": 4, "fast": true}})")}});
  CHECK(twice.again == static_cast<int64_t>(twice.rows.size()));
}

TEST_CASE("a recipe gives the same bundle while it is converted as afterwards") {
  struct Case {
    const char* name;
    const char* recipe;
    Precision precision = Precision::fp16;
  };
  const Case cases[] = {
      {"palettes", R"({"rules": [{"palettize": {"bits": 4, "group": 16, "fast": true}}]})"},
      {"vectors of norms too", R"({"min_size": 0, "rules": [{"palettize": {"bits": 2, "fast": true}}]})"},
      {"int4 blocks", R"({"rules": [{"quantize": {"type": "int4", "block": 16}}]})"},
      {"int8", R"({"rules": [{"quantize": "int8"}]})"},
      {"pruned", R"({"rules": [{"prune": 0.5}]})"},
      {"pruned palettes", R"({"rules": [{"palettize": {"bits": 4, "fast": true}, "prune": 0.4}]})"},
      {"pruned integers", R"({"rules": [{"quantize": "int8", "prune": {"n": 2, "m": 4}}]})"},
      {"by name",
       R"({"skip": ["head_*/*"], "rules": [{"match": "*_down*", "palettize": {"bits": 6, "fast": true}}]})"},
      {"from int8", R"({"rules": [{"palettize": {"bits": 4, "fast": true}}]})", Precision::int8},
      {"from int8 by tensor", R"({"rules": [{"decompress": true}]})", Precision::int8_tensor},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const TempFolder folder;
    // Two lengths and two token counts: four functions share each weight.
    ConvertOptions options{.context = {64, 128}, .tokens = {{1, 1}, {16, 16}}, .precision = c.precision};
    const fs::path source = source_dir() / "examples/demo_model/demo.gguf";
    convert(source, folder / "plain", options);
    const CompressReport after =
        compress_bundle(folder / "plain", folder / "after", {.compress = {.recipe = parse_recipe(c.recipe)}});
    options.recipe = parse_recipe(c.recipe);
    const ConvertReport report = convert(source, folder / "at_once", options);
    REQUIRE(report.compressed);
    const CompressReport& at_once = *report.compressed;

    ThreadPool pool(1);
    const std::vector<BundleFile> a = hash_files(folder / "after", pool),
                                  b = hash_files(folder / "at_once", pool);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      CAPTURE(a[i].path);
      CHECK(a[i].path == b[i].path);
      CHECK(a[i].xxh3 == b[i].xxh3);
    }
    CHECK(fs::directory_iterator(folder.path()) != fs::directory_iterator());
    for (const auto& entry : fs::directory_iterator(folder.path()))  // no bundle on the way
      CHECK((entry.path().filename() == "plain" || entry.path().filename() == "after" ||
             entry.path().filename() == "at_once"));

    CHECK(at_once.bytes_after == after.bytes_after);
    CHECK(at_once.again == after.again);
    CHECK(at_once.noise == doctest::Approx(after.noise).epsilon(1e-9));
    REQUIRE(at_once.rows.size() == after.rows.size());
    for (size_t i = 0; i < after.rows.size(); ++i) {
      CHECK(at_once.rows[i].weight == after.rows[i].weight);
      CHECK(at_once.rows[i].functions == after.rows[i].functions);
      CHECK(at_once.rows[i].bytes_before == after.rows[i].bytes_before);
      CHECK(at_once.rows[i].bytes_after == after.rows[i].bytes_after);
    }
  }
}

TEST_CASE("a conversion with a recipe says how far it is, and can be cancelled") {
  const TempFolder folder;
  ConvertOptions options{.context = {64}, .precision = Precision::fp16};
  options.recipe = recipe(R"({"palettize": {"bits": 4, "fast": true}})");
  uint64_t last = 0;
  options.progress = [&](uint64_t done, uint64_t total, const std::string&) {
    CHECK(done >= last);
    CHECK(done <= total);
    last = done;
    return true;
  };
  const fs::path source = source_dir() / "examples/demo_model/demo.gguf";
  convert(source, folder / "out", options);
  CHECK(last > 0);
  options.progress = [&](uint64_t done, uint64_t total, const std::string& what) {
    return what == "embedding.bin" || done < total / 2;
  };
  CHECK_THROWS_WITH_AS(convert(source, folder / "never", options), doctest::Contains("cancelled"), Error);
  CHECK(!fs::exists(folder / "never"));
}

TEST_CASE("a recipe is refused where the head is the embedding") {
  const TempFolder folder;
  ConvertOptions options{.context = {64}, .precision = Precision::fp16, .embedding_in_head = true};
  const fs::path source = source_dir() / "examples/demo_model/demo.gguf";
  options.recipe = recipe(R"({"quantize": "int8"})");
  CHECK_THROWS_WITH_AS(convert(source, folder / "never", options),
                       doctest::Contains("reads its embedding from the head"), Error);
  options.recipe.reset();
  convert(source, folder / "plain", options);
  CHECK_THROWS_WITH_AS(compress_bundle(folder / "plain", folder / "never",
                                       {.compress = {.recipe = recipe(R"({"quantize": "int8"})")}}),
                       doctest::Contains("reads its embedding from the head"), Error);
  CHECK(!fs::exists(folder / "never"));
}

TEST_CASE("searched bits stay within the loss, in eight runs") {
  const TempFolder folder;
  SearchOptions options;
  options.ids = {demo().ids.end() - 512, demo().ids.end()};
  options.max_loss = 0.05;
  options.compress.backend = cpu_backend;
  options.perplexity_tokens = 256;
  options.perplexity = [](const fs::path& bundle, std::span<const int32_t> ids) {
    return anemone::perplexity(Bundle::open(bundle, cpu_backend({})), ids, {}).value();
  };
  options.compress.compress.recipe = recipe(R"({"palettize": {"bits": 8, "group": 16, "fast": true}})");
  int runs = 0;
  options.progress = [&](int run, double value, uint64_t) {
    CHECK(run == ++runs);
    CHECK(std::isfinite(value));
  };
  const SearchResult found = search_bits(demo().bundle, folder / "out", options);
  CHECK(found.runs == runs);
  CHECK(runs <= 8);
  CHECK(found.perplexity_before == doctest::Approx(demo().perplexity));
  CHECK(found.perplexity_after <= found.perplexity_before * 1.05);
  CHECK(fs::is_empty(folder.path()));  // trials are gone
  options.compress.compress.recipe = found.recipe;
  CHECK(compress_bundle(demo().bundle, folder / "out", options.compress).bytes_after == found.bytes);
  CHECK(demo().of(folder / "out") == doctest::Approx(found.perplexity_after));
  // Smaller than 8 bits everywhere.
  const CompressReport eight =
      compress_bundle(demo().bundle, folder / "eight",
                      {.compress = {.recipe = recipe(R"({"palettize": {"bits": 8, "fast": true}})")}});
  CHECK(found.bytes < eight.bytes_after);
}
