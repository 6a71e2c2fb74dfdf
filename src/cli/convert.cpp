// `anemone convert`: a checkpoint becomes a bundle of Core ML packages.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/json_text.h"
#include "base/paths.h"
#include "base/words.h"
#include "check/wrap.h"
#include "checkpoint/onnx_bundle.h"
#include "cli/command.h"
#include "cli/compress_flags.h"
#include "cli/convert_network.h"
#include "cli/format.h"
#include "cli/source.h"
#include "cli/version.h"
#include "convert/calibrated.h"
#include "convert/convert.h"
#include "convert/request.h"
#include "families/family.h"
#include "hub/cache.h"
#include "hub/name.h"
#include "plan/precision.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string model, output, context, tokens, precision, kv, kv_write,
      target = "macos15", embedding = "fp16", layers, residual_scale, skip, experts, bundle_version, variant;
  bool whole = false, head_apart = false, argmax = false, no_int8 = false, overwrite = false,
       keep_blocks = false;
  double shard_mb = 250;
  int64_t head_rows = kNotSaid, expert_group = kNotSaid;
  CompressFlags compress;
  NetworkFlags network;
};

int64_t number(const std::string& text, const char* flag) {
  try {
    size_t used = 0;
    const int64_t value = std::stoll(text, &used);
    if (used == text.size() && value > 0) return value;
  } catch (const std::exception&) {
  }
  throw errorf("{} takes whole numbers above zero", flag).found(text.empty() ? "nothing" : text);
}

std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

std::vector<lower::TokenCount> token_counts(const std::string& text) {
  std::vector<lower::TokenCount> out;
  for (const std::string& part : parts(text, ',')) {
    const size_t dash = part.find('-');
    if (dash == std::string::npos) {
      const int64_t n = number(part, "--tokens");
      out.push_back({n, n});
    } else {
      out.push_back({number(part.substr(0, dash), "--tokens"), number(part.substr(dash + 1), "--tokens")});
    }
  }
  return out;
}

// "3-7": both ends count from 0.
void set_layers(const std::string& text, ConvertOptions& o) {
  const size_t dash = text.find('-');
  const auto layer = [&](const std::string& part) -> size_t {
    return part == "0" ? 0 : static_cast<size_t>(number(part, "--layers"));
  };
  if (dash == std::string::npos) throw errorf("--layers takes a range, such as 0-3").found(text);
  o.first_layer = layer(text.substr(0, dash));
  o.last_layer = layer(text.substr(dash + 1)) + 1;
}

// What --precision says: int8 and fp16 come straight from the checkpoint, and palettes are made by compression.
struct Stored {
  Precision precision = Precision::int8;
  std::optional<PaletteForm> palette;
};

Stored stored_form(const Args& args) {
  if (args.no_int8 && !args.precision.empty() && args.precision != "fp16")
    throw errorf("--no-int8 and --precision {} contradict each other", args.precision);
  if (args.no_int8) return {Precision::fp16, {}};
  if (args.precision.empty()) return {};
  const StorageForm form = parse_precision(args.precision);
  for (const Precision p : {Precision::int8, Precision::int8_tensor, Precision::fp16})
    if (form == storage_form(p)) return {p, {}};
  return {Precision::fp16, form.palette};
}

// The flags of compression, with what --precision lut4-g16 stands for among them.
CompressFlags compress_flags(const Args& args) {
  CompressFlags flags = args.compress;
  const Stored stored = stored_form(args);
  if (stored.palette && flags.any())
    throw errorf("--precision {} says what the weights become, and so do other flags", args.precision)
        .hint(
            "leave out --precision, or --palettize, --quantize, --prune, --decompress, --search and "
            "--recipe");
  if (stored.palette) {
    flags.bits = stored.palette->bits;
    flags.group = stored.palette->group;
  }
  if (!flags.any()) flags.expect_none();
  return flags;
}

std::optional<double> residual_scale_of(const std::string& text) {
  if (text == "auto") return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value > 0) || !std::isfinite(value))
    throw errorf("--residual-scale takes auto or a number above zero").found(text);
  return value;
}

