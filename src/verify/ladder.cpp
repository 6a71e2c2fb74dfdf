#include "verify/ladder.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "families/experts.h"
#include "families/family.h"
#include "package/package.h"
#include "runtime/session.h"
#include "verify/climber.h"
#include "verify/package_weights.h"
#include "verify/prompt.h"

namespace anemone {
namespace {

constexpr int64_t kDefaultPrompt = 48;

constexpr const char* kNames[] = {"weights", "reference", "stateless", "stateful", "runtime", "text"};

// Of the packages' weights and the tables.
int least_bits(const Bundle& bundle) {
  const BundleInfo& info = bundle.info();
  int bits = 16;
  for (const EmbeddingTable* table : {&info.tokens, &info.positions, &info.types})
    if (table->dtype == "int8") bits = 8;
  for (const Stage& stage : bundle.info().stages) {
    const auto package = open_package(bundle.path() / stage.package);
    for (const auto& function : package->program.functions)
      for_each_op(function->body, [&](const Operation& op) {
        if (op.type.starts_with("constexpr_") && !op.outputs.empty())
          bits = std::min(bits, form_bits(storage_text(*op.outputs[0])));
      });
  }
  return bits;
}

// The model as far as the bundle goes.
Model part_of(const Climber& c) {
  Model part = c.model;
  part.layers.assign(c.model.layers.begin() + c.first_layer,
                     c.model.layers.begin() + c.first_layer + c.bundle->info().layers);
  return part;
}

void open_source(Climber& c) {
  c.checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(c.options.source));
  c.model = describe(*c.checkpoint);
  const BundleInfo& info = c.bundle->info();
  if (!info.skip.empty()) set_skip(c.model, info.skip);
  if (info.hidden != c.model.hidden || info.vocab != c.model.vocab)
    throw errorf("the bundle was made from another model than '{}'", c.options.source.string())
        .at(c.path.string())
        .found(fmt::format("vocabulary {}, hidden {}", info.vocab, info.hidden))
        .expected(fmt::format("vocabulary {}, hidden {}", c.model.vocab, c.model.hidden));
  if (c.first_layer + info.layers > static_cast<int64_t>(c.model.layers.size()))
    throw errorf("the bundle has layers that '{}' does not have", c.options.source.string())
        .at(c.path.string())
        .found(fmt::format("layers {} to {}", c.first_layer, c.first_layer + info.layers - 1))
        .expected(fmt::format("0 to {}", c.model.layers.size() - 1));
  c.full = std::make_unique<Reference>(c.checkpoint, part_of(c), c.options.threads);
}

// Rows of the longest context that a text may fill. Where rows are written as slices, a call writes its padding too.
int64_t rows_of(const Bundle& bundle) {
  const int64_t rows = bundle.tiers().back();
  if (bundle.info().kv_write != "slice") return rows;
  int64_t least = rows;
  for (const StageFunction& f : bundle.info().stages.front().functions)
    least = std::min(least, f.least_tokens);
  return std::max<int64_t>(1, rows - (least - 1));
}

// In every variant.
int64_t usable_rows(const Climber& c) {
  int64_t out = rows_of(*c.ways.front());
  for (const auto& way : c.ways) out = std::min(out, rows_of(*way));
  return out;
}

// The prompt, short enough for the bundle; the steps follow it.
std::vector<int32_t> choose_prompt(Climber& c, int64_t& steps) {
  const int64_t capacity = usable_rows(c);
  steps = c.report.generates ? std::min(c.options.steps, std::max<int64_t>(0, capacity / 2)) : 0;
  const int64_t room = capacity - steps;
  std::vector<int32_t> ids = c.options.ids;
  if (ids.empty()) {
    const Ordinary ordinary(c.model.vocab, c.model.hidden, [&](int64_t id, std::span<float> row) {
      c.bundle->embedding().read_token(id, row);
    });
    std::vector<int64_t> special = c.model.eos;
    for (const auto& id : {c.model.bos, c.model.pad})
      if (id) special.push_back(*id);
    ids = ordinary_ids(c.tokenizer.get(), c.model.vocab, ordinary, special, std::min(room, kDefaultPrompt));
  }
  if (static_cast<int64_t>(ids.size()) > room) ids.resize(static_cast<size_t>(room));
  if (ids.empty()) throw errorf("there are no tokens to verify with");
  return ids;
}

void open_ways(Climber& c) {
  const auto backend = c.options.backend({.threads = c.options.threads});
  const BundleInfo info = BundleInfo::read(c.path);
  std::vector<Variant> variants = info.variants;
  if (variants.empty()) variants.emplace_back();
  for (const Variant& v : variants) c.ways.push_back(Bundle::open(c.path, backend, {}, v.name));
  c.bundle = c.ways.front();
}

Rung climb(Climber& c, int number, const std::function<Rung()>& body) {
  const auto start = std::chrono::steady_clock::now();
  Rung rung;
  const std::set<Arithmetic> ties = c.router_ties;
  try {
    rung = body();
  } catch (const Error& e) {
    // What the bundle cannot compute is the bundle's fault; what we were given wrongly is not.
    if (c.cancelled || number < 3) throw;
    rung.verdict = Verdict::failed;
    rung.summary = e.what();
  }
  for (const Arithmetic a : c.router_ties)
    if (!ties.contains(a))
      rung.notes.push_back(fmt::format(
          "in {} arithmetic a router chose another expert at a near tie; from there on values were judged "
          "by their range alone",
          arithmetic_name(a)));
  rung.number = number;
  rung.name = kNames[number - 1];
  rung.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return rung;
}

void describe_bundle(Climber& c) {
  const BundleInfo& info = c.bundle->info();
  VerifyReport& r = c.report;
  r.bundle = c.path.string();
  r.source = (c.options.source.empty() ? c.options.golden : c.options.source).string();
  r.name = info.name.empty() ? info.family : info.name;
  r.precision = info.precision;
  r.layers = info.layers;
  r.residual_scale = info.residual_scale;
  r.min_cosine = c.options.min_cosine;
  r.generates = info.kind == BundleKind::generate;
  if (r.generates) {
    std::string writes;
    for (const auto& way : c.ways)
      if (const std::string& one = way->info().kv_write; writes.find(one) == std::string::npos)
        writes += (writes.empty() ? "" : " or ") + one;
    r.form = fmt::format("kv {} by {}{}", info.kv, writes, info.argmax ? ", argmax" : "");
  } else {
    std::string lengths;
    for (const int64_t n : c.bundle->tiers()) lengths += fmt::format("{}{}", lengths.empty() ? "" : ", ", n);
    r.form = fmt::format("{} texts of up to {} tokens", kind_name(info.kind), lengths);
  }
  const size_t packages = info.packages().size();
  r.form += fmt::format(", {} package{}", packages, packages == 1 ? "" : "s");
}

// A rung in every variant. The figures of layers that the report keeps are those of the first.
Rung climb_ways(Climber& c, int number, const std::function<Rung()>& body) {
  Rung out = climb(c, number, body);
  const auto name = [&] { return c.bundle->info().variants.front().name; };
  const auto layer_figures = c.report.layer_figures;
  const auto magnitudes = c.report.magnitudes;
  const double proposed = c.report.proposed_scale;
  if (c.ways.size() > 1) out.summary = fmt::format("{}: {}", name(), out.summary);
  for (size_t i = 1; i < c.ways.size() && out.verdict != Verdict::failed; ++i) {
    c.bundle = c.ways[c.way = i];
    Rung rung = climb(c, number, body);
    out.seconds += rung.seconds;
    for (FigureRow& row : rung.rows) {
      row.what = fmt::format("{}: {}", name(), row.what);
      out.rows.push_back(std::move(row));
    }
    for (const std::string& note : rung.notes)
      if (std::ranges::count(out.notes, note) == 0) out.notes.push_back(fmt::format("{}: {}", name(), note));
    out.summary = rung.verdict == Verdict::failed
                      ? fmt::format("{}: {}", name(), rung.summary)
                      : fmt::format("{}; {}: {}", out.summary, name(), rung.summary);
    if (rung.verdict != Verdict::passed) out.verdict = rung.verdict;
  }
  c.bundle = c.ways[c.way = 0];
  c.report.layer_figures = layer_figures;
  c.report.magnitudes = magnitudes;
  c.report.proposed_scale = proposed;
  return out;
}

// What sessions made of the prompt, by variant.
using Made = std::vector<std::map<Arithmetic, std::vector<int32_t>>>;

std::vector<std::function<Rung()>> rungs_of(Climber& c, Made& made) {
  if (c.report.generates)
    return {[&c] { return check_weights_rung(c); },
            [&c] { return check_reference(c); },
            [&c] { return check_stateless(c); },
            [&c] { return check_stateful(c); },
            [&c, &made] { return check_runtime(c, made[c.way]); },
            [&c, &made] { return check_text(c, made[c.way]); }};
  const auto skipped = [](const char* why) {
    return [why] {
      Rung rung;
      rung.verdict = Verdict::skipped;
      rung.summary = why;
      return rung;
    };
  };
  return {
      [&c] { return check_weights_rung(c); },    [&c] { return check_encoder_reference(c); },
      [&c] { return check_encoder_layers(c); },  skipped("the model sees a text whole: there is no cache"),
      [&c] { return check_encoder_runtime(c); }, [&c, &made] { return check_text(c, made[c.way]); }};
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::warned: return "warning";
    case Verdict::failed: return "failed";
    case Verdict::skipped: return "skipped";
  }
  return "";
}

