// Speculation over many models, forms and prompts: never another token than greedy decoding alone.
#include <algorithm>

#include "runtime/generate.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "convert/convert.h"
#include "corpus/bundle_variants.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "predict/arithmetic.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

using Ids = std::vector<int32_t>;

Generation generate(const std::shared_ptr<const Bundle>& bundle, const Ids& prompt,
                    const GenerateOptions& options) {
  Session session(bundle);
  return Generator(nullptr, options).run(session, prompt);
}

// Prompts that invite drafts, and others: the golden's ids, repeats of them, and ids by a fixed rule.
std::vector<Ids> prompts_from(Ids ids, int64_t vocab) {
  ids.resize(std::min<size_t>(ids.size(), 40));
  std::vector<Ids> out = {ids, {ids[0]}};
  ids.resize(std::min<size_t>(ids.size(), 8));
  const Ids once = ids;
  ids.insert(ids.end(), once.begin(), once.end());
  out.push_back(ids);
  uint32_t state = 12345;
  for (int p = 0; p < 4; ++p) {
    Ids random;
    for (int i = 0; i < 3 + 4 * p; ++i) {
      state = state * 1664525u + 1013904223u;
      random.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(p % 2 ? vocab : 7)));
    }
    out.push_back(random);
  }
  return out;
}

// Empty when the tokens are the same with and without drafts.
std::string compare(const std::shared_ptr<const Bundle>& bundle, const Ids& prompt, GenerateOptions options,
                    int64_t& accepted) {
  const Generation plain = generate(bundle, prompt, options);
  options.speculate = 3;
  const Generation drafted = generate(bundle, prompt, options);
  accepted += drafted.stats.accepted;
  if (drafted.ids == plain.ids && drafted.why == plain.why) return "";
  const auto at = std::mismatch(plain.ids.begin(), plain.ids.end(), drafted.ids.begin(), drafted.ids.end());
  return fmt::format("another token after {}", at.first - plain.ids.begin());
}

}  // namespace

TEST_CASE("corpus_speculation: drafts change no token of any model") {
  const TempFolder folder;
  Tally tally("speculation");
  const std::vector<BundleForm> forms = {
      {"1-4", {.context = {80}, .tokens = {{1, 4}}}},
      {"1,4", {.context = {80}, .tokens = {{1, 1}, {4, 4}}}},
      {"1,4 tiers", {.context = {16, 48}, .tokens = {{1, 1}, {4, 4}}}},
  };
  int64_t accepted = 0;
  bool any = false;
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_decoder(Checkpoint::open(model.checkpoint))) continue;
    any = true;
    for (BundleForm form : forms) {
      form.options.overwrite = true;
      if (!convert_variant(model.checkpoint, folder / "b", form)) continue;
      for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
        const auto bundle = Bundle::open(folder / "b", cpu_backend({.arithmetic = arithmetic, .threads = 1}));
        for (const Ids& prompt : prompts_from(read_ids(model.golden / "input_ids.npy"), bundle->info().vocab))
          for (const double penalty : {1.0, 1.2}) {
            if (arithmetic != Arithmetic::fp32 && (penalty != 1 || prompt.size() > 16)) continue;
            const GenerateOptions options{.max_new = 40,
                                          .sampling = {.repetition_penalty = penalty},
                                          .ignore_eos = true,
                                          .slide = penalty == 1};
            const std::string name = fmt::format("{} {} {} prompt of {} penalty {}", model.name(), form.name,
                                                 arithmetic_name(arithmetic), prompt.size(), penalty);
            tally.add(name, compare(bundle, prompt, options, accepted));
          }
      }
    }
  }
  if (any) CHECK(accepted > 100);  // else this shows nothing
}

TEST_CASE("corpus_speculation: drafts change no token of the demo model") {
  const TempFolder folder;
  Tally tally("speculation, demo");
  int64_t accepted = 0;
  for (const std::vector<lower::TokenCount>& tokens :
       {std::vector<lower::TokenCount>{{1, 4}}, std::vector<lower::TokenCount>{{1, 1}, {4, 4}}}) {
    convert(source_dir() / "examples/demo_model/demo.gguf", folder / "b",
            {.context = {128}, .tokens = tokens, .overwrite = true});
    for (const Arithmetic arithmetic : {Arithmetic::fp32, Arithmetic::fp16, Arithmetic::fast}) {
      const auto bundle = Bundle::open(folder / "b", cpu_backend({.arithmetic = arithmetic, .threads = 1}));
      for (int32_t start = 20; start < 2000; start += arithmetic == Arithmetic::fp32 ? 140 : 990)
        tally.add(
            fmt::format("from {}", start),
            compare(bundle, {0, start, start + 1},
                    {.max_new = arithmetic == Arithmetic::fp32 ? 160 : 60, .ignore_eos = true, .slide = true},
                    accepted));
    }
  }
  CHECK(accepted > 100);  // else this shows nothing
}
