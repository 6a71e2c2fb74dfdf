#include "verify/ladder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compress/recipe.h"
#include "convert/compress_bundle.h"
#include "support/golden_models.h"
#include "support/temp_folder.h"
#include "verify/broken.h"
#include "verify/judged.h"
#include "verify/report.h"

using namespace anemone;
using namespace anemone::test;

TEST_CASE("verify: the demo model is green in every form of a bundle") {
  using lower::KvKind;
  using lower::KvWrite;
  const TempFolder folder;
  const std::pair<const char*, ConvertOptions> forms[] = {
      {"fp16", {.context = {80}, .tokens = {{1, 1}, {8, 8}}, .precision = Precision::fp16}},
      {"int8", {.context = {80}, .tokens = {{1, 1}, {16, 16}}}},
      {"int8 per tensor", {.context = {80}, .precision = Precision::int8_tensor}},
      {"packed, tiers", {.context = {32, 80}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed}},
      {"io, shards", {.context = {80}, .kv = KvKind::io, .shard_bytes = 1'500'000, .head_rows = 700}},
      {"slices", {.context = {80}, .tokens = {{1, 1}, {8, 8}}, .kv_write = {KvWrite::slice}}},
      {"packed slices",
       {.context = {80}, .tokens = {{4, 4}}, .kv = KvKind::packed, .kv_write = {KvWrite::slice}}},
      {"both writes, the head inside and apart",
       {.context = {80},
        .tokens = {{1, 1}, {4, 4}},
        .kv_write = {KvWrite::mask, KvWrite::slice},
        .whole = true,
        .head_apart = true}},
      {"a range of tokens", {.context = {80}, .tokens = {{1, 4}}}},
      {"whole", {.context = {80}, .whole = true}},
      {"argmax", {.context = {80}, .argmax = true, .head_rows = 700}},
      {"int8 embedding", {.context = {80}, .embedding_int8 = true}},
      {"scaled residual", {.context = {80}, .precision = Precision::fp16, .residual_scale = 0.25}},
      {"a short context", {.context = {16}}},
      {"some layers", {.context = {80}, .precision = Precision::fp16, .first_layer = 1, .last_layer = 3}},
  };
  for (const auto& [name, options] : forms) {
    CAPTURE(name);
    const BundleEditor bundle(demo_model(), folder / "b", options);
    VerifyOptions o = quick(demo_model(), kDemoPrompt);
    o.arithmetics = {Arithmetic::fp32, Arithmetic::fp16};
    const VerifyReport r = verify(bundle.path(), o);
    check_green(r);
    CHECK(r.layer_figures.at(Arithmetic::fp16).size() == static_cast<size_t>(bundle.info().layers));
    // q, k, v, attention, the stream behind it, gate, up, what they make, the MLP, the stream behind it.
    for (const LayerFigures& l : r.layer_figures.at(Arithmetic::fp32)) CHECK(l.parts.size() == 10);
    for (const LayerMagnitude& m : r.magnitudes) {
      CHECK(m.value.value > 0);
      CHECK(m.sum.value > 0);
    }
    CHECK(r.rungs[2].rows.size() == 2 * std::max<size_t>(1, bundle.info().variants.size()));
    CHECK(r.weights.size() > 10);
  }
}

TEST_CASE("verify: calibrated weights, of which many are not the nearest numbers, are no fault") {
  const TempFolder folder;
  const BundleEditor plain(demo_model(), folder / "b", {.context = {80}, .precision = Precision::fp16});
  std::vector<int32_t> text;
  for (int32_t i = 0; i < 400; ++i) text.push_back(i * 37 % 2048);
  for (const char* form :
       {R"("palettize": {"bits": 2, "group": 16})", R"("palettize": {"bits": 4, "group": 16})",
        R"("quantize": {"type": "int4", "block": 32})", R"("quantize": {"type": "int8"})"}) {
    CAPTURE(form);
    const CompressOptions how{
        .recipe = parse_recipe(fmt::format(R"({{"rules": [{{"op": "conv", {}}}, {{"keep": true}}]}})", form)),
        .overwrite = true};
    compress_bundle(plain.path(), folder / "c",
                    {.compress = how, .calibration = text, .backend = cpu_backend});
    check_green(verify(folder / "c", quick(demo_model(), kDemoPrompt)));
  }
}

