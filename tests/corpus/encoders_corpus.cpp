// Encoders with goldens from transformers: every model folder that holds golden/last_hidden_state.npy; and
// all-MiniLM-L6-v2, where tools/fetch_minilm.sh fetched it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/npy.h"
#include "convert/convert.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "runtime/encoder.h"
#include "support/golden_models.h"
#include "support/made_model.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"
#include "verify/ladder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// fp16 weights in fp32 arithmetic: these models' weights are halves, so only the order of sums differs.
constexpr double kExact = 1e-3;
constexpr double kInt8Cosine = 0.99;

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    bb += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return ab / std::sqrt(aa * bb);
}

// The given encoders, in each of their formats, and the repository's own.
std::vector<GoldenModel> encoders() {
  std::vector<GoldenModel> found;
  std::vector<fs::path> roots = data_folders("models");
  roots.push_back(source_dir() / "tests/data/models");
  for (const fs::path& root : roots)
    for (const fs::path& folder : folders_in(root)) {
      const fs::path golden = folder / "golden";
      if (!fs::exists(golden / "last_hidden_state.npy")) continue;
      if (fs::exists(folder / "config.json")) found.push_back({folder, golden, ""});
      for (const fs::path& file : files_ending(folder, ".gguf")) found.push_back({file, golden, "gguf"});
    }
  return found;
}

class Judge {
 public:
  Judge(const GoldenModel& model, const fs::path& bundle, bool exact, Tally& tally)
      : model_(model), bundle_(Bundle::open(bundle, cpu_backend({}))), exact_(exact), tally_(tally) {}

  void plain() {
    const std::vector<int32_t> ids = read_ids(model_.golden / "input_ids.npy");
    const EncodedText e = Encoder(bundle_).encode({.ids = ids});
    compare("hidden states", e.hidden, "last_hidden_state");
    if (!e.classes.empty()) compare("classes", e.classes, "logits");
    for (const auto& [golden, pooling] :
         std::map<std::string, Pooling>{{"mean_pooled", Pooling::mean},
                                        {"mean_pooled_normalized", Pooling::mean},
                                        {"cls_pooled", Pooling::first}}) {
      EncodedText p = Encoder(bundle_, {.pooling = pooling}).encode({.ids = ids});
      if (golden.ends_with("normalized")) normalize(p.pooled);
      compare(golden, p.pooled, golden);
    }
  }

  // Rows of padded positions are whatever transformers gives: they are not compared.
  void padded() {
    if (!fs::exists(model_.golden / "pad_input_ids.npy")) return;
    const Array ids = read_npy(model_.golden / "pad_input_ids.npy"),
                mask = read_npy(model_.golden / "pad_attention_mask.npy");
    const int64_t texts = ids.shape().at(0), tokens = ids.shape().at(1);
    for (int64_t i = 0; i < texts; ++i) {
      std::vector<int32_t> real;
      for (int64_t t = 0; t < tokens; ++t)
        if (mask.to_int()[static_cast<size_t>(i * tokens + t)])
          real.push_back(static_cast<int32_t>(ids.to_int()[static_cast<size_t>(i * tokens + t)]));
      const EncodedText e = Encoder(bundle_, {.pooling = Pooling::mean}).encode({.ids = real});
      const std::string what = fmt::format("padded text {}, ", i);
      compare(what + "hidden states", e.hidden, "pad_last_hidden_state", i);
      compare(what + "classes", e.classes, "pad_logits", i);
      compare(what + "pooled", e.pooled, "pad_mean_pooled", i);
    }
  }

 private:
  // `text`: the row of a golden of several texts, of which the first numbers are compared.
  void compare(const std::string& what, std::span<const float> got, const std::string& golden,
               std::optional<int64_t> text = std::nullopt) {
    const fs::path path = model_.golden / (golden + ".npy");
    if (!fs::exists(path) || got.empty()) return;
    const Array array = read_npy(path);
    std::vector<float> expected = array.to_float();
    if (text) {
      const auto width = static_cast<ptrdiff_t>(expected.size()) / array.shape()[0];
      expected = {expected.begin() + *text * width, expected.begin() + (*text + 1) * width};
      REQUIRE(got.size() <= expected.size());
      expected.resize(got.size());
    }
    REQUIRE(got.size() == expected.size());
    const double error = range_error(got, expected), angle = cosine(got, expected);
    const bool fine = exact_ ? error <= kExact : angle >= kInt8Cosine;
    tally_.add(fmt::format("{} {} {}", model_.name(), exact_ ? "fp16" : "int8", what),
               fine ? "" : fmt::format("error {:.2e} of the range, cosine {:.6f}", error, angle));
  }

