#include "convert/request.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/expert_plan.h"
#include "plan/shards.h"

namespace anemone {
namespace {

using lower::KvKind;
using lower::TokenCount;

constexpr int64_t kMostContext = 1 << 20;  // far above what a cache on the device can hold
constexpr int64_t kContext = 2048;         // where nobody says another one
constexpr int64_t kPromptTokens = 64;      // at once, of a prompt (rule D11)

class Request {
 public:
  Request(const Model& model, const ConvertOptions& options) : model_(model), o_(options) {
    r_.kind = kind_of(model);
    r_.target = parse_target(options.target);
    r_.kv = options.kv.value_or(r_.target.phone() ? KvKind::packed : KvKind::state);
  }

  ConvertRequest make() {
    choose_layers();
    if (model_.generates() && model_.causal())
      choose_generation();
    else
      choose_text();
    choose_experts();
    check_twice();
    for (const TokenCount& t : r_.tokens) check_count(t);
    if (const double s = o_.residual_scale.value_or(1); !(s >= 0x1p-16 && s <= 0x1p16))
      throw errorf("a residual scale must be 2^-16 to 2^16").found(fmt::format("{}", s));
    return std::move(r_);
  }

 private:
  void choose_layers() {
    r_.first_layer = o_.first_layer;
    r_.last_layer = o_.last_layer ? o_.last_layer : model_.layers.size();
    if (r_.first_layer >= r_.last_layer || r_.last_layer > model_.layers.size())
      throw errorf("the model has no layers {} to {}", r_.first_layer,
                   static_cast<int64_t>(r_.last_layer) - 1)
          .expected(fmt::format("0 to {}", model_.layers.size() - 1));
  }

  // Where experts go: into the functions of their layers, or into their own.
  void choose_experts() {
    int64_t fewest = 0, used = 0;
    for (size_t i = r_.first_layer; i < r_.last_layer; ++i)
      if (const Experts* e = find_experts(model_.layers[i])) {
        fewest = fewest ? std::min(fewest, e->count()) : e->count();
        used = std::max(used, e->used);
      }
    if (!fewest) {
      if (o_.experts || o_.expert_group)
        throw errorf("the layers have no experts")
            .hint(o_.experts ? "leave out --experts" : "leave out --expert-group");
      return;
    }
    r_.experts = o_.experts.value_or(ExpertWay::all);
    int64_t group = std::min(fewest, std::max<int64_t>(2, used));
    if (!o_.experts || (r_.experts == ExpertWay::groups && !o_.expert_group)) choose_way(group);
    if (o_.expert_group && r_.experts != ExpertWay::groups)
      throw errorf("--expert-group needs --experts groups");
    if (r_.experts == ExpertWay::all) return;
    if (o_.whole)
      throw errorf("--whole is one package, and --experts {} makes several", way_name(r_.experts))
          .hint("leave out --whole, or use --experts all");
    r_.expert_group = 1;
    if (r_.experts == ExpertWay::host) return;
    r_.expert_group = o_.expert_group.value_or(group);
    if (r_.expert_group < 1 || r_.expert_group > fewest)
      throw errorf("a group has 1 to {} experts", fewest).found(fmt::format("{}", r_.expert_group));
  }

  // The fastest way by the plan's sums, where nobody says another one. Of models that see a text whole no runs are
  // published, and their many tokens use nearly all experts.
  void choose_way(int64_t& group) {
    if (!model_.generates() || o_.whole) return;
    ModelPlanOptions plan;
    plan.precision = storage_form(o_.precision);
    if (const Recipe* recipe = o_.recipe ? &*o_.recipe : o_.shards_for ? &*o_.shards_for : nullptr)
      for (const RecipeRule& rule : recipe->rules)
        if (!rule.form.keep) plan.precision = rule.form;
    plan.target = r_.target.hardware;
    plan.limits.bytes = o_.shard_bytes;
    plan.limits.head_rows = o_.head_rows.value_or(kHeadRows);
    const std::vector<WayCost> costs =
        expert_costs(model_, plan, {.hidden = static_cast<double>(model_.hidden)});
    group = costs.back().group;
    if (o_.experts) return;
    const WayCost& best = o_.expert_group ? costs.back() : fastest(costs);
    r_.experts = best.way;
    if (o_.advised)
      r_.chosen.push_back(
          fmt::format("experts {}: {:.0f} ms of weights and calls per token on the {}, by the plan",
                      way_name(best.way), best.cost.total_ms(), plan.target.chip->name));
  }