TEST_CASE("verify: broken bundles fail at the right rung with the right name") {
  const TempFolder folder;
  const ConvertOptions plain{.context = {80}, .tokens = {{1, 1}, {4, 4}}, .precision = Precision::fp16};
  const VerifyOptions o = quick(demo_model(), kDemoPrompt);
  SUBCASE("one weight scaled") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) { scale_weight(f, "l2_up_weight", 1.02f); });
    check_broken(verify(bundle.path(), o), 1, {"l2_up_weight", "blk.2.ffn_up.weight", "scaled", "0.98"});
  }
  SUBCASE("one norm of another layer") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) {
      if (Operation* op = find_op(f, "l1_mlp_norm_gain"))
        op->attributes.at("val") = find_op(f, "l0_attn_norm_gain")->attributes.at("val");
    });
    check_broken(verify(bundle.path(), o), 1, {"l1_mlp_norm_gain", "blk.1.ffn_norm.weight"});
  }
  SUBCASE("another epsilon in one norm, too small a change for any later rung") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) { scale_weight(f, "l1_attn_norm_root_eps_x", 3); });
    check_broken(verify(bundle.path(), o), 1, {"l1_attn_norm_root_eps_x", "and should be"});
  }
  SUBCASE("two layers in each other's place") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) {
      for (const auto& op : f.body.ops) {
        const std::string& name = op->outputs.empty() ? std::string() : op->outputs[0]->name;
        if (op->type != "const" || !name.starts_with("l0_") ||
            !(name.ends_with("_weight") || name.ends_with("_gain")))
          continue;
        std::swap(op->attributes.at("val"), find_op(f, "l1" + name.substr(2))->attributes.at("val"));
      }
    });
    check_broken(verify(bundle.path(), o), 1, {"in layers_00.mlpackage", "l0_attn_norm_gain", "is scaled"});
  }
  SUBCASE("keys turned the wrong way") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) {
      if (Operation* op = find_op(f, "l1_k_rope_low")) op->type = "add";
    });
    check_broken(verify(bundle.path(), o), 3, {"layer 1 drifts first", "k:", "rotation"});
  }
  SUBCASE("one row of the embedding is another's, and the prompt does not have it") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    const fs::path file = bundle.path() / bundle.info().tokens.file;
    std::string bytes = slurp(file);
    const size_t row = static_cast<size_t>(bundle.info().hidden) * 2;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(778 * row), row,
                bytes.begin() + static_cast<ptrdiff_t>(777 * row));
    spill(file, bytes);
    check_broken(verify(bundle.path(), o), 1, {"embedding.bin is damaged", "XXH3"});
    bundle.edit_info([](BundleInfo&) {});  // now with a hash that fits
    check_broken(verify(bundle.path(), o), 1, {"embedding", "token_embd.weight"});
  }
  SUBCASE("RoPE pairing swapped") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([&](Function& f) { swap_rope_pairs(f, 1, bundle.info().head_dim); });
    check_broken(verify(bundle.path(), o), 3, {"layer 1 drifts first", "q:", "rotation"});
  }
  SUBCASE("rotation of another base") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit_info([](BundleInfo& info) {
      for (double& f : info.ropes[0].frequencies) f *= 1.1;
    });
    check_broken(verify(bundle.path(), o), 1, {"bundle.json", "ropes[0].frequencies[0]"});
  }
  SUBCASE("kv heads misread") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([&](Function& f) { misread_kv_heads(f, 3, bundle.info().kv_heads, bundle.info().head_dim); });
    check_broken(verify(bundle.path(), o), 3, {"layer 3 drifts first", "k:", "key heads"});
  }
  SUBCASE("a cache row off by one, written by mask") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit(shift_cache_rows);
    check_broken(verify(bundle.path(), o), 4, {"layer 0", "key cache", "written to row 1 instead of row 0"});
  }
  SUBCASE("a cache row off by one, written by slices into packed states") {
    ConvertOptions slices = plain;
    slices.kv = lower::KvKind::packed;
    slices.kv_write = {lower::KvWrite::slice};
    BundleEditor bundle(demo_model(), folder / "b", slices);
    bundle.edit(shift_cache_rows, "t1");
    check_broken(verify(bundle.path(), o), 4, {"layer 0", "key cache", "written to row 1 instead of row 0"});
  }
  SUBCASE("a cache row off by one, in the second variant alone") {
    ConvertOptions both = plain;
    both.kv_write = {lower::KvWrite::mask, lower::KvWrite::slice};
    BundleEditor bundle(demo_model(), folder / "b", both);
    bundle.edit(shift_cache_rows, "t1_slice");
    check_broken(verify(bundle.path(), o), 4,
                 {"slice: ", "layer 0", "key cache", "written to row 1 instead of row 0"});
  }
  SUBCASE("a variant that writes the cache in another way than it says") {
    ConvertOptions both = plain;
    both.kv_write = {lower::KvWrite::mask, lower::KvWrite::slice};
    BundleEditor bundle(demo_model(), folder / "b", both);
    bundle.edit_info([](BundleInfo& info) { info.variants[1].kv_write = "mask"; });
    check_broken(verify(bundle.path(), o), 1, {"variant slice", "kv_write mask", "the packages have slice"});
  }
  SUBCASE("a mask row wrong, decoding") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) { hide_positions(f, 0, 0, 1); }, "t1");
    check_broken(verify(bundle.path(), o), 3, {"drifts first", "attn_out", "mask"});
  }
  SUBCASE("a mask row wrong, in chunks") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    bundle.edit([](Function& f) { hide_positions(f, 2, 0, 1); }, "t4");
    check_broken(verify(bundle.path(), o), 4, {"layer 0 drifts first", "attn_out", "mask", "t4"});
  }
  SUBCASE("the head's pieces in another order") {
    ConvertOptions pieces = plain;
    pieces.head_rows = 1024;
    BundleEditor bundle(demo_model(), folder / "b", pieces);
    bundle.edit_info([](BundleInfo& info) {
      for (Stage& stage : info.stages)
        for (StageFunction& f : stage.functions)
          if (std::vector<Port>& outputs = f.interface.outputs; outputs.size() == 2)
            std::swap(outputs[0].name, outputs[1].name);
    });
    check_broken(verify(bundle.path(), o), 3, {"the layers agree, but the head does not"});
  }
  SUBCASE("the embedding of a neighbour") {
    BundleEditor bundle(demo_model(), folder / "b", plain);
    const fs::path file = bundle.path() / bundle.info().tokens.file;
    std::string bytes = slurp(file);
    const size_t row = static_cast<size_t>(bundle.info().hidden) * 2;
    std::rotate(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(row), bytes.end());
    spill(file, bytes);
    check_broken(verify(bundle.path(), o), 1, {"embedding.bin is damaged", "XXH3"});
    bundle.edit_info([](BundleInfo&) {});  // now with a hash that fits
    check_broken(verify(bundle.path(), o), 1, {"embedding", "token_embd.weight"});
  }
}

