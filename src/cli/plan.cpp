// `anemone plan`: sizes, shards and expected speed of a model before anything is converted.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/source.h"
#include "plan/page.h"
#include "plan/planner.h"
#include "plan/report.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string model, chip = "m4", precision, kv_write = "mask", html, experts;
  int64_t context = kNotSaid, head_rows = 16384, expert_group = kNotSaid;
  double shard_mb = 250;
  bool matrix = false;
};

std::vector<StorageForm> precisions_of(const std::string& text) {
  std::vector<StorageForm> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) out.push_back(parse_precision(part));
  return out;
}

ModelPlanOptions options_of(const Args& args) {
  ModelPlanOptions o;
  o.target = find_target(args.chip);
  if (args.context != kNotSaid) {
    if (args.context < 2 || args.context > 1 << 24)
      throw errorf("--context must be 2 to {}", 1 << 24).found(fmt::format("{}", args.context));
    o.context = args.context;
  }
  o.kv_write = args.kv_write == "slice" ? lower::KvWrite::slice : lower::KvWrite::mask;
  if (!(args.shard_mb > 0 && args.shard_mb < 1e9)) throw errorf("--shard-mb must be above zero");
  o.limits.bytes = static_cast<uint64_t>(args.shard_mb * 1e6);
  if (args.head_rows < 1 || args.head_rows > 65536)
    throw errorf("--head-rows must be 1 to 65536").found(fmt::format("{}", args.head_rows));
  o.limits.head_rows = args.head_rows;
  for (const ExpertWay way : {ExpertWay::all, ExpertWay::host, ExpertWay::groups})
    if (args.experts == way_name(way)) o.experts = way;
  if (args.expert_group != kNotSaid && args.expert_group < 1)
    throw errorf("--expert-group must be above zero").found(fmt::format("{}", args.expert_group));
  if (args.expert_group != kNotSaid) o.expert_group = args.expert_group;
  return o;
}

std::string parameters_text(uint64_t count) {
  const auto n = static_cast<double>(count);
  return n < 1e9 ? fmt::format("{:.1f} M", n / 1e6) : fmt::format("{:.2f} B", n / 1e9);
}

std::string number(double value) { return fmt::format("{:.{}f}", value, value < 9.95 ? 1 : 0); }
std::string range_text(const ModelPlan& p) { return number(p.slowest()) + "–" + number(p.fastest()); }

void print_model(const PlanSource& source, const Planner& planner) {
  const Model& m = planner.model();
  fmt::print("{} ({}, from {}): {} parameters\n", m.name.empty() ? m.family : m.name, m.family, source.origin,
             parameters_text(planner.parameters()));
  const ModelSizes sizes = sizes_of(m);
  fmt::print("{}, hidden {}, {}, {}, head size {}, MLP {}, vocabulary {}{}\n\n",
             counted(static_cast<int64_t>(m.layers.size()), "layer"), m.hidden,
             counted(sizes.heads, "query head"), counted(sizes.kv_heads, "KV head"), sizes.head_dim,
             sizes.intermediate, m.vocab, m.generates() && m.vocabulary_head().tied ? " (tied)" : "");
}

void print_sizes(const Planner& planner, ModelPlanOptions o, const std::vector<StorageForm>& precisions) {
  const Chip& chip = *o.target.chip;
  fmt::print("Sizes, and speed predicted for {} at context {}\n", chip.name, o.context);
  fmt::print("  {:<10} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>7}  {}\n", "precision", "layers", "head", "packages",
             "bundle", "memory", "calls", "tok/s");
  for (const StorageForm& precision : precisions) {
    o.precision = precision;
    const ModelPlan p = planner.plan(o);
    fmt::print("  {:<10} {:>9} {:>9} {:>9} {:>9} {:>9}  {:>7}  {}\n", precision_name(precision),
               size_text(p.layer_weights), size_text(p.head_weights), size_text(p.package_bytes),
               size_text(p.bundle_bytes), size_text(p.memory_bytes), p.calls_text(), range_text(p));
  }
  fmt::print("\n");
}