  // A text that grows: a cache of each length, a function for each number of tokens.
  void choose_generation() {
    r_.contexts = o_.context.empty() ? std::vector<int64_t>{kContext} : o_.context;
    std::sort(r_.contexts.begin(), r_.contexts.end());
    r_.tokens = o_.tokens.empty() ? std::vector<TokenCount>{{1, 1}} : o_.tokens;
    if (o_.advised) choose_lengths();
    choose_ways();
    if (o_.advised && !o_.kv && r_.target.phone())
      r_.chosen.emplace_back("kv packed: iPhones and iPads refuse more than two states");
    check_first_layer();
    check_head_rows();
    check_ranges();
    if (o_.embedding_in_head) check_tied();
    if (o_.embedding_in_head && o_.recipe)
      throw errorf("the bundle reads its embedding from the head, so the head cannot be compressed")
          .hint("convert without --embedding head, or without compression");
    for (const int64_t context : r_.contexts) {
      if (context < 2 || context > kMostContext)
        throw errorf("the context must be 2 to {}", kMostContext).found(fmt::format("{}", context));
      for (const TokenCount& t : r_.tokens)
        if (t.most > context) throw errorf("{} tokens at once do not fit a context of {}", t.most, context);
    }
    if (r_.kv == KvKind::packed) check_packed();
    if (r_.writes(lower::KvWrite::slice) && r_.tokens.front().least > 1)
      r_.notes.push_back(
          fmt::format("--kv-write slice without a function for one token: a call writes all its rows, so the "
                      "last {} rows of the "
                      "context cannot be used; add 1 to --tokens",
                      r_.tokens.front().least - 1));
    if (r_.kv == KvKind::io && r_.writes(lower::KvWrite::slice))
      r_.notes.emplace_back(
          "--kv io with --kv-write slice: Core ML is known to refuse slice_update of a tensor that is no "
          "state "
          "(rule K04); --kv-write mask is the safe form");
    check_model_context();
  }

  // Every way to write the cache, and with each the head inside and apart, where both were asked for.
  void choose_ways() {
    using lower::KvWrite;
    if (o_.head_apart && !o_.whole)
      throw errorf("--head-apart goes with --whole").hint("without --whole the head is apart anyway");
    const std::vector<KvWrite> writes = o_.kv_write.empty() ? std::vector{KvWrite::mask} : o_.kv_write;
    r_.ways.clear();
    for (const KvWrite write : writes)
      for (const bool inside : o_.head_apart ? std::vector{false, true} : std::vector{o_.whole}) {
        RunWay way{.write = write, .head_inside = inside};
        if (writes.size() > 1) way.variant = kv_write_name(write);
        if (o_.head_apart)
          way.variant += (way.variant.empty() ? "" : "_") + std::string(inside ? "whole" : "apart");
        r_.ways.push_back(std::move(way));
      }
  }

  // No longer than the model knows, and a second function for prompts.
  void choose_lengths() {
    int64_t longest = model_.context > 0 ? model_.context : kContext;
    for (const Rope& rope : model_.ropes)
      if (rope.scaling == RopeScaling::dynamic) longest = std::min(longest, rope.original_context);
    if (o_.context.empty() && longest < kContext) {
      r_.contexts = {longest};
      r_.chosen.push_back(fmt::format("context {}: the model's maximum", longest));
    }
    if (!o_.tokens.empty()) return;
    const int64_t chunk = std::min<int64_t>(kPromptTokens, r_.contexts.front());
    if (chunk < 2) return;
    if (makes_palettes()) {
      r_.chosen.push_back(
          fmt::format("tokens 1: palettes are slow in a function of {} tokens (rule Q08)", kPromptTokens));
      return;
    }
    r_.tokens.push_back({chunk, chunk});
    r_.chosen.push_back(fmt::format("tokens 1,{0}: prompts go through {0} tokens at a time", chunk));
  }

