#include "cli/compress_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/shape.h"
#include "base/words.h"
#include "bundle/bundle_info.h"
#include "cli/backend.h"
#include "cli/format.h"
#include "cli/ids.h"
#include "cli/input.h"
#include "cli/version.h"
#include "convert/search.h"
#include "runtime/bundle.h"
#include "verify/perplexity.h"

namespace anemone::cli {
namespace {

std::vector<float> read_table(const std::string& text) {
  if (text.ends_with(".npy")) return read_npy(text).to_float();
  std::vector<float> out;
  for (size_t at = 0; at < text.size();) {
    char* end = nullptr;
    out.push_back(std::strtof(text.c_str() + at, &end));
    const auto next = static_cast<size_t>(end - text.c_str());
    if (next == at || (next < text.size() && text[next] != ','))
      throw errorf("--lut takes an .npy file or numbers with commas between them").found(text.substr(0, 40));
    at = next + 1;
  }
  return out;
}

// "2%" or "0.02".
double share(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (*end == '%') value /= 100, ++end;
  if (end == text.c_str() || *end != 0 || !(value >= 0) || !std::isfinite(value))
    throw errorf("--max-ppl-loss takes a share").found(text).expected("2% or 0.02");
  return value;
}

std::string decibel_text(double db) { return std::isinf(db) ? "exact" : fmt::format("{:.1f}", db); }

// The matrices of an encoder that conversion leaves in fp16 (families/encoder.h says why), by their names in packages.
void note_sensitive(const CompressReport& report, const std::string& output, const Common& common) {
  if (!is_bundle(output) || BundleInfo::read(output).kind == BundleKind::generate) return;
  const auto count = std::count_if(report.rows.begin(), report.rows.end(), [](const auto& row) {
    const bool plain = std::isinf(row.sqnr_db);  // nothing was lost
    return !plain && (row.weight.ends_with("_v_weight") || row.weight.ends_with("_down_weight"));
  });
  if (count)
    note(common,
         fmt::format(
             "in an encoder the value and down projections lose most ({} here); --skip '*_v_weight' --skip "
             "'*_down_weight' keeps them, as convert --precision int8 does",
             counted(count, "weight")));
}

void print_rows(const CompressReport& report, bool all_rows) {
  constexpr size_t kMostRows = 40;
  size_t width = 6;
  for (const auto& row : report.rows) width = std::max(width, std::min<size_t>(44, row.weight.size()));
  if (!report.rows.empty())
    fmt::print("  {:<{}}  {:<20} {:>6} {:>10} {:>10} {:>8}  {}\n", "weight", width, "shape", "bits", "before",
               "after", "SQNR dB", "form");
  std::string package;
  size_t shown = 0;
  for (const auto& row : report.rows) {
    if (!all_rows && shown == kMostRows) {
      fmt::print("  … and {} more (--verbose shows all)\n", report.rows.size() - shown);
      break;
    }
    if (row.package != package) fmt::print("  {}\n", package = row.package);
    fmt::print("  {:<{}}  {:<20} {:>6.2f} {:>10} {:>10} {:>8}  {}\n", one_line(row.weight, 44), width,
               shape_text(row.dims), row.bits, size_text(row.bytes_before), size_text(row.bytes_after),
               decibel_text(row.sqnr_db), row.form + (row.calibrated ? ", calibrated" : ""));
    ++shown;
  }
}

void print_tables(const CompressReport& report, bool all_rows, const Inks& inks) {
  print_rows(report, all_rows);
  fmt::print("\n{} changed, {} left as they are: {} → {}",
             counted(static_cast<int64_t>(report.rows.size()), "weight"), report.untouched,
             size_text(report.bytes_before), size_text(report.bytes_after));
  if (report.signal > 0) fmt::print(", SQNR {} dB", decibel_text(report.sqnr_db()));
  fmt::print("\n");
  if (report.judged > 0) {
    int64_t better = 0;
    for (const auto& row : report.rows) better += row.calibrated;
    fmt::print("calibrated {} of {}", better, counted(report.judged, "weight"));
    fmt::print("{}\n", better < report.judged ? "; plain rounding lost less of the others' outputs" : "");
  }
  for (const std::string& kept : report.kept) fmt::print("kept: {}\n", kept);
  for (const auto& w : report.warnings)
    fmt::print("{} {} ({})\n", inks(Ink::doubtful, fmt::format("warning {}:", w.rule)), w.text,
               counted(w.weights, "weight"));
}

}  // namespace

nlohmann::ordered_json report_json(const CompressReport& report) {
  nlohmann::ordered_json out = {{"bytes_before", report.bytes_before},
                                {"bytes_after", report.bytes_after},
                                {"untouched", report.untouched}};
  const auto db = [](double v) {
    return std::isinf(v) ? nlohmann::ordered_json() : nlohmann::ordered_json(v);
  };
  if (report.signal > 0) out["sqnr_db"] = db(report.sqnr_db());
  out["weights"] = nlohmann::ordered_json::array();
  for (const auto& row : report.rows)
    out["weights"].push_back({{"package", row.package},
                              {"name", row.weight},
                              {"shape", row.dims},
                              {"form", row.form},
                              {"bits", row.bits},
                              {"bytes_before", row.bytes_before},
                              {"bytes_after", row.bytes_after},
                              {"sqnr_db", db(row.sqnr_db)},
                              {"sparsity", row.sparsity},
                              {"functions", row.functions},
                              {"calibrated", row.calibrated}});
  out["kept"] = report.kept;
  out["warnings"] = nlohmann::ordered_json::array();
  for (const auto& w : report.warnings)
    out["warnings"].push_back({{"rule", w.rule}, {"text", w.text}, {"weights", w.weights}});
  return out;
}

void CompressFlags::declare(Options& o) {
  o.group("Palettes");
  o.integer("--palettize", "BITS", bits, "tables of 2^BITS values: 1, 2, 3, 4, 6 or 8");
  o.integer("--group", "N", group, "a table for every N output channels (one for the weight)");
  o.flag("--per-channel-scale", per_channel_scale, "scale each output channel before its table is looked up");
  o.integer("--vector", "D", vector, "entries of D neighboring output channels (1)");
  o.text("--mode", "MODE", mode, "kmeans (the true optimum, default), uniform, unique")
      .one_of({"kmeans", "uniform", "unique"});
  o.text("--lut", "TABLE", lut, "a table of your own: an .npy file, or numbers with commas");
  o.flag("--int8-lut", int8_lut, "store the tables as int8 with a scale each");
  o.flag("--fast", fast, "a local optimum in a few steps instead of the true one");
  o.group("Integers");
  o.text("--quantize", "TYPE", quantize, "integers: int8, uint8, int4 or uint4, a scale per output channel")
      .one_of({"int8", "uint8", "int4", "uint4"});
  o.flag("--per-tensor", per_tensor, "one scale for the weight");
  o.integer("--block", "N", block, "a scale for every N input channels of an output channel");
  o.flag("--asymmetric", asymmetric, "integers with an offset");
  o.group("Zeros");
  o.flag("--prune", prune, "set small values to zero and store the others, with one of the next three");
  o.real("--sparsity", "X", sparsity, "this share of the values, the smallest: 0.4");
  o.text("--nm", "N:M", nm, "of every M values along the input channels the N smallest: 2:4");
  o.real("--threshold", "X", threshold, "values of at most this magnitude");
  o.group("Fitted to a text, for bundles");
  o.text("--calibrate", "TEXT", calibrate, "fit to the model's activations on a text file (or .npy of ids)")
      .streams();
  o.integer("--calibration-tokens", "N", calibration_tokens, "use at most N tokens of it (2048)");
  o.flag("--search", search,
         "choose bits for each matrix: the smallest size within --max-ppl-loss; needs --calibrate");
  o.text("--max-ppl-loss", "X", max_ppl_loss, "how much perplexity may grow: 2% (default)");
  o.group("Which weights");
  o.texts("--skip", "PATTERN", skip, "leave weights out: a name with * and ?, package/name, or op:KIND");
  o.texts("--only", "PATTERN", only, "only these weights");
  o.integer("--min-size", "N", min_size, "only weights of N elements or more (2048)");
  o.text("--recipe", "FILE", recipe, "rules in JSON, so that weights can differ").streams();
  o.flag("--decompress", decompress, "store plain values again");
}

bool CompressFlags::any() const {
  return bits != 0 || !lut.empty() || !quantize.empty() || prune || sparsity >= 0 || threshold >= 0 ||
         !nm.empty() || decompress || !recipe.empty() || mode == "unique" || search;
}

void CompressFlags::expect_none() const {
  std::string given;
  const auto add = [&](bool is_given, const char* flag) {
    if (is_given) given += (given.empty() ? "" : ", ") + std::string(flag);
  };
  add(group != 0, "--group");
  add(per_channel_scale, "--per-channel-scale");
  add(vector != 1, "--vector");
  add(int8_lut, "--int8-lut");
  add(fast, "--fast");
  add(per_tensor, "--per-tensor");
  add(block != 0, "--block");
  add(asymmetric, "--asymmetric");
  add(!calibrate.empty(), "--calibrate");
  add(calibration_tokens != 0, "--calibration-tokens");
  add(!max_ppl_loss.empty(), "--max-ppl-loss");
  add(!skip.empty(), "--skip");
  add(!only.empty(), "--only");
  if (!given.empty())
    throw errorf("{} say{} how weights are compressed, and nothing says what they become", given,
                 given.find(',') == std::string::npos ? "s" : "")
        .hint("add --palettize BITS, --quantize TYPE, --precision lut4 or another form");
}

bool CompressFlags::prunes() const { return prune || sparsity >= 0 || threshold >= 0 || !nm.empty(); }

Recipe CompressFlags::recipe_of() const {
  if (!recipe.empty()) return recipe_file();
  Recipe r;
  r.skip = skip;
  r.only = only;
  r.min_size = min_size;
  RecipeRule rule;
  const bool palettes = bits != 0 || !lut.empty() || mode == "unique";
  if (search && (palettes || !quantize.empty() || prunes() || decompress || vector != 1))
    throw errorf("--search chooses the bits of palettes")
        .hint(
            "leave out --palettize, --quantize, --prune, --vector, --lut and --mode unique; --group may "
            "stay");
  if (palettes || search)
    rule.form.palette = palette_of();
  else if (group || per_channel_scale || vector != 1 || int8_lut || fast)
    throw errorf("--group, --per-channel-scale, --vector, --int8-lut and --fast belong to --palettize")
        .hint("add --palettize BITS");
  if (!quantize.empty())
    rule.form.integers = integers_of();
  else if (per_tensor || block || asymmetric)
    throw errorf("--per-tensor, --block and --asymmetric belong to --quantize").hint("add --quantize int8");
  if (prunes()) rule.form.prune = prune_of();
  rule.form.dense = decompress;
  r.rules.push_back(rule);
  check_recipe(r);
  return r;
}

Recipe CompressFlags::recipe_file() const {
  if (search)
    throw errorf("--search makes the rules itself").hint("leave out --recipe; --skip and --only may stay");
  if (bits != 0 || !lut.empty() || !quantize.empty() || prunes() || decompress || mode == "unique")
    throw errorf("--recipe says what becomes of each weight").hint("put the other flags into its rules");
  Recipe r = parse_recipe(open_input(recipe)->text(), recipe);
  r.skip.insert(r.skip.end(), skip.begin(), skip.end());
  r.only.insert(r.only.end(), only.begin(), only.end());
  return r;
}

PaletteForm CompressFlags::palette_of() const {
  PaletteForm p;
  p.bits = bits ? static_cast<int>(std::min<int64_t>(bits, 64)) : 8;
  p.group = group;
  p.vector = vector;
  p.channel_scale = per_channel_scale;
  p.int8_table = int8_lut;
  p.fast = fast;
  p.mode = mode == "uniform"  ? PaletteForm::Mode::uniform
           : mode == "unique" ? PaletteForm::Mode::unique
                              : PaletteForm::Mode::kmeans;
  if (!lut.empty()) {
    p.mode = PaletteForm::Mode::given;
    p.table = read_table(lut);
    if (bits == 0)
      for (p.bits = 1; p.bits < 8 && (size_t{1} << p.bits) * static_cast<size_t>(vector) < p.table.size();)
        ++p.bits;
  }
  return p;
}

IntegerForm CompressFlags::integers_of() const {
  IntegerForm q;
  q.dtype = dtype_from_name(quantize);
  if (per_tensor && block)
    throw errorf("--per-tensor and --block do not go together").hint("use one of them");
  q.per = per_tensor ? IntegerForm::Per::tensor : block ? IntegerForm::Per::block : IntegerForm::Per::channel;
  q.block = block;
  q.symmetric = !asymmetric;
  return q;
}

PruneForm CompressFlags::prune_of() const {
  PruneForm p;
  if (sparsity >= 0) p.sparsity = sparsity;
  if (threshold >= 0) p.threshold = threshold;
  if (!nm.empty()) {
    char* end = nullptr;
    p.n = std::strtoll(nm.c_str(), &end, 10);
    p.m = *end == ':' ? std::strtoll(end + 1, &end, 10) : 0;
    if (*end != 0) throw errorf("--nm takes two numbers, such as 2:4").found(nm);
  }
  return p;
}

void CompressFlags::check_text_flags(const Recipe& r) const {
  if (!max_ppl_loss.empty() && !search)
    throw errorf("--max-ppl-loss belongs to --search").hint("add --search --calibrate TEXT");
  if (search && calibrate.empty()) throw errorf("--search needs a text").hint("add --calibrate TEXT");
  if (calibration_tokens != 0 && calibrate.empty())
    throw errorf("--calibration-tokens belongs to --calibrate").hint("add --calibrate TEXT");
  if (calibrate.empty()) return;
  const auto rounds = [](const RecipeRule& rule) {
    return rule.form.integers || (rule.form.palette && rule.form.palette->vector == 1);
  };
  if (std::none_of(r.rules.begin(), r.rules.end(), rounds))
    throw errorf("--calibrate rounds better, and nothing here is rounded value by value")
        .hint(
            "add --palettize or --quantize and leave out --vector and --decompress, or leave out "
            "--calibrate");
}

CompressBundleOptions CompressFlags::options_of(const std::string& input, const Common& common) const {
  CompressBundleOptions out;
  out.backend = BackendFlags{.backend = "cpu"}.make(common);  // whose values inside cost nothing
  out.compress.recipe = recipe_of();
  check_text_flags(out.compress.recipe);
  out.compress.threads = common.threads;
  out.tool = std::string("anemone ") + kVersion;
  if (!calibrate.empty()) {
    if (!is_bundle(input))
      throw errorf("calibration runs a model on a text, and this is no bundle")
          .at(input)
          .hint("leave out --calibrate");
    out.calibration = calibrate.ends_with(".npy") ? read_ids(calibrate) : text_ids(input, calibrate);
    if (calibration_tokens != 0) out.calibration_tokens = calibration_tokens;
  }
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO))
    out.compress.progress = [](int64_t done, int64_t total, const std::string& what) {
      fmt::print(stderr, "\r\x1b[K{:3}%  {}{}", 100 * done / total, what, done == total ? "\r\x1b[K" : "");
      std::fflush(stderr);
      return true;
    };
  return out;
}