  const GoldenModel& model_;
  std::shared_ptr<const Bundle> bundle_;
  bool exact_;
  Tally& tally_;
};

std::optional<fs::path> minilm() {
  const char* given = std::getenv("ANEMONE_MINILM");
  const fs::path path = given ? fs::path(given) : source_dir() / ".cache" / "minilm";
  if (fs::exists(path / "model.safetensors")) return path;
  MESSAGE(
      "skipped: all-MiniLM-L6-v2 is not here; tools/fetch_minilm.sh fetches it, or name it in "
      "ANEMONE_MINILM");
  return std::nullopt;
}

}  // namespace

TEST_CASE("corpus_encoders: bundles compute the hidden states, vectors and classes of transformers") {
  const TempFolder folder;
  Tally tally("encoders");
  for (const GoldenModel& model : encoders()) {
    if (!is_known(Checkpoint::open(model.checkpoint))) continue;
    for (const bool exact : {true, false}) {
      const fs::path bundle = folder.path() / "bundle";
      convert(model.checkpoint, bundle,
              {.precision = exact ? Precision::fp16 : Precision::int8, .overwrite = true});
      Judge judge(model, bundle, exact, tally);
      judge.plain();
      judge.padded();
    }
  }
}

TEST_CASE(
    "corpus_encoders_verify: every given encoder is green on the rungs that it has, in both precisions") {
  const TempFolder folder;
  for (const GoldenModel& model : encoders()) {
    if (!is_known(Checkpoint::open(model.checkpoint))) continue;
    for (const Precision precision : {Precision::fp16, Precision::int8}) {
      CAPTURE(model.name());
      const fs::path bundle = folder.path() / "bundle";
      convert(model.checkpoint, bundle,
              {.tokens = {{16, 16}, {64, 64}}, .precision = precision, .overwrite = true});
      const VerifyReport report = verify(bundle, {.source = model.checkpoint, .backend = cpu_backend});
      REQUIRE(report.rungs.size() == 6);
      for (const Rung& rung : report.rungs) {
        CAPTURE(rung.summary);
        // There is no cache; and where there is a tokenizer it is compared.
        const bool nothing =
            rung.number == 4 || (rung.number == 6 && BundleInfo::read(bundle).tokenizer.empty());
        CHECK(rung.verdict == (nothing ? Verdict::skipped : Verdict::passed));
      }
      CHECK(report.layer_figures.size() == 2);
    }
  }
}

TEST_CASE("corpus_minilm: 100 texts have the vectors of transformers") {
  const auto model = minilm();
  if (!model) return;
  const TempFolder folder;
  const Array expected = read_npy(source_dir() / "tests/data/minilm_vectors.npy");
  const std::vector<float> vectors = expected.to_float();
  const std::string sentences = slurp(source_dir() / "tests/data/minilm_sentences.txt");
  const auto tokenizer = Tokenizer::load(*model);
  std::vector<std::vector<int32_t>> ids;
  for (size_t at = 0; at < sentences.size();) {
    const size_t end = sentences.find('\n', at);
    ids.push_back(tokenizer->encode(sentences.substr(at, end - at), {.add_special = true}));
    at = end + 1;
  }
  REQUIRE(ids.size() == 100);
  const size_t hidden = vectors.size() / ids.size();
  for (const auto& [precision, bar] :
       {std::pair{Precision::fp16, 0.9999}, std::pair{Precision::int8, 0.999}}) {
    convert(*model, folder / "bundle", {.precision = precision, .overwrite = true});
    const auto bundle = Bundle::open(folder / "bundle", cpu_backend({}));
    CHECK(bundle->info().normalize);
    const Encoder encoder(bundle, {.truncate = true, .keep_last = 1});
    double least = 1;
    for (size_t i = 0; i < ids.size(); ++i) {
      EncodedText e = encoder.encode({.ids = ids[i]});
      const double c = cosine(e.pooled, std::span(vectors).subspan(i * hidden, hidden));
      CHECK_MESSAGE(c >= bar, "text " << i << ": cosine " << c);
      least = std::min(least, c);
    }
    MESSAGE("all-MiniLM-L6-v2, " << (precision == Precision::fp16 ? "fp16" : "int8") << ": least cosine "
                                 << least);
  }
}
