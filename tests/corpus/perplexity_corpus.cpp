#include "verify/perplexity.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "engine/cpu_backend.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "text/tokenizer.h"

using namespace anemone;
using namespace anemone::test;

namespace {

nlohmann::json cases() {
  return nlohmann::json::parse(slurp(source_dir() / "tests" / "data" / "perplexity_cases.json"));
}

fs::path demo_model() { return source_dir() / "examples" / "demo_model" / "demo.gguf"; }

Reference reference_of(const fs::path& path, const std::string& skip = "") {
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(path));
  Model model = describe(*checkpoint);
  if (!skip.empty()) set_skip(model, skip);
  return Reference(checkpoint, std::move(model));
}

}  // namespace

TEST_CASE("perplexity: windows give what transformers gives") {
  const nlohmann::json all = cases();
  const auto ids = all["ids"].get<std::vector<int32_t>>();
  CHECK(Tokenizer::load(demo_model())->encode(all["text"].get<std::string>(), {.add_special = true}) == ids);
  const Reference reference = reference_of(demo_model());
  const TempFolder folder;
  convert(demo_model(), folder / "fp16",
          {.context = {128}, .tokens = {{1, 1}, {16, 16}}, .precision = Precision::fp16});
  const auto bundle = Bundle::open(folder / "fp16", cpu_backend({}));
  for (const auto& window : all["windows"]) {
    const PerplexityOptions options{.context = window["context"], .stride = window["stride"]};
    CAPTURE(options.context);
    CAPTURE(options.stride);
    const Perplexity p = perplexity(reference, ids, options);
    CHECK(p.scored == window["scored"].get<int64_t>());
    CHECK(p.windows == window["windows"].get<int64_t>());
    // transformers gives each window's mean in fp32.
    CHECK(std::abs(p.nats - window["nats"].get<double>()) < 1e-5);
    if (options.context > 128) continue;
    const Perplexity b = perplexity(bundle, ids, options);
    CHECK(b.scored == p.scored);
    // Its weights are rounded once more, to half: 2^-11 of their size.
    CHECK(std::abs(b.nats - p.nats) < 0x1p-11 * p.nats);
  }
}

TEST_CASE("perplexity: one window over given goldens is the mean of their own log-likelihoods") {
  for (const GoldenModel& model : golden_models()) {
    if (!is_decoder(Checkpoint::open(model.checkpoint))) continue;
    for (const std::string& set : model.sets()) {
      CAPTURE(model.name() + " " + set);
      const std::vector<int32_t> ids = read_ids(model.golden / (set + "input_ids.npy"));
      const Array golden = read_npy(model.logits(set));
      const std::vector<float> logits = golden.to_float();
      const auto vocab = static_cast<size_t>(golden.shape().back());
      double expected = 0;
      for (size_t t = 0; t + 1 < ids.size(); ++t) {
        double sum = 0;
        for (size_t i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(logits[t * vocab + i]));
        expected += std::log(sum) - static_cast<double>(logits[t * vocab + static_cast<size_t>(ids[t + 1])]);
      }
      expected /= static_cast<double>(ids.size() - 1);
      const Reference reference = reference_of(model.checkpoint, model.skip());
      const auto length = static_cast<int64_t>(ids.size());
      if (length > reference.model().context) continue;
      const Perplexity p = perplexity(reference, ids, {.context = length});
      CHECK(p.scored == length - 1);
      CHECK(std::abs(p.nats - expected) < 1e-3);  // the goldens' own tolerance
    }
  }
}

TEST_CASE("perplexity: progress counts what is scored, and can cancel") {
  const Reference reference = reference_of(demo_model());
  const auto ids = cases()["ids"].get<std::vector<int32_t>>();
  int64_t last = 0, goal = 0;
  PerplexityOptions options{.context = 100, .stride = 50};
  options.progress = [&](int64_t done, int64_t total, double nats) {
    CHECK(done > last);
    CHECK(std::isfinite(nats));
    last = done;
    goal = total;
    return true;
  };
  const Perplexity p = perplexity(reference, ids, options);
  CHECK(last == goal);
  CHECK(goal == p.scored);
  options.progress = [](int64_t, int64_t, double) { return false; };
  CHECK(error_of([&] { perplexity(reference, ids, options); }) == "cancelled");
}

TEST_CASE("perplexity: what cannot be computed is refused") {
  const TempFolder folder;
  convert(demo_model(), folder / "argmax", {.context = {64}, .argmax = true});
  convert(demo_model(), folder / "plain", {.context = {64}});
  const auto ids = cases()["ids"].get<std::vector<int32_t>>();
  const auto plain = Bundle::open(folder / "plain", cpu_backend({}));
  const auto says = [&](const std::shared_ptr<const Bundle>& bundle, std::span<const int32_t> tokens,
                        const PerplexityOptions& options, const std::string& what) {
    const std::string error = error_of([&] { perplexity(bundle, tokens, options); });
    CHECK_MESSAGE(error.find(what) != std::string::npos, error);
  };
  says(Bundle::open(folder / "argmax", cpu_backend({})), ids, {}, "only the best token");
  says(plain, ids, {.context = 65}, "a window of 65 tokens does not fit");
  says(plain, ids, {.context = 32, .stride = 33}, "the stride");
  says(plain, ids, {.context = 1}, "a window of 1 tokens");
  says(plain, std::span(ids).first(1), {}, "too short");
  const std::vector<int32_t> wrong{1, 1'000'000, 2};
  says(plain, wrong, {}, "not in the vocabulary");
}
