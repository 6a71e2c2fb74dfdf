// Whole models with golden logits from transformers, converted and run in every form.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>

#include "base/npy.h"
#include "convert/convert.h"
#include "corpus/corpus.h"
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
    s.error = std::max<double>(s.error, std::abs(static_cast<double>(got[i]) - expected[i]));
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
  Session s(Bundle::open(bundle, {.arithmetic = arithmetic}), session);
  return compare(s.forward(ids), read_npy(model.logits(set)));
}

int64_t context_for(const GoldenModel& model) {
  int64_t most = 0;
  for (const std::string& set : model.sets())
    most = std::max(most, read_npy(model.golden / (set + "input_ids.npy")).size());
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
    if (!is_known(Checkpoint::open(model.checkpoint))) continue;
    const int64_t context = context_for(model);
    const fs::path plain = folder.path() / "plain", int8 = folder.path() / "int8";
    convert(model.checkpoint, plain,
            {.context = {context},
             .tokens = {{1, 1}, {16, 16}},
             .precision = Precision::fp16,
             .overwrite = true});
    convert(model.checkpoint, int8,
            {.context = {context}, .tokens = {{4, 4}}, .precision = Precision::int8, .overwrite = true});
    for (const std::string& set : model.sets()) {
      const std::string name = model.name() + (set.empty() ? "" : " " + set);
      // Weights of a Q8_0 file are rounded to fp16 once more: they are held to the cosine.
      const auto exact = [&](const Score& s) {
        return model.exact(set) ? s.error <= 1e-3 && s.same_best : s.cosine >= 0.9999;
      };
      const Score one = run(plain, model, set, Arithmetic::fp32, {.function = "t1"});
      tally.add(name + " one by one", exact(one) ? "" : text(one));
      const Score chunks = run(plain, model, set, Arithmetic::fp32);
      tally.add(name + " in chunks of 16", exact(chunks) ? "" : text(chunks));
      const Score half = run(plain, model, set, Arithmetic::fp16);
      tally.add(name + " fp16 arithmetic", half.cosine >= 0.9995 ? "" : text(half));
      const Score small = run(int8, model, set, Arithmetic::fp32);
      tally.add(name + " int8", small.cosine >= 0.99 ? "" : text(small));
    }
  }
}

TEST_CASE("corpus_variants: every form of the cache, its writes, tokens and tiers gives the same logits") {
  const TempFolder folder;
  Tally tally("variants");
  using lower::KvKind;
  using lower::KvWrite;
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_known(Checkpoint::open(model.checkpoint))) continue;
    const auto length = static_cast<int64_t>(read_ids(model.golden / "input_ids.npy").size());
    struct Variant {
      const char* name;
      ConvertOptions options;
    };
    const std::vector<Variant> variants = {
        {"packed", {.context = {64}, .kv = KvKind::packed}},
        {"io", {.context = {64}, .kv = KvKind::io}},
        {"slice", {.context = {64}, .kv_write = KvWrite::slice}},
        {"packed slice, several shards",
         {.context = {64},
          .tokens = {{1, 1}, {4, 4}},
          .kv = KvKind::packed,
          .kv_write = KvWrite::slice,
          .shard_bytes = 1}},
        {"io slice", {.context = {64}, .kv = KvKind::io, .kv_write = KvWrite::slice}},
        {"range of tokens", {.context = {64}, .tokens = {{1, 4}}}},
        {"a last partial chunk at the edge", {.context = {length}, .tokens = {{8, 8}}}},
        {"tiers", {.context = {8, 16, 64}, .tokens = {{1, 1}, {4, 4}}}},
        {"packed tiers", {.context = {8, 64}, .kv = KvKind::packed}},
        {"head in pieces", {.context = {64}, .shard_bytes = 1, .head_rows = 100}},
        {"scaled residual", {.context = {64}, .residual_scale = 0.25}},
    };
    for (Variant v : variants) {
      v.options.precision = Precision::fp16;
      v.options.overwrite = true;
      convert(model.checkpoint, folder.path() / "variant", v.options);
      const Score s = run(folder.path() / "variant", model, "", Arithmetic::fp32);
      tally.add(model.name() + " " + v.name, s.error <= 1e-3 && s.same_best ? "" : text(s));
    }
  }
}

TEST_CASE("corpus_argmax: a bundle that picks on the device picks the best token") {
  const TempFolder folder;
  Tally tally("argmax");
  for (const GoldenModel& model : golden_models()) {
    if (!model.variant.empty() || !is_known(Checkpoint::open(model.checkpoint))) continue;
    convert(model.checkpoint, folder.path() / "b",
            {.context = {64},
             .precision = Precision::fp16,
             .argmax = true,
             .shard_bytes = 1,
             .head_rows = 300,
             .overwrite = true});
    const std::vector<int32_t> ids = read_ids(model.golden / "input_ids.npy");
    Session session(Bundle::open(folder.path() / "b", {}), {.positions = static_cast<int64_t>(ids.size())});
    const Array golden = read_npy(model.golden / "logits.npy");
    const std::vector<float> logits = golden.to_float();
    const auto vocab = static_cast<size_t>(golden.shape().back());
    bool same = true;
    for (size_t t = 0; t < ids.size(); ++t) {
      const auto row = logits.begin() + static_cast<ptrdiff_t>(t * vocab);
      same = same && session.forward_best(std::span(&ids[t], 1)) ==
                         std::max_element(row, row + static_cast<ptrdiff_t>(vocab)) - row;
    }
    tally.add(model.name(), same ? "" : "another token");
    CHECK_THROWS_AS(session.forward(std::span(ids).first(1)), Error);
  }
}

TEST_CASE("converting twice gives the same bytes") {
  const TempFolder folder;
  const auto models = golden_models();
  for (const GoldenModel& model : models) {
    if (!is_known(Checkpoint::open(model.checkpoint))) continue;
    std::vector<std::string> hashes[2];
    for (int i = 0; i < 2; ++i)
      for (const BundleFile& f : convert(model.checkpoint, folder.path() / "twice",
                                         {.context = {64}, .threads = i + 1, .overwrite = true})
                                     .info.files)
        hashes[i].push_back(f.path + f.xxh3);
    CHECK(hashes[0] == hashes[1]);
    break;
  }
}
