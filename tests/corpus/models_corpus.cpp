// Whole models with golden logits from transformers, converted and run in every form.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/npy.h"
#include "convert/convert.h"
#include "corpus/bundle_variants.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "runtime/session.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

struct Score {
  double error = 0;   // largest difference, as a part of the golden logits' range
  double cosine = 0;  // over all of them
  bool same_best = true;
};

Score compare(const std::vector<float>& got, const Array& golden) {
  const std::vector<float> expected = golden.to_float();
  REQUIRE(got.size() == expected.size());
  const auto vocab = static_cast<size_t>(golden.shape().back());
  Score s;
  double low = INFINITY, high = -INFINITY, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    low = std::min<double>(low, expected[i]);
    high = std::max<double>(high, expected[i]);
    const double difference = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!std::isnan(s.error) && !(difference <= s.error)) s.error = difference;  // a NaN stays
    ab += static_cast<double>(got[i]) * expected[i];
    aa += static_cast<double>(got[i]) * got[i];
    bb += static_cast<double>(expected[i]) * expected[i];
  }
  s.error /= high - low;
  s.cosine = ab / std::sqrt(aa * bb);
  for (size_t t = 0; t < got.size(); t += vocab) {
    const auto best = [&](const std::vector<float>& v) {
      return std::max_element(v.begin() + static_cast<ptrdiff_t>(t),
                              v.begin() + static_cast<ptrdiff_t>(t + vocab)) -
             v.begin();
    };
    s.same_best = s.same_best && best(got) == best(expected);
  }
  return s;
}

Score run(const fs::path& bundle, const GoldenModel& model, const std::string& set, Arithmetic arithmetic,
          SessionOptions session = {}) {
  const std::vector<int32_t> ids = read_ids(model.golden / (set + "input_ids.npy"));
  session.positions = static_cast<int64_t>(ids.size());
  Session s(Bundle::open(bundle, cpu_backend({.arithmetic = arithmetic})), session);
  return compare(s.forward(ids), read_npy(model.logits(set)));
}

// The tokens that follow the prompt, by the bundle's own choice; empty where the folder has no golden for them.
std::string greedy_difference(const fs::path& bundle, const GoldenModel& model, const std::string& set) {
  if (!fs::exists(model.golden / (set + "greedy_ids.npy"))) return "";
  const std::vector<int32_t> ids = read_ids(model.golden / (set + "input_ids.npy")),
                             expected = read_ids(model.golden / (set + "greedy_ids.npy"));
  Session s(Bundle::open(bundle, cpu_backend({})),
            {.positions = static_cast<int64_t>(ids.size() + expected.size())});
  std::vector<int32_t> got = {static_cast<int32_t>(s.forward_best(ids))};
  while (got.size() < expected.size())
    got.push_back(static_cast<int32_t>(s.forward_best(std::span(&got.back(), 1))));
  const auto differs = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
  if (static_cast<size_t>(differs) == expected.size()) return "";
  return fmt::format("token {} is {}, expected {}", differs, got[static_cast<size_t>(differs)],
                     expected[static_cast<size_t>(differs)]);
}

int64_t context_for(const GoldenModel& model) {
  int64_t most = 0;
  for (const std::string& set : model.sets())
    most = std::max(most, read_npy(model.golden / (set + "input_ids.npy")).size() + 32);  // and what follows
  return (most + 31) / 32 * 32;
}

std::string text(const Score& s) {
  return fmt::format("error {:.2e} of the range, cosine {:.6f}, best tokens {}", s.error, s.cosine,
                     s.same_best ? "equal" : "differ");
}

}  // namespace

TEST_CASE("corpus_models: bundles compute what transformers computes") {
  const TempFolder folder;
  Tally tally("models");
  for (const GoldenModel& model : golden_models()) {
    if (!is_decoder(Checkpoint::open(model.checkpoint))) continue;
    const int64_t context = context_for(model);
    const fs::path plain = folder.path() / "plain", int8 = folder.path() / "int8";
    convert(model.checkpoint, plain,
            {.context = {context},
             .tokens = {{1, 1}, {4, 4}, {16, 16}},
             .precision = Precision::fp16,
             .skip = model.skip(),
             .overwrite = true});
    convert(model.checkpoint, int8,
            {.context = {context},
             .tokens = {{4, 4}},
             .precision = Precision::int8,
             .skip = model.skip(),
             .overwrite = true});
    for (const std::string& set : model.sets()) {
      const std::string name = model.name() + (set.empty() ? "" : " " + set);
      // Weights of a Q8_0 file are rounded to fp16 once more: they are held to the cosine.
      const auto exact = [&](const Score& s) {
        return model.exact(set) ? s.error <= 1e-3 && s.same_best : s.cosine >= 0.9999;
      };
      const Score one = run(plain, model, set, Arithmetic::fp32, {.function = "t1"});
      tally.add(name + " one by one", exact(one) ? "" : text(one));
      const Score four = run(plain, model, set, Arithmetic::fp32, {.function = "t4"});
      tally.add(name + " in chunks of 4", exact(four) ? "" : text(four));
      const Score chunks = run(plain, model, set, Arithmetic::fp32);
      tally.add(name + " as prefill", exact(chunks) ? "" : text(chunks));
      if (model.exact(set)) tally.add(name + " greedy", greedy_difference(plain, model, set));
      const Score half = run(plain, model, set, Arithmetic::fp16);
      tally.add(name + " fp16 arithmetic", half.cosine >= 0.9995 ? "" : text(half));
      const Score small = run(int8, model, set, Arithmetic::fp32);
      // A router in a near tie may choose another expert.
      const double least = has_experts(describe(Checkpoint::open(model.checkpoint))) ? 0.95 : 0.99;
      tally.add(name + " int8", small.cosine >= least ? "" : text(small));
    }
  }
}