CompressReport CompressFlags::run(const std::string& input, const std::string& output, bool overwrite,
                                  const Common& common) const {
  CompressBundleOptions options = options_of(input, common);
  options.compress.overwrite = overwrite;
  if (search) return run_search(input, output, options, common);
  return is_bundle(input) ? compress_bundle(input, output, options)
                          : compress_package(input, output, options.compress);
}

CompressReport CompressFlags::run_search(const std::string& input, const std::string& output,
                                         CompressBundleOptions& options, const Common& common) const {
  if (std::filesystem::exists(output) && !options.compress.overwrite)
    throw Error("already exists").at(output).hint("give another name, or --overwrite");
  expect_perplexity(BundleInfo::read(input).kind, input);
  SearchOptions s;
  s.ids = options.calibration;
  s.max_loss = share(max_ppl_loss.empty() ? "2%" : max_ppl_loss);
  s.perplexity = [&](const std::filesystem::path& bundle, std::span<const int32_t> ids) {
    return perplexity(Bundle::open(bundle, BackendFlags{}.open(common)), ids, {}).value();
  };
  s.compress = options;
  if (!common.quiet && !common.json)
    s.progress = [](int run, double value, uint64_t bytes) {
      fmt::print("run {}: perplexity {:.3f}{}\n", run, value, bytes ? ", " + size_text(bytes) : " as it is");
      std::fflush(stdout);
    };
  const SearchResult found = search_bits(input, output, s);
  options.compress.recipe = found.recipe;
  options.calibration = found.calibration;
  CompressReport report = compress_bundle(input, output, options);
  if (!common.quiet && !common.json)
    fmt::print("perplexity {:.3f} → {:.3f} ({:+.2f}%) in {}\n\n", found.perplexity_before,
               found.perplexity_after, 100 * (found.perplexity_after / found.perplexity_before - 1),
               counted(found.runs, "run"));
  return report;
}

void expect_perplexity(BundleKind kind, const std::string& place) {
  if (kind != BundleKind::generate)
    throw errorf("--search goes by perplexity, and this bundle predicts no text")
        .at(place)
        .found(fmt::format("kind '{}'", kind_name(kind)))
        .hint("give the bits yourself: --palettize 4 --calibrate TEXT");
}

void print_report(const CompressReport& report, const std::string& output, const Common& common) {
  if (report.again > 0)
    note(common, fmt::format("{} weight{} already quantized: compressing the fp16 original would lose less",
                             report.again, report.again == 1 ? " was" : "s were"));
  for (const std::string& pattern : report.idle_skips)
    note(common, fmt::format("--skip '{}' names no weight", pattern));
  note_sensitive(report, output, common);
  if (common.json)
    fmt::print("{}\n", json_text(report_json(report), 2));
  else if (!common.quiet)
    print_tables(report, common.verbose, common.out);
}

}  // namespace anemone::cli
