// `anemone verify`: the parity ladder.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/source.h"
#include "cli/verify_network.h"
#include "page/page.h"
#include "verify/report.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string bundle, source, golden, text, ids, html, inputs;
  BackendFlags backend;
  int64_t steps = 16;
  double min_cosine = kMinCosine, max_kl = -1;
  bool deep = false, no_hash = false;
};

VerifyOptions options_of(const Args& args, const Common& common) {
  VerifyOptions o;
  if (args.source.empty() == args.golden.empty())
    throw errorf("say what to verify against: --source MODEL, or --golden g.npz");
  if (!args.text.empty() && !args.ids.empty()) throw errorf("give --text or --ids, not both");
  o.source = args.source;
  o.golden = args.golden;
  // A bundle without a tokenizer is read to by its source's.
  const bool own = args.source.empty() || !BundleInfo::read(args.bundle).tokenizer.empty();
  if (!args.text.empty()) o.ids = text_ids(own ? args.bundle : args.source, args.text);
  if (!args.ids.empty()) o.ids = read_ids(args.ids);
  o.steps = args.steps;
  if (!(args.min_cosine >= 0 && args.min_cosine <= 1)) throw errorf("--min-cosine must be 0 to 1");
  o.min_cosine = args.min_cosine;
  if (args.max_kl >= 0) o.max_divergence = args.max_kl;
  o.deep = args.deep;
  o.hashes = !args.no_hash;
  o.arithmetics = args.backend.arithmetics();
  o.backend = args.backend.make(common);
  o.threads = common.threads;
  if (!common.quiet && !common.json && ::isatty(STDERR_FILENO))
    o.progress = [](const std::string& what) {
      fmt::print(stderr, "\r\x1b[K{} …", what);
      std::fflush(stderr);
      return true;
    };
  return o;
}

int run_verify(const Args& args, const Common& common) {
  if (is_network_package(args.bundle, args.source))
    return run_verify_network({args.bundle, args.source, args.inputs}, args.backend, common);
  if (!args.inputs.empty()) throw errorf("--inputs is for a package made from an ONNX network");
  const VerifyOptions options = options_of(args, common);
  const VerifyReport report = verify(args.bundle, options);
  if (options.progress) fmt::print(stderr, "\r\x1b[K");
  if (!args.html.empty()) write_page(args.html, report_html(report));
  if (common.json)
    fmt::print("{}\n", report_json(report));
  else
    fmt::print("{}", common.out.painted(report_text(report, common.verbose, common.quiet)));
  return report.passed() ? 0 : 1;
}

constexpr std::string_view kExamples =
    "  anemone verify bundle --source model.gguf --max-kl 0.02 --html report.html\n"
    "  anemone verify bundle --golden g.npz --min-cosine 0.99 --json";

}  // namespace

extern const Command kVerify{
    "verify", "Test in six steps that a bundle computes the same as its model", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote: a bundle, or the package of an ONNX network")
          .takes(kBundle | kPackage);
      o.text("--source", "MODEL", args->source,
             "the .gguf file, safetensors folder or ONNX model that it was made from")
          .takes(kCheckpoint | kNetwork);
      o.text("--inputs", "FILE", args->inputs,
             "of an ONNX network: its inputs, .npz; made up where they are left out")
          .streams();
      o.text("--golden", "FILE", args->golden, "or an .npz with what a trusted model computes").reads();
      o.text("--html", "FILE", args->html, "also write the report as a page").writes();
      o.text("--text", "FILE", args->text, "the prompt; a few plain sentences by default")
          .also("-f,--file")
          .streams();
      o.text("--ids", "FILE", args->ids, "token ids instead, .npy").streams();
      o.integer("--steps", "N", args->steps, "tokens to decode after the prompt (16)");
      o.real("--max-kl", "X", args->max_kl,
             "fail if compression costs more than X nats per token (no limit)");
      o.real("--min-cosine", "X", args->min_cosine,
             "with --golden: the least cosine of stream and logits (0.97)");
      o.group("How far to look");
      o.flag("--deep", args->deep, "test every cache row and every vocabulary row; takes minutes");
      o.flag("--no-hash", args->no_hash, "do not compare the files with bundle.json's hashes");
      args->backend.declare_all(o);
      return [args](const Common& common) { return run_verify(*args, common); };
    }};

}  // namespace anemone::cli