// A line that is drawn over itself, at most twenty times a second (convert/ sees to that).
class ProgressBar {
 public:
  bool operator()(uint64_t done, uint64_t total, const std::string& what) const {
    constexpr int kWidth = 30;
    const double part = total ? static_cast<double>(done) / static_cast<double>(total) : 1;
    const int filled = static_cast<int>(part * kWidth);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    fmt::print(stderr, "\r\x1b[K{} {:3.0f}%  {} of {}  {}", bar, part * 100, size_text(done),
               size_text(total), what);
    if (done == total) fmt::print(stderr, "\r\x1b[K");  // the table says the rest
    std::fflush(stderr);
    return true;
  }
};

ConvertOptions options_of(const Args& args, const Common& common) {
  ConvertOptions o;
  for (const std::string& part : parts(args.context, ',')) o.context.push_back(number(part, "--context"));
  o.tokens = token_counts(args.tokens);
  if (args.kv == "state") o.kv = lower::KvKind::state;
  if (args.kv == "packed") o.kv = lower::KvKind::packed;
  if (args.kv == "io") o.kv = lower::KvKind::io;
  if (args.kv_write == "mask" || args.kv_write == "both") o.kv_write.push_back(lower::KvWrite::mask);
  if (args.kv_write == "slice" || args.kv_write == "both") o.kv_write.push_back(lower::KvWrite::slice);
  o.precision = stored_form(args).precision;
  o.whole = args.whole;
  o.head_apart = args.head_apart;
  o.keep_blocks = args.keep_blocks;
  o.skip = args.skip;
  for (const ExpertWay way : {ExpertWay::all, ExpertWay::host, ExpertWay::groups})
    if (args.experts == way_name(way)) o.experts = way;
  if (args.expert_group != kNotSaid) o.expert_group = args.expert_group;
  o.argmax = args.argmax;
  o.embedding_int8 = args.embedding == "int8";
  o.embedding_in_head = args.embedding == "head";
  if (!(args.shard_mb > 0 && args.shard_mb < 1e9))
    throw errorf("--shard-mb takes a number above zero").found(fmt::format("{}", args.shard_mb));
  o.shard_bytes = static_cast<uint64_t>(args.shard_mb * 1e6);
  if (args.head_rows != kNotSaid) {
    if (args.head_rows < 1 || args.head_rows > 65536)
      throw errorf("--head-rows must be 1 to 65536").found(fmt::format("{}", args.head_rows));
    o.head_rows = args.head_rows;
  }
  if (!args.layers.empty()) set_layers(args.layers, o);
  o.advised = true;
  // A part of the layers is for a quick trial.
  o.glance = args.residual_scale.empty() && args.layers.empty();
  if (o.glance || !args.residual_scale.empty())
    o.residual_scale = residual_scale_of(o.glance ? "auto" : args.residual_scale);
  o.target = args.target;
  o.threads = common.threads;
  o.overwrite = args.overwrite;
  o.tool = std::string("anemone ") + kVersion;
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO)) o.progress = ProgressBar();
  return o;
}

void print_json(const Args& args, const ConvertReport& report, double seconds) {
  const BundleInfo& info = report.info;
  nlohmann::ordered_json out = {{"bundle", args.output}, {"family", info.family},
                                {"target", info.target}, {"residual_scale", info.residual_scale},
                                {"bytes", report.bytes}, {"seconds", seconds}};
  for (const auto& row : report.rows)
    out["files"].push_back({{"file", row.file}, {"holds", row.holds}, {"bytes", row.bytes}});
  if (report.compressed) out["compression"] = report_json(*report.compressed);
  out["chosen"] = report.chosen;
  if (!info.inferred.empty()) out["inferred"] = info.inferred;
  out["notes"] = report.notes;
  fmt::print("{}\n", json_text(out, 2));
}

// "mask", or "mask or slice" where the bundle has both.
std::string kv_writes_text(const BundleInfo& info) {
  std::string out;
  for (const Variant& v : info.variants)
    if (out.find(v.kv_write) == std::string::npos) out += (out.empty() ? "" : " or ") + v.kv_write;
  return out.empty() ? info.kv_write : out;
}

// "main" or "1 and 64 tokens, contexts 256 and 512".
std::string functions_text(const BundleInfo& info) {
  std::string tokens, contexts;
  std::set<std::string> seen;
  const auto add = [&](std::string& list, const std::string& item, const char* kind) {
    if (seen.insert(kind + item).second) list += (list.empty() ? "" : ", ") + item;
  };
  for (const StageFunction& f : info.stages[0].functions) {
    add(tokens,
        f.least_tokens == f.most_tokens ? fmt::format("{}", f.most_tokens)
                                        : fmt::format("{}-{}", f.least_tokens, f.most_tokens),
        "t");
    add(contexts, fmt::format("{}", f.context), "c");
  }
  if (info.kind != BundleKind::generate)
    return fmt::format("{}: texts of up to {} tokens, padded to {}", kind_name(info.kind),
                       info.stages[0].functions.back().most_tokens, tokens);
  return fmt::format("tokens {}; context {}", tokens, contexts);
}