// At least two figures of a small number.
std::string ms_text(double ms) {
  return fmt::format("{:.{}f}", ms, ms >= 0.095 || ms <= 0 ? 2 : ms >= 0.0095 ? 3 : ms >= 0.00095 ? 4 : 5);
}

// `both`: the bundle will have the other way to write the cache, too.
void print_parts(const ModelPlan& p, const Model& m, bool both) {
  const Chip& chip = *p.options.target.chip;
  const CostConstants& c = calibration().constants;
  const bool slice = p.options.kv_write == lower::KvWrite::slice;
  fmt::print(
      "A token's time at {}: {:.1f} ms, predicted: what is read from memory, and the calls. (The "
      "milliseconds\n"
      "of anemone check are another thing: the estimates by which Core ML chooses a processor.)\n",
      precision_name(p.options.precision), p.cost.total_ms());
  fmt::print("  weights  {:>8} ms   {} read at {} GB/s ({}{}){}\n", ms_text(p.cost.weights_ms),
             size_text(p.read_bytes), chip.weight_read.mid(),
             chip.weight_read.measured ? "measured: " : "assumed: ", chip.weight_read.origin,
             read_efficiency(p.options.precision) < 1
                 ? fmt::format(" x {}", read_efficiency(p.options.precision))
                 : "");
  fmt::print("  cache    {:>8} ms   {} {} at {:.1f} GB/s (fitted)\n", ms_text(p.cost.kv_ms),
             size_text(p.kv_bytes), slice ? "read once" : "read and rewritten through the mask",
             c.activation_gbps);
  if (both)
    fmt::print("  or       {:>8} ms   read once, where rows are written in place: {:.1f} ms in all\n",
               ms_text(p.cost.kv_ms / 2), p.cost.total_ms() - p.cost.kv_ms / 2);
  fmt::print("  calls    {:>8} ms   {:.0f} x ({:.0f} µs + {} channels x {:.3f} µs, fitted)\n\n",
             ms_text(p.cost.calls_ms), p.calls(), call_floor_us(chip), m.hidden, c.us_per_channel);
}

// The three ways to compute experts, with their sums.
void print_experts(const ModelPlan& p, const Model& m) {
  if (p.ways.empty()) return;
  const Experts* e = nullptr;
  int64_t layers = 0;
  for (const Layer& layer : m.layers)
    if (const Experts* found = find_experts(layer)) e = found, ++layers;
  const Chip& chip = *p.options.target.chip;
  const double call_us =
      call_floor_us(chip) + calibration().constants.us_per_channel * static_cast<double>(m.hidden);
  fmt::print("Experts: {} in each of {}, a token uses {}{}{}; three ways (--experts)\n", e->count(),
             counted(layers, "layer"), e->used, e->skip == Experts::Skip::none ? "" : " or skips them",
             e->shared ? ", and one that all tokens use (read with the layers)" : "");
  fmt::print("  {:<10} {:>22} {:>28} {:>9} {:>9}\n", "way", "calls: layers+experts+head",
             "read: layers+experts+head", "ms", "tok/s");
  for (const WayCost& w : p.ways) {
    const std::string name =
        w.way == ExpertWay::groups ? fmt::format("groups {}", w.group) : std::string(way_name(w.way));
    fmt::print(
        "  {:<10} {:>26} {:>28} {:>9.1f} {:>9.1f}{}\n", name,
        fmt::format("{:.0f}+{:.1f}+{:.0f} = {:.0f}", w.layer_calls, w.expert_calls, w.head_calls, w.calls()),
        fmt::format("{}+{}+{}", size_text(w.layer_bytes), size_text(w.expert_bytes), size_text(w.head_bytes)),
        w.cost.total_ms(), 1000 / w.cost.total_ms(), w.way == p.way.way ? "  taken here" : "");
  }
  fmt::print("  ms = read / {:.3g} GB/s + {:.2f} ms of cache + calls x {:.2f} ms\n\n",
             chip.weight_read.mid() * read_efficiency(p.options.precision), p.cost.kv_ms, call_us / 1000);
}