  bool makes_palettes() const {
    const std::optional<Recipe>& recipe = o_.recipe ? o_.recipe : o_.shards_for;
    return recipe && std::any_of(recipe->rules.begin(), recipe->rules.end(),
                                 [](const RecipeRule& rule) { return rule.form.palette.has_value(); });
  }

  // An encoder: one function for each length that texts are padded to.
  void choose_text() {
    if (model_.generates())
      throw errorf("the model is an encoder with logits of its vocabulary: no kind of bundle supports that")
          .hint("use a checkpoint with a pooled or a classification head");
    refuse(!o_.context.empty(), "--context", "there is no cache: --tokens gives the lengths of texts");
    refuse(o_.kv.has_value() || !o_.kv_write.empty(), "--kv and --kv-write", "there is no cache");
    refuse(o_.head_rows.has_value(), "--head-rows", "there is no head of the vocabulary");
    refuse(o_.head_apart, "--head-apart", "there is no head of the vocabulary");
    refuse(o_.argmax, "--argmax-output", "there is no next token to pick");
    refuse(o_.embedding_in_head, "--embedding head", "the head is no embedding");
    r_.contexts = {0};
    r_.tokens = o_.tokens;
    if (r_.tokens.empty())
      for (const int64_t n : text_lengths(model_)) r_.tokens.push_back({n, n});
    std::sort(r_.tokens.begin(), r_.tokens.end(),
              [](const TokenCount& a, const TokenCount& b) { return a.most < b.most; });
    for (const TokenCount& t : r_.tokens) {
      if (!t.fixed())
        throw errorf("an encoder needs fixed lengths")
            .found(fmt::format("--tokens {}-{}", t.least, t.most))
            .hint("give the lengths that texts are padded to, such as --tokens 64,256");
      if (t.most > longest_text(model_))
        throw errorf("the model takes at most {} tokens", longest_text(model_))
            .found(fmt::format("--tokens {}", t.most));
    }
  }

  static void refuse(bool given, const char* flag, const char* why) {
    if (given) throw errorf("an encoder does not take {}", flag).hint(why);
  }

  static void check_count(const TokenCount& t) {
    if (t.least < 1) throw errorf("a token count is at least 1");
    if (t.most < t.least)
      throw errorf("a range of tokens goes from fewer to more").found(fmt::format("{}-{}", t.least, t.most));
  }

  void check_ranges() const {
    const bool several = r_.contexts.size() * r_.tokens.size() * r_.ways.size() > 1;
    for (const TokenCount& t : r_.tokens) {
      if (t.fixed()) continue;
      if (several)
        throw errorf("a range of tokens cannot be combined with several functions in one package")
            .hint(
                "the ANE compiler refuses flexible sizes in multifunction programs: give fixed counts, such "
                "as --tokens 1,64");
      if (is_recurrent())
        throw errorf(
            "a range of tokens cannot be combined with recurrent layers: a call must know how many tokens "
            "are real")
            .hint("give fixed counts, such as --tokens 1,4");
      if (std::ranges::count(o_.kv_write, lower::KvWrite::slice) > 0)
        throw errorf("--kv-write slice needs a fixed number of tokens")
            .hint("use --kv-write mask with a range");
    }
  }

  bool is_recurrent() const {
    return std::any_of(model_.layers.begin(), model_.layers.end(), [](const Layer& layer) {
      return std::any_of(layer.steps.begin(), layer.steps.end(), [](const ResidualStep& step) {
        return std::visit(
            [](const auto& block) {
              if constexpr (requires { block.recurrent(); })
                return !block.recurrent().empty();
              else
                return false;
            },
            step.block);
      });
    });
  }

  // One state holds all layers, so they must be alike.
  void check_packed() const {
    const Attention* first = nullptr;
    for (size_t i = r_.first_layer; i < r_.last_layer; ++i) {
      const Attention* a = find_attention(model_.layers[i]);
      if (!a) continue;
      if (!first) first = a;
      if (a->kv_heads != first->kv_heads || lower::cache_width(*a) != lower::cache_width(*first))
        throw errorf("packed states need the same KV heads in all layers")
            .found(fmt::format("{} of {} and {} of {}", first->kv_heads, first->head_dim, a->kv_heads,
                               a->head_dim))
            .hint("use --kv state");
    }
  }