void print_table(const Args& args, const ConvertReport& report, double seconds, bool verbose) {
  const BundleInfo& info = report.info;
  fmt::print("{} ({}, {}, {} hidden, vocabulary {})\n\n", info.name.empty() ? info.source : info.name,
             info.family, counted(info.layers, "layer"), info.hidden, info.vocab);
  size_t wide = 20;
  for (const auto& row : report.rows) wide = std::max(wide, row.holds.size());
  fmt::print("  {:<24} {:<{}} {:>10}\n", "file", "holds", wide, "weights");
  for (const auto& row : report.rows)
    fmt::print("  {:<24} {:<{}} {:>10}\n", row.file, row.holds, wide, size_text(row.bytes));
  fmt::print("  {:<24} {:<{}} {:>10}\n\n", "all files", "", wide, size_text(report.bytes));
  const std::string cache =
      info.kv.empty() ? "" : fmt::format(", kv {} by {}", info.kv, kv_writes_text(info));
  fmt::print("{} written in {:.2f} s: {}{}, for {}\n", args.output, seconds, info.precision, cache,
             info.target);
  fmt::print("{}\n", functions_text(info));
  for (size_t i = 0; i < report.chosen.size(); ++i)
    fmt::print("{}", wrap(i ? "        " : "chosen  ", report.chosen[i], 100));
  if (!verbose) return;
  for (size_t i = 0; i < info.inferred.size(); ++i)
    fmt::print("{}", wrap(i ? "          " : "inferred  ", info.inferred[i], 100));
}

void print_notes(const ConvertReport& report, const Common& common) {
  if (common.json || common.quiet) return;
  for (const std::string& text : report.notes) note(common, text);
}

// How long verify takes, roughly: it reads every weight and computes about 400 tokens. Measured on two cores: 20 s for
// a bundle of 197 MB.
std::string verify_time(uint64_t bytes) {
  const double seconds = 1 + static_cast<double>(bytes) / 10e6;
  if (seconds < 10) return "a few seconds";
  if (seconds < 90) return fmt::format("about {:.0f} s", std::ceil(seconds / 10) * 10);
  return fmt::format("about {:.0f} minutes", std::ceil(seconds / 60));
}

// What to do with a bundle once it is there, as the commands to type.
void print_next(const Args& args, const ConvertReport& report, const Inks& inks) {
  const std::string bundle = shell_word(args.output);
  const auto line = [](const std::string& what, const std::string& command) {
    fmt::print("  {:<32} anemone {}\n", what, command);
  };
  fmt::print("\n{}\n", inks(Ink::heading, "next"));
  // A part of the layers makes no text.
  if (report.reads_text && args.layers.empty())
    line("try it here",
         report.info.kind == BundleKind::embed      ? fmt::format("embed {} \"The tide comes in.\"", bundle)
         : report.info.kind == BundleKind::classify ? fmt::format("classify {} \"What a fine day.\"", bundle)
                                                    : fmt::format("run {} \"What is a tide pool?\"", bundle));
  const std::string model = hub::shown_name(args.model);
  line(
      fmt::format("prove it ({})", verify_time(report.bytes)),
      fmt::format("verify {} --source {}", bundle, shell_word(hub::hidden_by_folder(model).value_or(model))));
  line("see what stays on the engine", fmt::format("check {}", bundle));
}

void print_result(const Args& args, const ConvertReport& report, double seconds, const Common& common) {
  if (common.json) return print_json(args, report, seconds);
  if (report.compressed) print_report(*report.compressed, args.output, common);
  if (common.quiet) return;
  if (report.compressed) fmt::print("\n");
  print_table(args, report, seconds, common.verbose);
  print_next(args, report, common.out);
}

