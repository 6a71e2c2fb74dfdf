// `anemone convert`: a checkpoint becomes a bundle of Core ML packages.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/command.h"
#include "cli/format.h"
#include "cli/version.h"
#include "convert/convert.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string model, output, context = "2048", tokens = "1", precision = "int8", kv, kv_write = "mask",
                             target = "macos15", embedding = "fp16", layers;
  bool whole = false, argmax = false, no_int8 = false, overwrite = false;
  double residual_scale = 1, shard_mb = 250;
  int64_t head_rows = 16384;
};

int64_t number(const std::string& text, const char* flag) {
  try {
    size_t used = 0;
    const int64_t value = std::stoll(text, &used);
    if (used == text.size() && value > 0) return value;
  } catch (const std::exception&) {
  }
  throw errorf("{} takes whole numbers above zero", flag).found(text);
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

ConvertOptions options_of(const Args& args, const Common& common) {
  ConvertOptions o;
  o.context.clear();
  for (const std::string& part : parts(args.context, ',')) o.context.push_back(number(part, "--context"));
  std::sort(o.context.begin(), o.context.end());
  o.tokens = token_counts(args.tokens);
  const bool phone =
      args.target.starts_with("ios") || args.target.starts_with("iphone") || args.target.starts_with("a1");
  const std::string kv = !args.kv.empty() ? args.kv
                         : phone          ? "packed"
                                          : "state";  // iPhones refuse more than two states
  o.kv = kv == "packed" ? lower::KvKind::packed : kv == "io" ? lower::KvKind::io : lower::KvKind::state;
  o.kv_write = args.kv_write == "slice" ? lower::KvWrite::slice : lower::KvWrite::mask;
  o.precision = args.no_int8 || args.precision == "fp16" ? Precision::fp16
                : args.precision == "int8"               ? Precision::int8
                                                         : Precision::int8_tensor;
  o.whole = args.whole;
  o.argmax = args.argmax;
  o.embedding_int8 = args.embedding == "int8";
  if (!(args.shard_mb > 0)) throw errorf("--shard-mb must be above zero");
  o.shard_bytes = static_cast<uint64_t>(args.shard_mb * 1e6);
  if (args.head_rows < 1 || args.head_rows > 65536)
    throw errorf("--head-rows must be 1 to 65536").found(fmt::format("{}", args.head_rows));
  o.head_rows = args.head_rows;
  if (!args.layers.empty()) {
    const size_t dash = args.layers.find('-');
    if (dash == std::string::npos) throw errorf("--layers takes a range, such as 0-3").found(args.layers);
    o.first_layer = args.layers.substr(0, dash) == "0"
                        ? 0
                        : static_cast<size_t>(number(args.layers.substr(0, dash), "--layers"));
    o.last_layer = (args.layers.substr(dash + 1) == "0"
                        ? 0
                        : static_cast<size_t>(number(args.layers.substr(dash + 1), "--layers"))) +
                   1;
  }
  o.residual_scale = args.residual_scale;
  if (!(o.residual_scale > 0)) throw errorf("--residual-scale must be above zero");
  o.target = args.target;
  o.threads = common.threads;
  o.overwrite = args.overwrite;
  o.tool = std::string("anemone ") + kVersion;
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO))
    o.progress = [](uint64_t done, uint64_t total, const std::string& what) {
      fmt::print(stderr, "\r\x1b[K{:3}%  {}{}", total ? 100 * done / total : 100, what,
                 done == total ? "\n" : "");
      std::fflush(stderr);
      return true;
    };
  return o;
}

int run_convert(const Args& args, const Common& common) {
  const auto start = std::chrono::steady_clock::now();
  const ConvertReport report = convert(args.model, args.output, options_of(args, common));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const BundleInfo& info = report.info;
  if (common.json) {
    nlohmann::ordered_json out = {
        {"bundle", args.output}, {"family", info.family}, {"bytes", report.bytes}, {"seconds", seconds}};
    for (const auto& row : report.rows)
      out["files"].push_back({{"file", row.file}, {"holds", row.holds}, {"bytes", row.bytes}});
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  if (common.quiet) return 0;
  fmt::print("{} ({}, {} layers, {} hidden, vocabulary {})\n\n", info.name.empty() ? info.source : info.name,
             info.family, info.layers, info.hidden, info.vocab);
  fmt::print("  {:<24} {:<20} {:>10}\n", "file", "holds", "weights");
  for (const auto& row : report.rows)
    fmt::print("  {:<24} {:<20} {:>10}\n", row.file, row.holds, size_text(row.bytes));
  fmt::print("  {:<24} {:<20} {:>10}\n\n", "all files", "", size_text(report.bytes));
  fmt::print("{} written in {:.2f} s: {}, kv {} by {}\n", args.output, seconds, info.precision, info.kv,
             info.kv_write);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone convert SmolLM2-135M-Instruct.Q8_0.gguf -o smollm2\n"
    "  anemone convert Qwen3-0.6B/ -o qwen3 --context 512,2048 --tokens 1,64 --precision fp16";

}  // namespace

extern const Command kConvert{
    "convert", "Turn a GGUF file or a safetensors folder into a bundle", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("MODEL", args->model,
                   "a .gguf file (any part of a split one) or a folder with safetensors and config.json");
      o.required_text("-o,--output", "FOLDER", args->output, "the bundle to write");
      o.text("--context,--max-seq-len", "N[,N…]", args->context,
             "compiled length; several make tiers sharing one weight file (2048)");
      o.text("--tokens", "SPEC", args->tokens, "tokens at once: 1, a range 1-4, or several functions 1,64");
      o.text("--precision", "P", args->precision,
             "int8 (a scale per output channel, default), int8-tensor, fp16",
             {"int8", "int8-tensor", "fp16"});
      o.flag("--no-int8", args->no_int8, "the same as --precision fp16");
      o.text("--kv", "FORM", args->kv,
             "state (a pair per layer), packed (two per shard; default for iPhones), io",
             {"state", "packed", "io"});
      o.text("--kv-write", "HOW", args->kv_write, "mask (default) or slice", {"mask", "slice"});
      o.flag("--argmax-output", args->argmax, "each head shard gives its best token instead of logits");
      o.flag("--whole", args->whole, "all layers in one package, the whole head in another");
      o.real("--shard-mb", "MB", args->shard_mb, "most weights in one package (250)");
      o.integer("--head-rows", "N", args->head_rows, "rows of one head convolution (16384)");
      o.text("--layers", "A-B", args->layers, "only these layers, for a quick trial");
      o.text("--embedding", "P", args->embedding, "fp16 (default) or int8 per row", {"fp16", "int8"});
      o.real("--residual-scale", "X", args->residual_scale,
             "scales the residual stream, for models that leave fp16's range");
      o.text("--target", "OS", args->target, "macos15 (default), ios18 …: chooses defaults");
      o.flag("--overwrite", args->overwrite, "replace the bundle if it exists");
      return [args](const Common& common) { return run_convert(*args, common); };
    }};

}  // namespace anemone::cli