// Thirteen rows and prompts of thirteen and twelve tokens: full, one short, and a last chunk that is not full.
TEST_CASE("corpus_variants: every form of the cache, its writes, tokens and tiers gives the same logits") {
  const TempFolder folder;
  Tally tally("variants");
  constexpr int64_t kContext = 13;
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_decoder(Checkpoint::open(model.checkpoint))) continue;
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    const Array golden = read_npy(model.golden / "logits.npy");
    const int64_t vocab = golden.shape().back();
    REQUIRE(static_cast<int64_t>(ids.size()) > kContext);
    for (BundleForm v : cache_variants(kContext)) {
      v.options.skip = model.skip();
      if (!convert_variant(model.checkpoint, folder.path() / "variant", v)) continue;
      const auto bundle = Bundle::open(folder.path() / "variant", cpu_backend({}));
      for (const int64_t length : {kContext - 1, kContext}) {
        Array expected(DType::fp32, {length, vocab});
        std::copy_n(golden.to_float().begin(), length * vocab, expected.values<float>().begin());
        Session session(bundle, {.positions = length});
        const Score s = compare(session.forward(std::span(ids).first(static_cast<size_t>(length))), expected);
        tally.add(fmt::format("{} {}: {} tokens of {}", model.name(), v.name, length, kContext),
                  s.error <= 1e-3 && s.same_best ? "" : text(s));
        if (length == kContext) CHECK_THROWS_AS(session.forward(std::span(ids).first(1)), Error);
      }
    }
    for (BundleForm& v : other_variants(64)) {
      if (v.options.argmax) continue;
      v.options.skip = model.skip();
      convert(model.checkpoint, folder.path() / "variant", v.options);
      const Score s = run(folder.path() / "variant", model, "", Arithmetic::fp32);
      const bool exact = v.options.precision == Precision::fp16;
      const double least = has_experts(describe(Checkpoint::open(model.checkpoint))) ? 0.95 : 0.99;
      tally.add(model.name() + " " + v.name,
                (exact ? s.error <= 1e-3 && s.same_best : s.cosine >= least) ? "" : text(s));
    }
  }
}

TEST_CASE("corpus_argmax: a bundle that picks on the device picks the best token") {
  const TempFolder folder;
  Tally tally("argmax");
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_decoder(Checkpoint::open(model.checkpoint))) continue;
    for (const bool whole : {false, true}) {
      convert(model.checkpoint, folder.path() / "b",
              {.context = {64},
               .precision = Precision::fp16,
               .whole = whole,
               .argmax = true,
               .shard_bytes = 1,
               .head_rows = 300,
               .skip = model.skip(),
               .overwrite = true});
      const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
      Session session(Bundle::open(folder.path() / "b", cpu_backend({})),
                      {.positions = static_cast<int64_t>(ids.size())});
      const Array golden = read_npy(model.golden / "logits.npy");
      const std::vector<float> logits = golden.to_float();
      const auto vocab = static_cast<size_t>(golden.shape().back());
      bool same = true;
      for (size_t t = 0; t < ids.size(); ++t) {
        const auto row = logits.begin() + static_cast<ptrdiff_t>(t * vocab);
        same = same && session.forward_best(std::span(&ids[t], 1)) ==
                           std::max_element(row, row + static_cast<ptrdiff_t>(vocab)) - row;
      }
      tally.add(model.name() + (whole ? " whole" : ""), same ? "" : "another token");
      CHECK_THROWS_AS(session.forward(std::span(ids).first(1)), Error);
    }
  }
}

TEST_CASE("converting twice gives the same bytes, whatever the number of threads") {
  const TempFolder folder;
  for (const GoldenModel& model : golden_models()) {
    if (!is_decoder(Checkpoint::open(model.checkpoint))) continue;
    for (BundleForm& v : other_variants(64)) {
      std::map<std::string, std::string> files[2];
      for (int i = 0; i < 2; ++i) {
        v.options.threads = i + 1;
        convert(model.checkpoint, folder.path() / "twice", v.options);
        files[i] = all_files(folder.path() / "twice");
      }
      CHECK_MESSAGE(files[0] == files[1], model.name() << " " << v.name);
    }
    if (model.variant == "q8_0") break;  // one in each format
  }
}