double LayerMagnitude::half_headroom() const {
  return value.value > 0 ? static_cast<double>(kHalfMax) / value.value : INFINITY;
}

double LayerMagnitude::accumulator_headroom() const {
  const double most = sum.where.empty() ? value.value : sum.value;
  return most > 0 ? kAccumulatorLimit / most : INFINITY;
}

bool VerifyReport::passed() const {
  return std::none_of(rungs.begin(), rungs.end(), [](const Rung& r) { return r.verdict == Verdict::failed; });
}

double Climber::stream_bar(Arithmetic arithmetic) const {
  if (options.min_cosine < kMinCosine || !half_weights() || arithmetic != Arithmetic::fp32)
    return options.min_cosine;
  return std::max(kHalfWeightCosine, options.min_cosine);
}

double Climber::piece_bar(Arithmetic arithmetic) const {
  const double bar = !half_weights()                  ? kPieceCosine
                     : arithmetic == Arithmetic::fp32 ? kHalfWeightCosine
                                                      : 0.99;
  return options.min_cosine < kMinCosine ? std::min(bar, options.min_cosine) : bar;
}

std::vector<int64_t> Climber::heads() const {
  std::vector<int64_t> out;
  if (!full) return out;
  for (const Layer& layer : full->model().layers) {
    const Attention* a = find_attention(layer);
    out.push_back(a ? a->head_dim : 0);
  }
  return out;
}

