// The ladder over every given model, against its checkpoint and against its goldens as numpy files.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/npy.h"
#include "corpus/corpus.h"
#include "engine/cpu_backend.h"
#include "support/data.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "verify/broken.h"
#include "verify/ladder.h"

using namespace anemone;
using namespace anemone::test;

namespace {

// Empty when every rung holds.
std::string problem(const VerifyReport& r) {
  if (r.passed() && r.rungs.size() == 6) return "";
  const Rung& last = r.rungs.back();
  return fmt::format("rung {} {}: {}", last.number, last.name, last.summary);
}

int64_t context_for(const GoldenModel& model) {
  int64_t most = 0;
  for (const std::string& set : model.sets())
    most = std::max(most, read_npy(model.golden / (set + "input_ids.npy")).size());
  return (most + 16 + 31) / 32 * 32;
}

// All arrays of a set in one file, as np.savez would write them.
void save_golden(const GoldenModel& model, const std::string& set, const fs::path& path) {
  NamedArrays arrays;
  for (const auto& entry : fs::directory_iterator(model.golden)) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".npy" || !file.starts_with(set)) continue;
    arrays.emplace_back(entry.path().stem().string().substr(set.size()), read_npy(entry.path()));
  }
  write_npz(path, arrays);
}

std::vector<GoldenModel> known_models() {
  std::vector<GoldenModel> out;
  for (const GoldenModel& model : golden_models())
    if (is_decoder(Checkpoint::open(model.checkpoint))) out.push_back(model);
  return out;
}

}  // namespace

TEST_CASE("corpus_verify: every given model is green against its checkpoint") {
  const TempFolder folder;
  Tally tally("verify");
  for (const GoldenModel& model : known_models())
    for (const Precision precision : {Precision::fp16, Precision::int8}) {
      const BundleEditor bundle(
          model.checkpoint, folder / "b",
          {.context = {context_for(model)}, .tokens = {{1, 1}, {16, 16}}, .precision = precision});
      tally.add(
          fmt::format("{} {}", model.name(), bundle.info().precision),
          problem(verify(bundle.path(), {.source = model.checkpoint, .steps = 8, .backend = cpu_backend})));
    }
}

TEST_CASE("corpus_verify_golden: and against goldens that transformers and numpy made") {
  const TempFolder folder;
  Tally tally("verify_golden");
  for (const GoldenModel& model : known_models()) {
    const BundleEditor bundle(
        model.checkpoint, folder / "b",
        {.context = {context_for(model)}, .precision = Precision::fp16, .skip = model.skip()});
    for (const std::string& set : model.sets()) {
      if (!model.exact(set)) continue;
      save_golden(model, set, folder / "g.npz");
      const VerifyReport r = verify(bundle.path(), {.golden = folder / "g.npz", .backend = cpu_backend});
      tally.add(fmt::format("{} {}", model.name(), set), problem(r));
      CHECK(r.rungs[0].verdict == Verdict::skipped);
    }
  }
}

TEST_CASE(
    "corpus_verify_broken: in every family a broken bundle fails at the right rung with the right name") {
  const TempFolder folder;
  Tally tally("verify_broken");
  for (const GoldenModel& model : known_models()) {
    if (!model.variant.empty()) continue;
    const Model m = describe(Checkpoint::open(model.checkpoint));
    const auto check = [&](const char* what, int rung, const std::string& word, const auto& change,
                           const std::string& only = "") {
      BundleEditor bundle(model.checkpoint, folder / "b",
                          {.context = {96}, .tokens = {{1, 1}, {4, 4}}, .precision = Precision::fp16});
      bundle.edit(change, only);
      const VerifyReport r = verify(bundle.path(), {.source = model.checkpoint,
                                                    .steps = 6,
                                                    .arithmetics = {Arithmetic::fp32},
                                                    .backend = cpu_backend});
      const Rung& last = r.rungs.back();
      const bool right = !r.passed() && last.number == rung && last.summary.find(word) != std::string::npos;
      tally.add(fmt::format("{} {}", model.name(), what),
                right ? "" : fmt::format("rung {}: {}", last.number, last.summary));
    };
    const std::string down = has_experts(m) ? "l1_e0_down_weight" : "l1_down_weight";
    check("weight", 1, down, [&](Function& f) { scale_weight(f, down, 1.5f); });
    // The first layers that attend, the first of all aside: in some families others stand between them.
    std::vector<size_t> attending;
    for (size_t i = 0; i < m.layers.size(); ++i)
      if (find_attention(m.layers[i])) attending.push_back(i);
    const size_t second = attending.at(attending.at(0) == 0 ? 1 : 0);
    const Attention& a = *find_attention(m.layers[second]);
    const auto layer = static_cast<int>(second);
    const std::string drifts = fmt::format("layer {} drifts first, ", second);
    if (a.rope && m.ropes[*a.rope].dims == a.head_dim)
      check("rope", 3, drifts + "q", [&](Function& f) { swap_rope_pairs(f, layer, a.head_dim); });
    if (a.kv_heads > 1)
      check("kv heads", 3, drifts + (a.mix ? "q" : "k"),  // some mix them
            [&](Function& f) { misread_kv_heads(f, layer, a.kv_heads, a.head_dim); });
    check("cache row", 4, fmt::format("layer {}, key cache: token 0 was written to row 1", attending[0]),
          shift_cache_rows);
    check("mask", 4, "t4", [](Function& f) { hide_positions(f, 2, 0, 1); }, "t4");
  }
}

TEST_CASE("verify_smollm2: a real model is green on every rung, fp16 and int8") {
  const auto path = smollm2_file();
  if (!path) return;
  const TempFolder folder;
  Tally tally("verify_smollm2");
  for (const Precision precision : {Precision::fp16, Precision::int8}) {
    const BundleEditor bundle(*path, folder / "b",
                              {.context = {128}, .tokens = {{1, 1}, {32, 32}}, .precision = precision});
    const VerifyReport r = verify(bundle.path(), {.source = *path, .backend = cpu_backend});
    tally.add(bundle.info().precision, problem(r));
    CHECK(r.proposed_scale == 0.25);  // the first token's stream reaches 22,000 of the accumulator's 32,768
  }
}