void print_contexts(const Planner& planner, ModelPlanOptions o) {
  fmt::print("Cache: {} per position", size_text(planner.kv_bytes_per_position()));
  if (planner.state_bytes())
    fmt::print(", and {} of recurrent states in all", size_text(planner.state_bytes()));
  fmt::print("\n");
  std::set<int64_t> contexts = {o.context};
  for (const int64_t n : {512, 2048, 4096, 8192, 32768})
    if (n <= planner.model().context) contexts.insert(n);
  fmt::print("  {:>9} {:>9} {:>9}  {}\n", "context", "cache", "memory", "tok/s");
  for (const int64_t n : contexts) {
    o.context = n;
    const ModelPlan p = planner.plan(o);
    fmt::print("  {:>9} {:>9} {:>9}  {}\n", n, size_text(p.kv_bytes), size_text(p.memory_bytes),
               range_text(p));
  }
  fmt::print("\n");
}

void print_shards(const Planner& planner, ModelPlanOptions o) {
  fmt::print("Shards: the fewest packages below a limit; the default is what stays on every device\n");
  std::set<uint64_t> limits = {o.limits.bytes};
  for (const uint64_t mb : {250, 500, 1000, 2000})
    if (mb * 1'000'000 <= most_shard_bytes(o.target.device)) limits.insert(mb * 1'000'000);
  double before = 0;
  for (const uint64_t limit : limits) {
    o.limits.bytes = limit;
    const ModelPlan p = planner.plan(o);
    if (p.calls() == before) continue;
    before = p.calls();
    uint64_t largest = 0;
    for (const auto* list : {&p.shards.layers, &p.shards.heads})
      for (const Shard& s : *list) largest = std::max(largest, s.bytes);
    for (const ExpertCut& cut : p.cuts) largest = std::max(largest, cut.bytes);
    fmt::print("  --shard-mb {:<5} {:>3.0f} {:<6} largest {:>8}, {} tok/s{}\n", limit / 1'000'000, p.calls(),
               p.calls() == 1 ? "call," : "calls,", size_text(largest), range_text(p),
               largest > kSafeShardBytes ? "  (some devices refuse packages above 250 MB)" : "");
  }
  fmt::print("\n");
}

void print_fit(const ModelPlan& p) {
  const Chip& chip = *p.options.target.chip;
  fmt::print("Fits\n  an iPhone app (at most 4 GB): {}, {}\n", p.fit.app ? "yes" : "no",
             size_text(p.bundle_bytes));
  fmt::print("  iPhones, half of the memory for one app: {}\n",
             p.fit.phone_gb ? fmt::format("{} GB and up", p.fit.phone_gb) : "none up to 12 GB");
  if (!p.options.target.phone())
    fmt::print("  {}, three quarters for one process: {}\n", chip.name,
               p.fit.smallest_gb ? fmt::format("{} GB and up", p.fit.smallest_gb) : "none");
  if (!p.fit.resident)
    fmt::print("  note: above 3 GB of weights one process has been refused more (rule Z04, seen once)\n");
  if (!p.fit.context)
    fmt::print("  note: attention over more than {} rows leaves the {}'s engine\n", longest_context(chip),
               chip.name);
  if (bits_of(p.options.precision) < 4)
    fmt::print("  note: two bits per weight spoil most models that were not trained for them\n");
  fmt::print("\n");
}

void print_honesty(const ModelPlan& p) {
  const CostFit& c = calibration();
  fmt::print(
      "Sizes are computed; tok/s are predictions, shown as ±{:.0f}% of the time. Fitted to {} published "
      "runs: mean "
      "error\n{:.1f}%, {:.1f}% when the run is left out of the fit, {:.1f}% when its whole model is.\n",
      100 * p.spread, std::ranges::count(calibration_points(), true, &CalibrationPoint::fitted),
      100 * c.in_sample.mean, 100 * c.left_out.mean, 100 * c.model_out.mean);
  if (p.options.kv_write == lower::KvWrite::mask && p.cost.kv_ms > 0.3 * p.cost.total_ms())
    fmt::print(
        "The cache takes much of this time; one published port that writes it through a mask was several "
        "times slower there.\n");
}