TEST_CASE("verify: q and k norms dropped are named, in every family that has them") {
  const TempFolder folder;
  for (const GoldenModel& model : golden_models()) {
    const Checkpoint checkpoint = Checkpoint::open(model.checkpoint);
    if (!model.variant.empty() || !is_decoder(checkpoint)) continue;
    const Model m = describe(checkpoint);
    if (const Attention* a = first_attention(m); !a || !a->qk_norm || !a->qk_norm->q.gain) continue;
    CAPTURE(model.name());
    for (const std::string side : {"q", "k"}) {
      BundleEditor bundle(model.checkpoint, folder / "b", {.context = {80}, .precision = Precision::fp16});
      bundle.edit([&](Function& f) { drop_head_norm(f, 1, side, false); });
      check_broken(verify(bundle.path(), quick(model.checkpoint)), 3,
                   {"layer 1 drifts first", side + ":", side == "q" ? "query heads" : "key heads"});
      // Without its weight the norm is missed before anything is computed.
      bundle.edit([&](Function& f) { drop_head_norm(f, 1, side, true); });
      check_broken(verify(bundle.path(), quick(model.checkpoint)), 1,
                   {"l1_" + side + "_norm_gain", "is not in the package"});
    }
  }
}

TEST_CASE("verify: a window off by one is found, in every family that has one") {
  const TempFolder folder;
  for (const GoldenModel& model : golden_models()) {
    const Checkpoint checkpoint = Checkpoint::open(model.checkpoint);
    if (!model.variant.empty() || !is_decoder(checkpoint)) continue;
    const Model m = describe(checkpoint);
    const auto windowed = std::find_if(m.layers.begin(), m.layers.end(), [](const Layer& l) {
      const Attention* a = find_attention(l);
      return a && a->reach.kind == Reach::Kind::window;
    });
    if (windowed == m.layers.end() || find_attention(*windowed)->reach.size > 40) continue;
    CAPTURE(model.name());
    BundleEditor bundle(model.checkpoint, folder / "b", {.context = {80}, .precision = Precision::fp16});
    bundle.edit_info([](BundleInfo& info) {
      for (Reach& mask : info.masks)
        if (mask.kind == Reach::Kind::window) ++mask.size;
    });
    check_broken(verify(bundle.path(), quick(model.checkpoint)), 1, {"bundle.json", "masks[", "a window of"});
  }
}