void Climber::say(const std::string& what) const {
  if (!options.progress || options.progress(what)) return;
  cancelled = true;
  throw errorf("cancelled");
}

Stepper Climber::stepper(Arithmetic arithmetic, bool taps, int64_t positions) const {
  return Stepper(open(arithmetic), {.positions = positions ? positions : tokens, .taps = taps});
}

std::shared_ptr<const Bundle> Climber::open(Arithmetic arithmetic) const {
  const std::vector<Variant>& variants = bundle->info().variants;
  return Bundle::open(path, options.backend({.arithmetic = arithmetic, .threads = options.threads}), {},
                      variants.empty() ? "" : variants.front().name);
}

std::string Climber::value_problem(const Figures& f, const Judging& how, bool stream, double slack) const {
  const Arithmetic arithmetic = how.arithmetic;
  if (how.range_only || (how.of_text && router_ties.contains(arithmetic))) return f.finite ? "" : text(f);
  if (exact()) {
    const double bar = slack * graph_bars(arithmetic).error;
    if (f.finite && f.relative <= bar) return "";
    return fmt::format("{} (bar: error {:.2g}%)", text(f), 100 * bar);
  }
  const double bar = stream ? stream_bar(arithmetic) : piece_bar(arithmetic);
  return f.within(bar) ? "" : fmt::format("{} (bar: cosine {})", text(f), bar);
}

std::string Climber::logit_problem(const FigureRow& row) const {
  const auto name = arithmetic_name(row.arithmetic);
  if (router_ties.contains(row.arithmetic)) {
    const bool finite = !row.values || std::isfinite(row.worst_error);
    return finite ? "" : fmt::format("the logits are not finite in {} arithmetic", name);
  }
  if (!row.values) {
    if (exact() && row.worst_margin > kTieMargin)
      return fmt::format(
          "a token was picked that lies {:.3g} standard deviations below the best in {} arithmetic "
          "(bar {})",
          row.worst_margin, name, kTieMargin);
    const double least = half_weights() ? 1.0 : 0.5;
    return !exact() && row.same_best < least
               ? fmt::format("only {:.0f}% of the best tokens are the truth's (bar {:.0f}%)",
                             100 * row.same_best, 100 * least)
               : "";
  }
  if (exact()) {
    const GraphBars& bars = graph_bars(row.arithmetic);
    if (!(row.worst_error <= bars.error))
      return fmt::format("the logits have an error of {:.2g}% in {} arithmetic (bar {:.2g}%)",
                         100 * row.worst_error, name, 100 * bars.error);
    if (!(row.worst_divergence <= bars.divergence))
      return fmt::format("the next token's distribution is {:.2g} nats away in {} arithmetic (bar {:.2g})",
                         row.worst_divergence, name, bars.divergence);
    return "";
  }
  // Compressed weights are judged by the mean: a single token may be hard.
  const double bar = stream_bar(row.arithmetic), cosine = half_weights() ? row.worst_cosine : row.cosine;
  const double error = half_weights() ? row.worst_error : row.error;
  if (cosine >= bar && error <= error_of_cosine(bar)) return "";
  return fmt::format(
      "the logits have cosine {:.5f} and an error of {:.2g}% in {} arithmetic (bar: cosine {}, error "
      "{:.2g}%)",
      cosine, 100 * error, name, bar, 100 * error_of_cosine(bar));
}

