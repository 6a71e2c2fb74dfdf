// `anemone golden`: captures what a model, or a bundle, computes for a text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/words.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/source.h"
#include "families/family.h"
#include "verify/golden.h"
#include "verify/prompt.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string source, output, text, ids;
  BackendFlags backend;
  int64_t steps = 16;
  bool layers = false;
};

std::vector<int32_t> prompt_of(const Args& args) {
  if (!args.text.empty() && !args.ids.empty()) throw errorf("give --text or --ids, not both");
  if (!args.ids.empty()) return read_ids(args.ids);
  if (!args.text.empty()) return text_ids(args.source, args.text);
  return tokenizer_of(args.source)->encode(kOrdinaryText, {.add_special = true});
}

int run_golden(const Args& args, const Common& common) {
  if (args.steps < 0) throw errorf("--steps cannot be negative");
  const std::vector<int32_t> prompt = prompt_of(args);
  CaptureOptions options;
  options.steps = args.steps;
  options.layers = args.layers;
  Golden golden;
  if (is_bundle(args.source)) {
    golden = capture(args.source, args.backend.open(common), prompt, options);
  } else {
    args.backend.expect_bundle(args.source);
    auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(args.source));
    golden = capture(Reference(checkpoint, describe(*checkpoint), common.threads), prompt, options);
  }
  golden.write(args.output);
  const auto steps = static_cast<int64_t>(golden.ids.size()) - golden.prompt;
  if (common.json)
    fmt::print("{}\n", json_text(nlohmann::ordered_json{{"golden", args.output},
                                                        {"prompt_tokens", golden.prompt},
                                                        {"greedy_tokens", steps},
                                                        {"vocabulary", golden.vocab},
                                                        {"arrays", golden.inner.size() + (steps ? 3 : 2)}},
                                 2));
  else if (!common.quiet)
    fmt::print("{}: {} of prompt, {} greedy; vocabulary {}, {} arrays\n", args.output,
               counted(golden.prompt, "token"), steps, golden.vocab, golden.inner.size() + (steps ? 3 : 2));
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone golden model.gguf -o g.npz --text prompt.txt --layers\n"
    "  anemone golden bundle -o g.npz --ids ids.npy --steps 0 --arith fp16";

}  // namespace

extern const Command kGolden{
    "golden", "Save what a model or a bundle computes for a text, as .npz", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("SOURCE", args->source, "a bundle, a .gguf file or a safetensors folder")
          .takes(kBundle | kCheckpoint);
      o.text("-o,--output", "FILE", args->output, "the .npz to write").writes().must();
      o.text("--text", "FILE", args->text, "the prompt; a few plain sentences by default")
          .also("-f,--file")
          .streams();
      o.text("--ids", "FILE", args->ids, "token ids instead, .npy").streams();
      o.integer("--steps", "N", args->steps, "tokens to choose greedily after it (16)");
      o.flag("--layers", args->layers, "also the values inside, layer by layer");
      args->backend.declare(o, ", for bundles");
      return [args](const Common& common) { return run_golden(*args, common); };
    }};

}  // namespace anemone::cli
