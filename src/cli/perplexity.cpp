// `anemone perplexity`: how well a bundle, or a model by the fp32 reference, predicts a text.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/source.h"
#include "families/family.h"
#include "predict/arithmetic.h"
#include "verify/perplexity.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string source, text, ids;
  BackendFlags backend;
  int64_t context = 0, stride = 0, most = 0;
};

PerplexityOptions options_of(const Args& args, const Common& common) {
  PerplexityOptions o;
  o.context = args.context;
  o.stride = args.stride;
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO))
    o.progress = [](int64_t done, int64_t total, double nats) {
      fmt::print(stderr, "\r\x1b[K{:3}%  {} of {} tokens, {:.4f} so far{}", 100 * done / total, done, total,
                 std::exp(nats), done == total ? "\r\x1b[K" : "");
      std::fflush(stderr);
      return true;
    };
  return o;
}

Perplexity measure(const Args& args, const std::vector<int32_t>& ids, const Common& common) {
  const PerplexityOptions options = options_of(args, common);
  if (is_bundle(args.source))
    return perplexity(Bundle::open(args.source, args.backend.open(common)), ids, options);
  args.backend.expect_bundle(args.source);
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(args.source));
  const Reference reference(checkpoint, describe(*checkpoint), common.threads);
  return perplexity(reference, ids, options);
}

int run_perplexity(const Args& args, const Common& common) {
  if (args.text.empty() == args.ids.empty())
    throw errorf("give a text with --text FILE, or token ids with --ids FILE")
        .hint("--text - reads standard input");
  if (args.context < 0 || args.stride < 0 || args.most < 0)
    throw errorf("--context, --stride and --most cannot be negative");
  std::vector<int32_t> ids = args.ids.empty() ? text_ids(args.source, args.text) : read_ids(args.ids);
  if (args.most && ids.size() > static_cast<size_t>(args.most)) ids.resize(static_cast<size_t>(args.most));
  const Perplexity p = measure(args, ids, common);
  const std::string arithmetic = is_bundle(args.source) ? arithmetic_name(args.backend.arithmetic()) : "fp32";
  if (common.json) {
    const nlohmann::ordered_json out = {
        {"perplexity", p.value()}, {"nats_per_token", p.nats}, {"standard_error", p.error},
        {"tokens", p.tokens},      {"scored", p.scored},       {"windows", p.windows},
        {"context", p.context},    {"stride", p.stride},       {"arithmetic", arithmetic}};
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  print_fault(p.fault, common);
  fmt::print("perplexity {:.4f}  ({:.5f} ± {:.5f} nats per token)\n", p.value(), p.nats, p.error);
  if (!common.quiet)
    fmt::print("{} of {} scored in {} of {}, stride {}; {}\n", p.scored, counted(p.tokens, "token"),
               counted(p.windows, "window"), p.context, p.stride, arithmetic);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone perplexity bundle --text book.txt\n"
    "  anemone perplexity model.gguf --text book.txt --context 1024 --stride 512 --json";

}  // namespace

extern const Command kPerplexity{
    "perplexity", "Measure how well a bundle or a model predicts a text", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("SOURCE", args->source, "a bundle, a .gguf file or a safetensors folder")
          .also("-m,--model")
          .takes(kBundle | kCheckpoint);
      o.text("--text", "FILE", args->text, "the text").also("-f,--file").streams();
      o.text("--ids", "FILE", args->ids, "token ids instead, .npy").streams();
      o.integer("--context", "N", args->context, "tokens of a window (512, or what the bundle holds)")
          .also("-c,--ctx-size");
      o.integer("--stride", "N", args->stride,
                "tokens between the starts of two windows (same as --context)");
      o.integer("--most", "N", args->most, "only the first N tokens of the text");
      args->backend.declare(o, ", for bundles");
      return [args](const Common& common) { return run_perplexity(*args, common); };
    }};

}  // namespace anemone::cli
