// `anemone logits`: the logits of a bundle, or of the checkpoint itself by the fp32 reference.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/words.h"
#include "cli/backend.h"
#include "cli/command.h"
#include "cli/ids.h"
#include "cli/source.h"
#include "families/family.h"
#include "reference/reference.h"
#include "runtime/encoder.h"
#include "runtime/session.h"

namespace anemone::cli {
namespace {

struct Args {
  std::string source, ids, output, function;
  BackendFlags backend;
  int64_t chunk = 0;
};

struct Logits {
  std::vector<float> values;  // text by text
  int64_t width = 0;          // tokens of the vocabulary, or classes
  bool classes = false;       // of a classifier
  bool by_token = true;       // a row for each token, or one for the text
};

void expect_one_text(const Args& args, const TokenTable& ids) {
  if (ids.texts() != 1)
    throw errorf("a model that writes text takes one text")
        .at(args.ids)
        .found(fmt::format("[{}, {}]", ids.texts(), ids.tokens()))
        .expected("[tokens]");
}

Logits of_bundle(const Args& args, const TokenTable& ids, const Common& common) {
  const auto bundle = Bundle::open(args.source, args.backend.open(common));
  const BundleInfo& info = bundle->info();
  expect_kind(info, args.source, {BundleKind::generate, BundleKind::classify});
  Logits out;
  std::optional<NumericFault> fault;
  if (info.kind == BundleKind::classify) {
    if (args.chunk || !args.function.empty())
      throw errorf("--chunk and --function are for bundles that write text").at(args.source);
    const Encoder encoder(bundle);
    out = {{}, static_cast<int64_t>(info.labels.size()), true, !info.pooling};
    for (size_t i = 0; i < ids.texts(); ++i) {
      const EncodedText e = encoder.encode({.ids = ids.text(i), .place = args.ids});
      out.values.insert(out.values.end(), e.classes.begin(), e.classes.end());
      if (!fault) fault = e.fault;
    }
  } else {
    expect_one_text(args, ids);
    Session session(
        bundle,
        {.positions = static_cast<int64_t>(ids.tokens()), .chunk = args.chunk, .function = args.function});
    out = {session.forward(ids.values), info.vocab};
    fault = session.fault();
  }
  print_fault(fault, common);
  return out;
}

Logits of_model(const Args& args, const TokenTable& ids, const Common& common) {
  args.backend.expect_bundle(args.source);
  if (args.chunk || !args.function.empty())
    throw errorf("--chunk and --function are for bundles").at(args.source);
  auto checkpoint = std::make_shared<const Checkpoint>(Checkpoint::open(args.source));
  const Reference reference(checkpoint, describe(*checkpoint), common.threads);
  const Model& model = reference.model();
  if (std::holds_alternative<PooledHead>(model.head))
    throw errorf("the model gives a vector for a text, and no logits")
        .at(args.source)
        .hint("convert it, and use anemone embed");
  const auto* classes = std::get_if<ClassHead>(&model.head);
  if (!classes) expect_one_text(args, ids);
  Logits out{{}, model.vocab};
  if (classes) out = {{}, static_cast<int64_t>(classes->labels.size()), true, !classes->pooling};
  for (size_t i = 0; i < ids.texts(); ++i) {
    const std::vector<float> values = reference.logits(ids.text(i));
    out.values.insert(out.values.end(), values.begin(), values.end());
  }
  return out;
}

// [rows, width]; of a classifier's texts [texts, tokens, classes], or [texts, classes] where it sees each whole.
std::vector<int64_t> shape_of(const Logits& logits, const TokenTable& ids) {
  if (logits.classes && logits.by_token && ids.shape.size() == 2)
    return {ids.shape[0], ids.shape[1], logits.width};
  return {static_cast<int64_t>(logits.values.size()) / logits.width, logits.width};
}

int run_logits(const Args& args, const Common& common) {
  const TokenTable ids = read_token_table(args.ids);
  const Logits logits = is_bundle(args.source) ? of_bundle(args, ids, common) : of_model(args, ids, common);
  Array out(DType::fp32, shape_of(logits, ids));
  std::copy(logits.values.begin(), logits.values.end(), out.values<float>().begin());
  write_npy(args.output, out);
  if (common.json)
    fmt::print("{}\n",
               json_text(nlohmann::ordered_json{{"output", args.output},
                                                {"shape", out.shape()},
                                                {"texts", ids.texts()},
                                                {"tokens", ids.tokens()},
                                                {logits.classes ? "classes" : "vocabulary", logits.width}},
                         2));
  else if (!common.quiet)
    fmt::print("{}: {}{}, {}\n", args.output,
               ids.texts() == 1 ? "" : fmt::format("{} texts of ", ids.texts()),
               counted(static_cast<int64_t>(ids.tokens()), "token"),
               logits.classes ? fmt::format("{} classes", logits.width)
                              : fmt::format("vocabulary {}", logits.width));
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
      o.positional("SOURCE", args->source, "a bundle, a .gguf file or a safetensors folder")
          .takes(kBundle | kCheckpoint);
      o.text("--ids", "FILE", args->ids, "token ids, .npy: [tokens], or [texts, tokens] of a classifier")
          .streams()
          .must();
      o.text("-o,--output", "FILE", args->output,
             "where to write [tokens, vocabulary or classes] in fp32, .npy")
          .writes()
          .must();
      o.integer("--chunk", "N", args->chunk, "most tokens at once");
      args->backend.declare(o);
      o.text("--function", "NAME", args->function, "use only this function of the bundle");
      return [args](const Common& common) { return run_logits(*args, common); };
    }};

}  // namespace anemone::cli
