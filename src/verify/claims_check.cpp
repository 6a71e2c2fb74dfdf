// What a bundle says about itself, against its files and against the model: rung 1 before any weight is read.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/thread_pool.h"
#include "bundle/files.h"
#include "lower/functions.h"
#include "package/description_faults.h"
#include "reference/rope.h"
#include "verify/climber.h"
#include "verify/expected.h"

namespace anemone {
namespace {

// Of numbers that went through JSON.
constexpr double kNear = 1e-6;

// Compares fields of bundle.json one after the other and keeps the first that differs.
class Claims {
 public:
  void equal(const std::string& field, const std::string& found, const std::string& expected) {
    if (problem_.empty() && found != expected)
      problem_ = fmt::format("bundle.json says {} {}, and the model has {}", field, found, expected);
  }
  void equal(const std::string& field, int64_t found, int64_t expected) {
    equal(field, fmt::format("{}", found), fmt::format("{}", expected));
  }
  void near(const std::string& field, double found, double expected) {
    if (!(std::abs(found - expected) <= kNear * std::abs(expected)))
      equal(field, fmt::format("{:.9g}", found), fmt::format("{:.9g}", expected));
  }
  void near(const std::string& field, const std::vector<double>& found, const std::vector<double>& expected) {
    equal("the number of " + field, static_cast<int64_t>(found.size()),
          static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
      near(fmt::format("{}[{}]", field, i), found[i], expected[i]);
  }
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
};

std::string ids_text(const std::vector<int64_t>& ids) { return fmt::format("[{}]", fmt::join(ids, ", ")); }
std::string id_text(const std::optional<int64_t>& id) { return id ? fmt::format("{}", *id) : "none"; }

std::string reach_text(const Reach& reach) {
  switch (reach.kind) {
    case Reach::Kind::causal: return "causal";
    case Reach::Kind::window: return fmt::format("a window of {}", reach.size);
    case Reach::Kind::full: return "full";
    case Reach::Kind::band: return fmt::format("a band of {}", reach.size);
  }
  return "";
}

void compare_ropes(const BundleInfo& info, const Model& model, Claims& claims) {
  claims.equal("the number of ropes", static_cast<int64_t>(info.ropes.size()),
               static_cast<int64_t>(model.ropes.size()));
  for (size_t i = 0; i < std::min(info.ropes.size(), model.ropes.size()); ++i) {
    const RopeTable& found = info.ropes[i];
    const Rope& rope = model.ropes[i];
    const bool both = rope.scaling == RopeScaling::longrope;
    const std::string name = fmt::format("ropes[{}]", i);
    claims.near(name + ".frequencies", found.frequencies,
                rotary_frequencies(rope, 1, LongRope::short_factors));
    claims.near(name + ".long_frequencies", found.long_frequencies,
                both ? rotary_frequencies(rope, 1, LongRope::long_factors) : std::vector<double>());
    if (both) claims.equal(name + ".original_context", found.original_context, rope.original_context);
    claims.near(name + ".attention_factor", found.attention_factor, rope.attention_factor);
  }
}

void compare_result(const BundleInfo& info, const Model& model, Claims& claims) {
  const auto pooling_text = [](const std::optional<Pooling>& p) {
    return !p ? "no pooling" : *p == Pooling::mean ? "pooling by the mean" : "pooling by the first token";
  };
  if (const auto* head = std::get_if<PooledHead>(&model.head)) {
    claims.equal("result", pooling_text(info.pooling), pooling_text(head->pooling));
    claims.equal("result.normalize", info.normalize, head->normalize);
  }
  if (const auto* head = std::get_if<ClassHead>(&model.head)) {
    claims.equal("result", pooling_text(info.pooling), pooling_text(head->pooling));
    claims.equal("result.scores", static_cast<int64_t>(info.scores), static_cast<int64_t>(head->scores));
    claims.equal("the number of result.labels", static_cast<int64_t>(info.labels.size()),
                 static_cast<int64_t>(head->labels.size()));
    for (size_t i = 0; i < std::min(info.labels.size(), head->labels.size()); ++i)
      claims.equal(fmt::format("result.labels[{}]", i), fmt::format("'{}'", info.labels[i]),
                   fmt::format("'{}'", head->labels[i]));
  }
}

// Who chooses experts, by the functions that there are; empty for a model without.
std::string way_of(const BundleInfo& info, const Model& model) {
  if (std::ranges::none_of(model.layers, [](const Layer& l) { return find_experts(l) != nullptr; }))
    return "";
  if (!info.routes()) return "all";
  for (const Stage& stage : info.stages)
    for (const StageFunction& f : stage.functions)
      if (const Port* shares = f.find_input(Role::Kind::shares);
          shares && shares->role.last - shares->role.first > 1)
        return "groups";
  return info.experts == "groups" ? "groups" : "host";  // of one expert each
}

// How the host chooses experts.
void compare_rules(const Climber& c, Claims& claims) {
  const auto share_text = [](Experts::Share s) {
    return s == Experts::Share::of_all ? "of_all" : "of_chosen";
  };
  const auto skip_text = [](Experts::Skip s) {
    return s == Experts::Skip::none ? "none" : s == Experts::Skip::pass ? "pass" : "zero";
  };
  const BundleInfo& info = c.bundle->info();
  if (!info.experts.empty()) claims.equal("choices.experts", info.experts, way_of(info, c.model));
  for (const Stage& stage : info.stages) {
    if (!stage.rule) continue;
    const ExpertRule& rule = *stage.rule;
    const Layer& layer = c.model.layers.at(static_cast<size_t>(stage.last_layer - 1));
    const Experts* e = find_experts(layer);
    const std::string at = fmt::format("the rule of layer {}: ", stage.last_layer - 1);
    claims.equal(at + "a router", 1, e ? 1 : 0);
    if (!e) return;
    claims.equal(at + "experts", rule.experts, e->count());
    claims.equal(at + "used", rule.used, e->used);
    claims.equal(at + "shares", share_text(rule.share), share_text(e->share));
    claims.equal(at + "skip", skip_text(rule.skip), skip_text(e->skip));
    const ResidualStep& step = layer.steps[experts_step(layer)];
    if (rule.skip != Experts::Skip::none)
      claims.near(at + "skip_scale", rule.skip_scale, info.residual_scale * (step.norm_out ? 1 : step.scale));
    std::vector<float> bias(static_cast<size_t>(e->router.choice_bias ? e->choices() : 0));
    if (!bias.empty()) read_rows(*c.checkpoint, e->router.choice_bias, 0, e->choices(), bias);
    claims.near(at + "choice_bias", rule.choice_bias, {bias.begin(), bias.end()});
  }
}

// How the packages keep keys and values, by the roles of their ports.
struct CacheForm {
  std::string kv, write;
};

CacheForm cache_form(const BundleInfo& info) {
  CacheForm out;
  for (const Stage& stage : info.stages)
    for (const StageFunction& f : stage.functions) {
      for (const Port& port : f.interface.states)
        if (is_cache(port.role.kind) && out.kv != "packed")
          out.kv = port.role.layers.size() > 1 ? "packed" : "state";
      if (f.find_input(Role::Kind::keys)) out.kv = "io";
      if (f.find_input(Role::Kind::position)) out.write = "slice";
      if (f.find_input(Role::Kind::write)) out.write = "mask";
    }
  return out;
}

// Functions of the packages that bundle.json does not list: nobody would call them.
std::string unlisted_function(const Climber& c) {
  const std::vector<Stage>& stages = c.bundle->info().stages;
  for (size_t i = 0; i < stages.size(); ++i)
    for (const auto& f : c.bundle->package(i).program.functions) {
      const bool listed = std::ranges::any_of(c.bundle->all().stages, [&](const Stage& stage) {
        return stage.package == stages[i].package &&
               std::ranges::any_of(stage.functions,
                                   [&](const StageFunction& s) { return s.name == f->name; });
      });
      if (!listed)
        return fmt::format("bundle.json lists no function '{}' of {}, and the package has one", f->name,
                           stages[i].package);
    }
  return "";
}

}  // namespace

std::string claim_problem(const Climber& c) {
  const BundleInfo& info = c.bundle->info();
  const Model& model = c.model;
  Claims claims;
  const ModelSizes sizes = sizes_of(model);
  claims.equal("model.heads", info.heads, sizes.heads);
  claims.equal("model.kv_heads", info.kv_heads, sizes.kv_heads);
  claims.equal("model.head_dim", info.head_dim, sizes.head_dim);
  claims.equal("model.context", info.model_context, model.context);
  if (const double scale = model.embedding.scale * info.residual_scale;
      std::abs(info.embedding_scale - scale) > kNear * std::abs(scale))
    return fmt::format(
        "bundle.json says embedding.scale {:.9g}, and the model has {:.9g} times choices.residual_scale "
        "{:.9g}",
        info.embedding_scale, model.embedding.scale, info.residual_scale);
  claims.equal("embedding.first_position", info.first_position, model.embedding.first_position);
  compare_ropes(info, model, claims);
  const std::vector<Reach> masks = lower::masks_of(model);
  claims.equal("the number of masks", static_cast<int64_t>(info.masks.size()),
               static_cast<int64_t>(masks.size()));
  for (size_t i = 0; i < std::min(masks.size(), info.masks.size()); ++i)
    claims.equal(fmt::format("masks[{}]", i), reach_text(info.masks[i]), reach_text(masks[i]));
  compare_result(info, model, claims);
  compare_rules(c, claims);
  claims.equal("tokens.bos", id_text(info.bos), id_text(model.bos));
  claims.equal("tokens.eos", ids_text(info.eos), ids_text(model.eos));
  claims.equal("tokens.pad", id_text(info.pad), id_text(model.pad));
  if (!claims.problem().empty()) return claims.problem();
  if (std::string problem = unlisted_function(c); !problem.empty() || !c.report.generates) return problem;
  for (const auto& way : c.ways) {
    const BundleInfo& one = way->info();
    const CacheForm form = cache_form(one);
    if (!form.kv.empty() && form.kv != one.kv && !(form.kv == "state" && one.kv == "packed"))
      return fmt::format("bundle.json says choices.kv {}, and the packages have {}", one.kv, form.kv);
    if (!form.write.empty() && form.write != one.kv_write)
      return fmt::format("bundle.json says {}.kv_write {}, and the packages have {}",
                         one.variants.empty() ? "choices" : "variant " + one.variants.front().name,
                         one.kv_write, form.write);
  }
  return "";
}

std::string tap_problem(const Climber& c) {
  const std::vector<Stage>& stages = c.bundle->info().stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (stage.taps.empty()) continue;
    for (const Tap& expected : expected_stage(stage, stage.functions.front(), c.model, c.bundle->info()).taps)
      if (std::ranges::none_of(
              stage.taps, [&](const Tap& t) { return t.name == expected.name && t.layer == expected.layer; }))
        return fmt::format("bundle.json has no tap '{}' of layer {} for {}", expected.name, expected.layer,
                           stage.package);
    std::set<std::string_view> values;
    for (const auto& f : c.bundle->package(i).program.functions) {
      for (const auto& input : f->inputs) values.insert(input->name);
      for (const auto& op : f->body.ops)
        for (const auto& value : op->outputs) values.insert(value->name);
    }
    for (const Tap& tap : stage.taps)
      if (!values.contains(tap.value))
        return fmt::format("bundle.json names a value '{}' that is not in {}", tap.value, stage.package);
  }
  return "";
}

std::string file_problem(const Climber& c) {
  ThreadPool pool(c.options.threads);
  const std::vector<std::string> faults = damaged_files(c.path, c.bundle->info(), c.options.hashes, pool);
  if (!faults.empty())
    return fmt::format("{}; copy the bundle again, or use --no-hash where it was changed on purpose",
                       faults.front());
  const std::vector<Stage>& stages = c.bundle->info().stages;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (const auto lost = weight_file_faults(c.bundle->package(i)); !lost.empty())
      return fmt::format("Core ML would refuse {}: {}", stages[i].package, lost.front());
    if (const auto disagreements = description_faults(c.bundle->package(i)); !disagreements.empty())
      return fmt::format("Core ML would refuse {}: {}", stages[i].package, disagreements.front().text());
  }
  return "";
}

}  // namespace anemone
