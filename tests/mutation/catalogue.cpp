#include "mutation/catalogue.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "compress/recipe.h"
#include "families/experts.h"
#include "families/family.h"
#include "mutation/made_model.h"
#include "mutation/rng.h"
#include "support/data.h"

namespace anemone::mutation {
namespace {

using lower::KvKind;
using lower::KvWrite;

// Models of a family that is not known, or that cannot be read here, are no subjects.
std::optional<Source> given_source(const fs::path& path) {
  try {
    if (!Checkpoint::recognises(path)) return std::nullopt;
    const Model model = describe(Checkpoint::open(path));
    return Source{path.filename().string(), path, "", 0, !model.generates(), has_experts(model)};
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The seed's order of [0, n).
std::vector<size_t> shuffled(size_t n, Rng& rng) {
  std::vector<size_t> out(n);
  std::iota(out.begin(), out.end(), size_t{0});
  for (size_t i = n; i > 1; --i)
    std::swap(out[i - 1], out[static_cast<size_t>(rng.below(static_cast<int64_t>(i)))]);
  return out;
}

}  // namespace

std::vector<Source> all_sources(uint64_t seed) {
  std::vector<Source> out;
  std::vector<fs::path> roots = data_roots();
  roots.push_back(source_dir() / "tests/data");
  for (const fs::path& root : roots) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(root / "models", ignored))
      if (fs::exists(entry.path() / "config.json", ignored))
        if (auto source = given_source(entry.path())) out.push_back(std::move(*source));
  }
  std::sort(out.begin(), out.end(), [](const Source& a, const Source& b) { return a.name < b.name; });
  for (const std::string& family : made_families())
    out.push_back({"made " + family, {}, family, seed, made_is_encoder(family)});
  return out;
}

std::vector<Form> decoder_forms() {
  std::vector<Form> out = {
      {"state, mask, tiers", {.context = {48, 96}, .tokens = {{1, 1}, {8, 8}}}},
      {"state, slice", {.context = {96}, .tokens = {{1, 1}, {8, 8}}, .kv_write = {KvWrite::slice}}},
      {"packed, mask", {.context = {80}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed}},
      {"packed, slice, tiers",
       {.context = {40, 80}, .tokens = {{1, 1}, {4, 4}}, .kv = KvKind::packed, .kv_write = {KvWrite::slice}}},
      {"io, mask, shards", {.context = {80}, .kv = KvKind::io, .shard_bytes = 1, .head_rows = 200}},
      {"io, slice, tiers",
       {.context = {40, 80}, .tokens = {{1, 1}, {8, 8}}, .kv = KvKind::io, .kv_write = {KvWrite::slice}}},
      {"whole", {.context = {80}, .tokens = {{1, 1}, {8, 8}}, .whole = true, .head_rows = 296}},
      {"argmax", {.context = {80}, .tokens = {{1, 1}, {4, 4}}, .argmax = true, .head_rows = 200}},
      {"range of tokens", {.context = {80}, .tokens = {{1, 6}}}},
      {"chunks alone", {.context = {80}, .tokens = {{8, 8}}}},
      {"scaled residual",
       {.context = {80}, .tokens = {{1, 1}, {4, 4}}, .shard_bytes = 1, .residual_scale = 0.25}},
      {"int8 embedding", {.context = {80}, .embedding_int8 = true, .head_rows = 200}},
      {"embedding in the head",
       {.context = {80}, .tokens = {{1, 1}, {4, 4}}, .embedding_in_head = true, .head_rows = 200}},
      {"some layers", {.context = {80}, .first_layer = 1, .last_layer = 2}},
  };
  return out;
}

std::vector<Form> expert_forms(bool encoder) {
  const auto form = [&](const std::string& name, ExpertWay way, std::optional<int64_t> group) {
    ConvertOptions o;
    if (encoder) {
      o.tokens = {{24, 24}};
    } else {
      o.context = {80};
      o.tokens = {{1, 1}, {8, 8}};
    }
    o.experts = way;
    o.expert_group = group;
    return Form{name, o};
  };
  return {form("experts on the host", ExpertWay::host, {}), form("groups of experts", ExpertWay::groups, 3)};
}

std::vector<Form> encoder_forms() {
  return {
      {"two lengths", {.tokens = {{24, 24}, {48, 48}}}},
      {"one length, shards", {.tokens = {{32, 32}}, .shard_bytes = 1}},
      {"int8 embedding", {.tokens = {{32, 32}}, .embedding_int8 = true}},
      {"scaled residual", {.tokens = {{32, 32}}, .residual_scale = 0.5}},
  };
}

std::vector<Storage> all_storages() {
  const auto rule = [](const std::string& form) {
    return R"({"min_size": 64, "skip": ["classes*", "*_taps"], "rules": [{"op": "conv", )" + form +
           R"(}, {"keep": true}]})";
  };
  return {
      {"fp16", Precision::fp16, ""},
      {"int8", Precision::int8, ""},
      {"int8 per tensor", Precision::int8_tensor, ""},
      {"4-bit palette", Precision::fp16, rule(R"("palettize": {"bits": 4, "group": 8})")},
      {"6-bit palette", Precision::fp16, rule(R"("palettize": {"bits": 6})")},
      {"int4 blocks", Precision::fp16, rule(R"("quantize": {"type": "int4", "block": 8})")},
      {"int8 tables", Precision::fp16, rule(R"("palettize": {"bits": 6, "int8_lut": true})")},
      {"pruned", Precision::fp16, rule(R"("prune": {"sparsity": 0.3})")},
  };
}

std::vector<SubjectPlan> plan_subjects(size_t count, uint64_t seed, const PlanFilter& filter) {
  std::vector<Source> sources = all_sources(seed);
  std::erase_if(sources, [&](const Source& s) {
    return !has(s.name, filter.family) || (filter.given_only && s.path.empty());
  });
  std::vector<Storage> storages = all_storages();
  std::erase_if(storages,
                [&](const Storage& s) { return !filter.storage.empty() && s.name != filter.storage; });
  std::vector<SubjectPlan> all;
  Rng rng(seed, "plans");
  for (const size_t i : shuffled(sources.size(), rng)) {
    std::vector<Form> forms = sources[i].encoder ? encoder_forms() : decoder_forms();
    if (sources[i].experts) {
      const std::vector<Form> more = expert_forms(sources[i].encoder);
      forms.insert(forms.end(), more.begin(), more.end());
    }
    std::erase_if(forms, [&](const Form& f) { return !has(f.name, filter.form); });
    for (const Form& form : forms)
      for (const Storage& storage : storages) all.push_back({sources[i], form, storage});
  }
  if (count >= all.size()) return all;
  // Turns: each plan is the one whose source, form and storage were taken least so far.
  std::vector<SubjectPlan> out;
  std::map<std::string, int> taken;
  const std::vector<size_t> order = shuffled(all.size(), rng);
  std::vector<bool> used(all.size());
  while (out.size() < std::min(count, all.size())) {
    size_t best = all.size();
    int least = 0;
    for (const size_t i : order) {
      if (used[i]) continue;
      const int cost = 3 * taken["m" + all[i].source.name] + 2 * taken["s" + all[i].storage.name] +
                       taken["f" + all[i].form.name];
      if (best == all.size() || cost < least) best = i, least = cost;
    }
    used[best] = true;
    out.push_back(all[best]);
    ++taken["m" + out.back().source.name];
    ++taken["s" + out.back().storage.name];
    ++taken["f" + out.back().form.name];
  }
  return out;
}

std::optional<Subject> make_subject(const SubjectPlan& plan, const fs::path& folder) {
  fs::path model = plan.source.path;
  if (model.empty()) {
    model = folder / "model";
    write_made_model(model, plan.source.made, plan.source.seed);
  }
  ConvertOptions options = plan.form.options;
  options.precision = plan.storage.precision;
  if (!plan.storage.recipe.empty()) options.recipe = parse_recipe(plan.storage.recipe);
  options.threads = 1;
  options.overwrite = true;
  try {
    convert(model, folder / "bundle", options);
  } catch (const Error& e) {
    // What convert refuses by its own rules; anything else is a fault of the harness.
    const std::string why = e.what();
    for (const char* known : {"recurrent", "tied", "head", "layers", "range", "not go with", "embedding"})
      if (has(why, known)) return std::nullopt;
    throw;
  }
  return open_subject(plan.source.name, plan.form.name, plan.storage.name, folder / "bundle", model);
}

}  // namespace anemone::mutation