TEST_CASE("verify: what cannot be judged is refused, what is wrong is reported") {
  const TempFolder folder;
  const BundleEditor bundle(demo_model(), folder / "b", {.context = {80}});
  CHECK(error_of([&] {
          verify(bundle.path(), {.backend = cpu_backend});
        }).find("give a source or a golden") != std::string::npos);
  CHECK(error_of([&] { verify(folder / "none", quick(demo_model(), kDemoPrompt)); }) != "");
  VerifyOptions cancelled = quick(demo_model(), kDemoPrompt);
  cancelled.progress = [](const std::string& what) {
    return what.find("tokens through") == std::string::npos;
  };
  CHECK(error_of([&] { verify(bundle.path(), cancelled); }) == "cancelled");
  VerifyOptions strict = quick(demo_model(), kDemoPrompt);
  strict.max_divergence = 1e-9;
  check_broken(verify(bundle.path(), strict), 2, {"storing the weights cost", "was asked for"});
}

TEST_CASE("verify: the report reads well as text, as JSON and as a page") {
  const TempFolder folder;
  BundleEditor bundle(demo_model(), folder / "b", {.context = {80}, .precision = Precision::fp16});
  const VerifyReport good = verify(bundle.path(), quick(demo_model(), kDemoPrompt));
  bundle.edit([](Function& f) { scale_weight(f, "l2_up_weight", 2); });
  const VerifyReport bad = verify(bundle.path(), quick(demo_model(), kDemoPrompt));
  for (const VerifyReport* r : {&good, &bad}) {
    std::istringstream lines(report_text(*r, true));
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; });
      CHECK_MESSAGE(columns <= 100, line);
    }
    const auto json = nlohmann::json::parse(report_json(*r));
    CHECK(json["passed"] == r->passed());
    CHECK(json["rungs"].size() == r->rungs.size());
    CHECK(json["weights"].size() == r->weights.size());
    const std::string page = report_html(*r);
    CHECK(page.starts_with("<!doctype html>"));
    for (const char* outside : {"https:", "src=", "<link", "@import"})
      CHECK(page.find(outside) == std::string::npos);
    // The name of a language is no address.
    for (size_t at = page.find("http:"); at != std::string::npos; at = page.find("http:", at + 1))
      CHECK(page.substr(at, 18) == "http://www.w3.org/");
  }
  CHECK(report_text(good, false, true) == "PASSED: 6 rungs\n");
  CHECK(report_text(bad).find("FAILED at rung 1, weights: l2_up_weight") != std::string::npos);
  const std::string page = report_html(good);
  CHECK(page.find("Error per layer") != std::string::npos);
  CHECK(page.find("Range per layer") != std::string::npos);
  CHECK(nlohmann::json::parse(report_json(good))["layer_figures"][2]["fp32"]["attn_out"]["cosine"] > 0.9999);
}