LogitTally::LogitTally(std::string what, Arithmetic arithmetic) {
  row_.what = std::move(what);
  row_.arithmetic = arithmetic;
  row_.same_best = row_.overlap = row_.cosine = 0;
}

void LogitTally::add(std::span<const float> got, std::span<const float> expected) {
  const LogitFigures f = compare_logits(got, expected);
  ++row_.positions;
  row_.same_best += f.same_best() ? 1 : 0;
  row_.overlap += f.overlap;
  row_.cosine += f.values.cosine;
  row_.worst_cosine = std::min(row_.worst_cosine, f.values.cosine);
  row_.error += f.values.relative;
  row_.worst_error = std::max(row_.worst_error, f.values.relative);
  row_.divergence += f.divergence;
  row_.worst_divergence = std::max(row_.worst_divergence, f.divergence);
  row_.mean_abs += f.values.mean_abs;
  row_.max_abs = std::max(row_.max_abs, f.values.max_abs);
  row_.psnr += f.values.psnr;
}

void LogitTally::add_best(int64_t got, std::span<const float> expected) {
  ++row_.positions;
  row_.values = false;
  row_.same_best += got == best_of(expected) ? 1 : 0;
  row_.overlap += in_top(expected, got, 5) ? 1 : 0;
  const bool inside = got >= 0 && got < static_cast<int64_t>(expected.size());
  row_.worst_margin = std::max(row_.worst_margin, inside ? margin_below_best(expected, got) : INFINITY);
}

FigureRow LogitTally::row() const {
  FigureRow out = row_;
  const auto n = static_cast<double>(std::max<int64_t>(1, row_.positions));
  for (double* sum :
       {&out.same_best, &out.overlap, &out.cosine, &out.mean_abs, &out.psnr, &out.error, &out.divergence})
    *sum /= n;
  return out;
}

VerifyReport verify(const std::filesystem::path& path, const VerifyOptions& options) {
  ANEMONE_CHECK(options.backend);
  if (options.source.empty() == options.golden.empty())
    throw errorf("give a source or a golden, one of the two");
  if (options.steps < 1) throw errorf("--steps must be at least 1");
  if (options.arithmetics.empty()) throw errorf("no arithmetic to verify in");
  Climber c{.options = options, .path = path};
  open_ways(c);
  for (const Stage& stage : c.bundle->info().stages)
    if (stage.has_layers()) {
      c.first_layer = stage.first_layer;
      break;
    }
  c.least_bits = least_bits(*c.bundle);
  const BundleInfo& info = c.bundle->info();
  if (!info.tokenizer.empty()) c.tokenizer = Tokenizer::load(path / info.tokenizer);
  describe_bundle(c);
  if (!options.source.empty()) {
    open_source(c);
    c.truth.ids = choose_prompt(c, c.report.steps);
    c.truth.prompt = static_cast<int64_t>(c.truth.ids.size());
    c.truth.origin = options.source.filename().string();
  } else {
    if (!c.report.generates)
      throw errorf("a golden holds logits of a vocabulary, and this bundle gives none")
          .at(path.string())
          .hint("use --source MODEL");
    if (!options.ids.empty())
      throw errorf("a golden brings its own tokens")
          .hint("give the text to `anemone golden`, or use --source");
    c.truth = Golden::read(options.golden);
    if (c.truth.vocab != info.vocab)
      throw errorf("the golden is of another model than the bundle")
          .at(options.golden.string())
          .found(fmt::format("vocabulary {}", c.truth.vocab))
          .expected(fmt::format("{}", info.vocab));
    const int64_t capacity = usable_rows(c);
    if (c.truth.prompt > capacity)
      throw errorf("the golden's prompt of {} tokens does not fit the bundle's context", c.truth.prompt)
          .at(options.golden.string())
          .expected(fmt::format("at most {}", capacity));
    c.truth.ids.resize(std::min(c.truth.ids.size(), static_cast<size_t>(capacity)));
    c.report.steps = static_cast<int64_t>(c.truth.ids.size()) - c.truth.prompt;
  }
  c.report.prompt = c.truth.prompt;

  Made made(c.ways.size());
  const std::vector<std::function<Rung()>> rungs = rungs_of(c, made);
  for (int number = 1; number <= 6; ++number) {
    const auto& body = rungs[static_cast<size_t>(number - 1)];  // 1 and 2 look at what all variants share
    c.report.rungs.push_back(number < 3 ? climb(c, number, body) : climb_ways(c, number, body));
    if (c.report.rungs.back().verdict == Verdict::failed) break;
  }
  return std::move(c.report);
}

}  // namespace anemone