// A folder of that name would be taken for a package by us and by Xcode, or for a file by people.
void check_bundle_name(const std::string& output) {
  const std::filesystem::path named = std::filesystem::path(output).lexically_normal();
  const std::string extension = (named.has_filename() ? named : named.parent_path()).extension().string();
  constexpr std::string_view kPackages[] = {".mlpackage", ".mlmodelc", ".mlmodel"};
  constexpr std::string_view kFiles[] = {".gguf", ".safetensors", ".onnx", ".json", ".bin", ".pt",
                                         ".pth",  ".mil",         ".npz",  ".zip",  ".tar", ".gz"};
  const bool package = std::count(std::begin(kPackages), std::end(kPackages), extension) > 0;
  if (!package && !std::count(std::begin(kFiles), std::end(kFiles), extension)) return;
  throw errorf("convert writes a bundle: a folder with packages, the tokenizer and bundle.json in it")
      .at(output)
      .hint(fmt::format(
          "leave out {}{}", extension,
          package ? "; with --whole the model is one package in that folder, whole.mlpackage" : ""));
}

// --bundle-version and --variant choose among ONNX files; without them the format does.
void choose_onnx(Args& args) {
  if (args.bundle_version.empty() && args.variant.empty()) return;
  const std::optional<OnnxPlace> place = find_onnx(args.model, {args.bundle_version, args.variant});
  if (!place)
    throw errorf("--bundle-version and --variant choose among ONNX models, and there is none").at(args.model);
  args.model = place->model.string();
}

// Flags that say how a bundle is made mean nothing for one package.
void expect_network_flags(const Args& a) {
  const Args usual;
  const std::pair<bool, const char*> all[] = {{!a.context.empty(), "--context"},
                                              {!a.tokens.empty(), "--tokens"},
                                              {!a.kv.empty(), "--kv"},
                                              {!a.kv_write.empty(), "--kv-write"},
                                              {!a.layers.empty(), "--layers"},
                                              {!a.residual_scale.empty(), "--residual-scale"},
                                              {!a.skip.empty(), "--skip"},
                                              {!a.experts.empty(), "--experts"},
                                              {a.whole, "--whole"},
                                              {a.head_apart, "--head-apart"},
                                              {a.argmax, "--argmax-output"},
                                              {a.keep_blocks, "--keep-blocks"},
                                              {a.shard_mb != usual.shard_mb, "--shard-mb"},
                                              {a.head_rows != kNotSaid, "--head-rows"},
                                              {a.expert_group != kNotSaid, "--expert-group"},
                                              {a.embedding != usual.embedding, "--embedding"}};
  for (const auto& [given, flag] : all)
    if (given)
      throw errorf("{} is for bundles, and the output asks for one package of an ONNX network", flag)
          .hint("an output that does not end in .mlpackage asks for a bundle");
  if (a.compress.any())
    throw errorf("the package of an ONNX network is written in fp16 or fp32")
        .hint("anemone compress makes it smaller afterwards");
}

int run_convert(Args args, const Common& common) {
  const auto start = std::chrono::steady_clock::now();
  if (const auto place = find_network(args.model, args.output, {args.bundle_version, args.variant})) {
    expect_network_flags(args);
    if (!place->note.empty() && !common.quiet) fmt::print(stderr, "note: {}\n", place->note);
    return convert_network({place->model.string(), args.output, args.no_int8 ? "fp16" : args.precision,
                            args.target, args.overwrite},
                           args.network, common);
  }
  args.network.expect_none();
  if (args.output.empty() && !(args.bundle_version + args.variant).empty())
    args.output = free_bundle_name(args.model);
  choose_onnx(args);
  if (args.output.empty()) {
    args.output = free_bundle_name(args.model);
    expect_apart(args.model, args.output);
  }
  check_bundle_name(args.output);
  ConvertOptions options = options_of(args, common);
  const CompressFlags flags = compress_flags(args);
  if (flags.any()) {
    if (args.precision.empty()) options.precision = Precision::fp16;  // the best there is to compress
    options.recipe = flags.recipe_of();
    flags.check_text_flags(*options.recipe);
    if (flags.search) expect_perplexity(kind_of(describe(Checkpoint::open(args.model))), args.model);
  }
  const auto compress = [&](const std::filesystem::path& plain) {
    return flags.run(plain.string(), args.output, args.overwrite, common);
  };
  const ConvertReport report = flags.any() && flags.run_model()
                                   ? convert_calibrated(args.model, args.output, options, compress)
                                   : convert(args.model, args.output, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_result(args, report, seconds, common);
  print_notes(report, common);
  return 0;
}

void declare_onnx(Options& o, Args& args) {
  o.text("--bundle-version", "V", args.bundle_version,
         "of an ONNX bundle with a folder for each version: the folder to take (the newest complete one)");
  o.text("--variant", "V", args.variant, "of a folder with onnx/model_V.onnx: which one, such as q4f16");
  o.flag("--keep-blocks", args.keep_blocks,
         "4- and 8-bit blocks of an ONNX bundle stay as they are; they do not run on the ANE");
}

constexpr std::string_view kExamples =
    "  anemone convert HuggingFaceTB/SmolLM2-135M-Instruct -o smollm2\n"
    "  anemone convert Qwen3-0.6B.Q8_0.gguf -o qwen3 --context 512,2048 --target iphone";

void declare_experts(Options& o, Args& args) {
  o.text("--experts", "WAY", args.experts,
         "of a model with experts: all (each is computed, a mask picks), host (the host chooses, and "
         "calls those alone), groups (it calls groups of them), auto (what plan predicts to be fastest; "
         "default)")
      .one_of({"auto", "all", "host", "groups"});
  o.integer("--expert-group", "N", args.expert_group, "experts of one call, with --experts groups");
  o.text("--skip", "HOW", args.skip,
         "what a router adds when it skips its experts: pass (the input, the vendor's way) or zero")
      .one_of({"pass", "zero"});
}

}  // namespace