void print_matrix(const Planner& planner, ModelPlanOptions o, const std::vector<StorageForm>& precisions) {
  fmt::print("Predicted tok/s at context {} (±25%, ±40% where the read rate is assumed: *)\n", o.context);
  fmt::print("  {:<10} {:>5}", "chip", "GB/s");
  for (const StorageForm& precision : precisions) fmt::print(" {:>9}", precision_name(precision));
  fmt::print("\n");
  for (const Chip& chip : all_chips()) {
    o.target = find_target(chip.id);
    fmt::print("  {:<10} {:>4.0f}{}", chip.id, chip.weight_read.mid(), chip.weight_read.measured ? " " : "*");
    for (const StorageForm& precision : precisions) {
      o.precision = precision;
      const ModelPlan p = planner.plan(o);
      fmt::print(" {:>9}", p.fit.smallest_gb ? number(p.tokens_per_second()) : "too big");
    }
    fmt::print("\n");
  }
  fmt::print("\n");
}

nlohmann::ordered_json report(const PlanSource& source, const Planner& planner, ModelPlanOptions o,
                              const std::vector<StorageForm>& precisions, bool matrix) {
  nlohmann::ordered_json out = {{"model", model_json(source, planner)},
                                {"plans", nlohmann::ordered_json::array()}};
  std::vector<Target> targets = {o.target};
  if (matrix) {
    targets.clear();
    for (const Chip& chip : all_chips()) targets.push_back(find_target(chip.id));
  }
  for (const Target& target : targets)
    for (const StorageForm& precision : precisions) {
      o.target = target;
      o.precision = precision;
      out["plans"].push_back(plan_json(planner.plan(o)));
    }
  out["calibration"] = calibration_json();
  return out;
}

// Speed was published of models that write text; of others there are sizes.
void expect_sizes_alone(const Args& args, const Model& model) {
  const auto refuse = [&](bool given, const char* flag) {
    if (given)
      throw errorf("{} is for models that write text: speed is predicted for those alone", flag)
          .at(args.model)
          .found("a model of family " + model.family);
  };
  refuse(args.matrix, "--matrix");
  refuse(!args.html.empty(), "--html");
  refuse(args.context != kNotSaid || args.kv_write != "mask", "--context or --kv-write");
}

// What a model that sees a text whole weighs.
void print_text_model(const PlanSource& source, const Planner& planner, ModelPlanOptions o,
                      const std::vector<StorageForm>& precisions) {
  print_model(source, planner);
  fmt::print("  {:<10} {:>9} {:>9} {:>9} {:>9}  {:>7}\n", "precision", "layers", "packages", "bundle",
             "memory", "calls");
  const ModelPlan plan = planner.plan(o);
  for (const StorageForm& precision : precisions) {
    o.precision = precision;
    const ModelPlan p = planner.plan(o);
    fmt::print("  {:<10} {:>9} {:>9} {:>9} {:>9}  {:>7.0f}\n", precision_name(precision),
               size_text(p.layer_weights), size_text(p.package_bytes), size_text(p.bundle_bytes),
               size_text(p.memory_bytes), p.calls());
  }
  fmt::print("\n");
  print_fit(plan);
  fmt::print(
      "Sizes are computed, for texts of up to {} tokens. Speed is not predicted: no runs of such models on "
      "the\n"
      "engine are published.\n",
      text_lengths(planner.model()).back());
}

// The plan in one line, for --quiet.
void print_verdict(const Planner& planner, const ModelPlanOptions& o) {
  const ModelPlan p = planner.plan(o);
  const std::string fits =
      p.fit.phone_gb ? fmt::format("iPhones of {} GB and up", p.fit.phone_gb) : "no iPhone";
  fmt::print("{}: {}, {}", planner.model().name.empty() ? planner.model().family : planner.model().name,
             precision_name(o.precision), size_text(p.bundle_bytes));
  if (planner.model().generates())
    fmt::print(", {} tok/s predicted for {} at context {}", range_text(p), o.target.chip->name, o.context);
  fmt::print("; fits {}\n", fits);
}

