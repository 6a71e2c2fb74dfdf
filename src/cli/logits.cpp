// `anemone logits`: the logits of a bundle, or of the checkpoint itself by the fp32 reference.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cpu_backend.h"
#include "base/npy.h"
#include "cli/command.h"
#include "cli/ids.h"
#include "families/family.h"
#include "reference/reference.h"
#include "runtime/session.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string source, ids, output, arith = "fp32", function;
  int64_t chunk = 0;
};

int run_logits(const Args& args, const Common& common) {
  const std::vector<int32_t> ids = read_ids(args.ids);
  std::vector<float> logits;
  int64_t vocab = 0;
  if (is_bundle(args.source)) {
    PredictOptions options;
    options.arithmetic = args.arith == "fp16" ? Arithmetic::fp16 : Arithmetic::fp32;
    options.threads = common.threads;
    const auto bundle = Bundle::open(args.source, cpu_backend(options));
    Session session(
        bundle,
        {.positions = static_cast<int64_t>(ids.size()), .chunk = args.chunk, .function = args.function});
    logits = session.forward(ids);
    vocab = bundle->info().vocab;
    if (session.fault() && !common.quiet)
      fmt::print(stderr, "note: {} in fp16 arithmetic, first in op '{}'\n",
                 session.fault()->nan ? "NaN" : "overflow", session.fault()->op);
  } else {
    if (args.arith == "fp16" || args.chunk || !args.function.empty())
      throw errorf("--arith fp16, --chunk and --function are for bundles").at(args.source);
    auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(args.source));
    const Reference reference(checkpoint, describe(*checkpoint), common.threads);
    logits = reference.logits(ids);
    vocab = reference.model().vocab;
  }
  Array out(DType::fp32, {static_cast<int64_t>(ids.size()), vocab});
  std::copy(logits.begin(), logits.end(), out.values<float>().begin());
  write_npy(args.output, out);
  if (!common.quiet) fmt::print("{}: {} tokens, vocabulary {}\n", args.output, ids.size(), vocab);
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone logits bundle --ids ids.npy -o logits.npy\n"
    "  anemone logits model.gguf --ids ids.npy -o reference.npy";

}  // namespace

extern const Command kLogits{
    "logits", "Write the logits of a bundle, or of a model by the fp32 reference", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("SOURCE", args->source, "a bundle, a .gguf file or a safetensors folder");
      o.required_text("--ids", "FILE", args->ids, "token ids, .npy");
      o.required_text("-o,--output", "FILE", args->output,
                      "where to write [tokens, vocabulary] in fp32, .npy");
      o.integer("--chunk", "N", args->chunk, "most tokens at once");
      o.text("--arith", "MODE", args->arith, "fp32 (default) or fp16", {"fp32", "fp16"});
      o.text("--function", "NAME", args->function, "use only this function of the bundle");
      return [args](const Common& common) { return run_logits(*args, common); };
    }};

}  // namespace anemone::cli