  // Beyond the length that a model was trained for, most models get worse. With a dynamic rope the cached keys
  // would have to be rotated again with every token.
  void check_model_context() {
    const int64_t longest = r_.contexts.back();
    for (const Rope& rope : model_.ropes)
      if (rope.scaling == RopeScaling::dynamic && longest > rope.original_context)
        throw errorf("the model's dynamic rope scaling changes with every token beyond {} positions",
                     rope.original_context)
            .found(fmt::format("a context of {}", longest))
            .hint(fmt::format("--context {} or less", rope.original_context));
    if (longest > model_.context)
      r_.notes.push_back(fmt::format("the model was trained for at most {} positions, and the context is {}",
                                     model_.context, longest));
  }

  // A router that goes on from the layer before needs that layer.
  void check_first_layer() const {
    for (const ResidualStep& step : model_.layers[r_.first_layer].steps)
      if (const auto* e = std::get_if<Experts>(&step.block);
          e && e->router.network && e->router.network->carry && r_.first_layer > 0)
        throw errorf("layer {} cannot be the first: its router goes on from the layer before", r_.first_layer)
            .hint("begin --layers with 0");
  }

  void check_head_rows() const {
    constexpr int64_t kMostPieces = 1024;  // each is an output, and a program of more takes minutes to write
    const int64_t rows = o_.head_rows.value_or(kHeadRows);
    if (rows < 1) throw errorf("a convolution of the head needs at least one row");
    const int64_t pieces = (model_.vocab + rows - 1) / rows;
    if (pieces > kMostPieces)
      throw errorf("a head of {} rows in convolutions of {} would have {} of them", model_.vocab, rows,
                   pieces)
          .expected(fmt::format("at most {}", kMostPieces))
          .hint(fmt::format("--head-rows {} or more", (model_.vocab + kMostPieces - 1) / kMostPieces));
  }

  void check_tied() const {
    const VocabularyHead& head = model_.vocabulary_head();
    if (!head.tied || head.weight.interleaved_head)
      throw errorf("--embedding head needs a model whose head is its embedding")
          .hint("this model has a separate table: use --embedding fp16 or int8");
    if (head.scale != 1)
      throw errorf("--embedding head needs a head whose rows are those of the embedding")
          .found(
              fmt::format("rows of the head times {}, by which the model multiplies its logits", head.scale))
          .hint("--embedding fp16 or int8");
    if (o_.precision == Precision::int8_tensor)
      throw errorf("--embedding head needs --precision int8 or fp16")
          .hint("one scale for a whole piece of the head is too coarse for an embedding");
  }

  // Functions are named by these.
  void check_twice() const {
    std::set<int64_t> contexts, tokens;
    for (const int64_t context : r_.contexts)
      if (!contexts.insert(context).second) throw errorf("the context {} is given twice", context);
    for (const TokenCount& t : r_.tokens)
      if (!tokens.insert(t.most).second) throw errorf("the token count {} is given twice", t.most);
  }

  const Model& model_;
  const ConvertOptions& o_;
  ConvertRequest r_;
};

}  // namespace

std::string ConvertRequest::function_name(int64_t context, const TokenCount& count, const RunWay& way) const {
  std::string name;
  if (contexts.size() > 1) name = fmt::format("c{}", context);
  if (tokens.size() > 1) name += fmt::format("{}t{}", name.empty() ? "" : "_", count.most);
  if (!way.variant.empty()) name += (name.empty() ? "" : "_") + way.variant;
  return name.empty() ? "main" : name;
}

bool ConvertRequest::writes(lower::KvWrite write) const {
  return std::ranges::find(ways, write, &RunWay::write) != ways.end();
}

std::string_view kv_write_name(lower::KvWrite write) {
  return write == lower::KvWrite::slice ? "slice" : "mask";
}

BundleKind kind_of(const Model& model) {
  if (std::holds_alternative<PooledHead>(model.head)) return BundleKind::embed;
  return std::holds_alternative<ClassHead>(model.head) ? BundleKind::classify : BundleKind::generate;
}

ConvertRequest make_request(const Model& model, const ConvertOptions& options) {
  return Request(model, options).make();
}

}  // namespace anemone