int run_plan(const Args& args, const Common& common) {
  ModelPlanOptions o = options_of(args);
  std::vector<StorageForm> precisions = precisions_of(args.precision);
  if (!precisions.empty()) o.precision = precisions.front();
  if (precisions.empty()) precisions.assign(all_precisions().begin(), all_precisions().end());
  if (args.model.empty() && args.html.empty())
    throw errorf("a model is missing")
        .hint("name a checkpoint, a config.json or a known model such as qwen3-0.6b");
  if (args.model.empty()) {
    write_plan_page(args.html, nullptr, o);
    if (!common.quiet) fmt::print(stderr, "{} written: open it in a browser\n", args.html);
    return 0;
  }
  const PlanSource source = open_plan_source(args.model);
  if (!source.model.generates()) expect_sizes_alone(args, source.model);
  if ((o.experts || o.expert_group) && std::ranges::none_of(source.model.layers, [](const Layer& layer) {
        return find_experts(layer) != nullptr;
      }))
    throw errorf("the model has no experts").at(args.model).hint("leave out --experts and --expert-group");
  const Planner planner(source.model, source.tokenizer_bytes);
  // As convert chooses it.
  if (args.context == kNotSaid && source.model.context > 0)
    o.context = std::min(o.context, source.model.context);
  if (!source.model.generates()) o.context = text_lengths(source.model).back();
  if (!args.html.empty()) write_plan_page(args.html, &planner, o);
  if (common.json) {
    fmt::print("{}\n", json_text(report(source, planner, o, precisions, args.matrix), 2));
    return 0;
  }
  if (common.quiet) {
    print_verdict(planner, o);
    return 0;
  }
  if (!planner.model().generates()) {
    print_text_model(source, planner, o, precisions);
    return 0;
  }
  print_model(source, planner);
  const ModelPlan plan = planner.plan(o);
  if (args.matrix) {
    print_matrix(planner, o, precisions);
  } else {
    print_sizes(planner, o, precisions);
    print_parts(plan, planner.model(), args.kv_write == "both");
    print_experts(plan, planner.model());
    print_contexts(planner, o);
    print_shards(planner, o);
    print_fit(plan);
  }
  if (o.context > planner.model().context)
    fmt::print("note: the model's maximum is {} positions\n", planner.model().context);
  print_honesty(plan);
  if (!args.html.empty()) fmt::print(stderr, "{} written: open it in a browser\n", args.html);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone plan qwen3-0.6b --chip \"iPhone 15 Pro\"\n"
    "  anemone plan model.gguf --chip m4-max --precision int8,lut4 --context 4096 --html plan.html";

}  // namespace

extern const Command kPlan{
    "plan", "Sizes, shards and expected speed, before converting anything", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("MODEL", args->model,
                   "a checkpoint, a config.json (or its folder), or a known model such as qwen3-0.6b", false)
          .takes(kCheckpoint | kConfig | kName);
      o.text("--chip,--target", "NAME", args->chip,
             "m1 … m6, a14 … a19-pro, phone, ipad, mac, ios18, or a device: \"iPhone 15 Pro\" (m4)");
      o.text("--precision", "P[,P…]", args->precision,
             "fp16, int8, lut8, lut6, lut4, lut2, lut4-g16 …; the first is looked at closely (int8)");
      o.integer("--context", "N", args->context, "compiled length (2048, or the model's maximum)")
          .also("-c,--ctx-size,--max-seq-len");
      o.flag("--matrix", args->matrix, "all chips and precisions in one table");
      o.text("--html", "FILE", args->html, "also write a page with sliders, for any browser").writes();
      o.group("Form of the packages");
      o.text("--kv-write", "HOW", args->kv_write, "mask (default), slice, or both")
          .one_of({"mask", "slice", "both"});
      o.text(
           "--experts", "WAY", args->experts,
           "of a model with experts: all, host or groups, as convert makes them; auto (default): the fastest")
          .one_of({"auto", "all", "host", "groups"});
      o.integer("--expert-group", "N", args->expert_group,
                "experts of one call of the way groups (the fastest)");
      o.real("--shard-mb", "MB", args->shard_mb, "most weights in one package (250)");
      o.integer("--head-rows", "N", args->head_rows, "rows of one head convolution (16384)");
      return [args](const Common& common) { return run_plan(*args, common); };
    }};

}  // namespace anemone::cli