extern const Command kConvert{
    "convert", "Turn a model into a bundle, or an ONNX network into one package", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional(
           "MODEL", args->model,
           "a .gguf file (any part of a split one), a folder with safetensors and config.json, a folder "
           "with model.onnx and its config, or OWNER/REPO on the Hugging Face Hub; or an .onnx file")
          .also("-m,--model")
          .takes(kCheckpoint);
      o.text("-o,--output", "FOLDER", args->output,
             "the bundle to write (a new folder here, called like the model), or NAME.mlpackage")
          .also("--outfile")
          .writes();
      o.text("--context", "N[,N…]", args->context,
             "compiled length; several make tiers sharing one weight file (2048, or the model's "
             "maximum)")
          .also("--max-seq-len,-c,--ctx-size");
      o.text("--tokens", "SPEC", args->tokens,
             "tokens at once: 1, a range 1-4, or several functions 1,64 (default; 1 for palettes); for "
             "encoders the "
             "lengths that texts are padded to (64,256,512; longer for models that redact)");
      o.text("--precision", "P", args->precision,
             "int8 (a scale per output channel, default), int8-tensor, fp16, or palettes as plan names them: "
             "lut4, lut4-g16 …");
      o.text("--target", "CHIP[,OS]", args->target,
             "phone, ipad, mac, m4, \"iPhone 15 Pro\", ios18, \"a17-pro, ios18\" … (macos15): chooses "
             "defaults, and warns");
      declare_onnx(o, *args);
      o.flag("--whole", args->whole, "layers and head in one package, as small models want");
      o.flag("--overwrite", args->overwrite, "replace the bundle if it exists");
      o.group("Form of the packages");
      o.text("--kv", "FORM", args->kv,
             "state (a pair per layer), packed (two per shard; default for iPhones), io")
          .one_of({"state", "packed", "io"});
      o.text("--kv-write", "HOW", args->kv_write,
             "mask (default), slice, or both: functions for each, of which `warm` finds the better one")
          .one_of({"mask", "slice", "both"});
      o.flag("--head-apart", args->head_apart,
             "with --whole: also functions with the head apart, of which `warm` finds the better way");
      o.flag("--argmax-output", args->argmax, "each head shard gives its best token instead of logits");
      o.real("--shard-mb", "MB", args->shard_mb, "most weights in one package (250)");
      o.integer("--head-rows", "N", args->head_rows, "rows of one head convolution (16384)");
      o.text("--embedding", "P", args->embedding,
             "fp16 (default), int8 (a scale per row), or head: the head's own rows where they are the same")
          .one_of({"fp16", "int8", "head"});
      o.text("--residual-scale", "X", args->residual_scale,
             "scales the residual stream, for models that leave the range of fp16; a few words are run to "
             "see whether "
             "that is needed, auto runs more of them, 1 leaves it as it is");
      declare_experts(o, *args);
      o.text("--layers", "A-B", args->layers, "only these layers, for a quick trial");
      o.flag("--no-int8", args->no_int8, "the same as --precision fp16");
      args->compress.declare(o);
      args->network.declare(o);
      return [args](const Common& common) { return run_convert(*args, common); };
    }};

}  // namespace anemone::cli
