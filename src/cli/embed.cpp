// `anemone embed`: vectors of texts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/shape.h"
#include "cli/command.h"
#include "cli/encoding.h"
#include "cli/source.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string bundle, output, pool;
  bool normalize = false, no_normalize = false;
  EncodingFlags flags;
};

struct Vectors {
  std::vector<std::vector<float>> rows;  // by text: [hidden], or [tokens, hidden] unpooled
  std::vector<int64_t> tokens;           // by text
  int64_t hidden = 0;
  bool pooled = true, normalized = false;
  std::string pooling;
};

Vectors compute(const Args& args, const EncodingInput& input, const BundleInfo& info, const Common& common) {
  Vectors out;
  EncoderOptions options;
  if (args.pool == "mean") options.pooling = Pooling::mean;
  if (args.pool == "cls") options.pooling = Pooling::first;
  out.pooled = args.pool != "none";
  const Pooling pooling = options.pooling.value_or(info.pooling.value_or(Pooling::mean));
  out.pooling = !out.pooled ? "none" : pooling == Pooling::first ? "cls" : "mean";
  out.normalized = out.pooled && !args.no_normalize && (args.normalize || info.normalize);
  out.hidden = info.hidden;
  out.rows.resize(input.ids.size());
  out.tokens.resize(input.ids.size());
  encode_all(args.flags, input, args.bundle, options, common, [&](size_t i, EncodedText e) {
    out.tokens[i] = e.tokens;
    out.rows[i] = std::move(out.pooled ? e.pooled : e.hidden);
    if (out.normalized) normalize(out.rows[i]);
  });
  return out;
}

// [hidden] or [texts, hidden]; unpooled [tokens, hidden] or [texts, tokens, hidden], zeros where there is padding.
Array array_of(const Vectors& v, const EncodingInput& input) {
  const bool one = input.texts.empty() ? input.shape.size() == 1 : !v.pooled && v.rows.size() == 1;
  int64_t most = *std::max_element(v.tokens.begin(), v.tokens.end());
  if (!v.pooled && !input.texts.empty() && *std::min_element(v.tokens.begin(), v.tokens.end()) != most)
    throw errorf("hidden states of texts of different lengths are no array")
        .hint("one text at a time, or no --output");
  std::vector<int64_t> shape;
  if (!one) shape.push_back(static_cast<int64_t>(v.rows.size()));
  if (!v.pooled) shape.push_back(most);
  shape.push_back(v.hidden);
  Array out(DType::fp32, shape);
  const int64_t stride = (v.pooled ? 1 : most) * v.hidden;
  for (size_t i = 0; i < v.rows.size(); ++i)
    std::copy(v.rows[i].begin(), v.rows[i].end(),
              out.values<float>().begin() + static_cast<ptrdiff_t>(i) * stride);
  return out;
}

Json json_of(std::span<const float> values) {
  Json out = Json::array();
  for (const float v : values) out.push_back(short_number(v));
  return out;
}

void print_lines(const Vectors& v, const EncodingInput& input) {
  for (size_t i = 0; i < v.rows.size(); ++i) {
    Json line;
    if (!input.texts.empty()) line["text"] = input.texts[i];
    line["tokens"] = v.tokens[i];
    if (v.pooled) {
      line["vector"] = json_of(v.rows[i]);
    } else {
      line["hidden"] = Json::array();
      for (size_t at = 0; at < v.rows[i].size(); at += static_cast<size_t>(v.hidden))
        line["hidden"].push_back(json_of(std::span(v.rows[i]).subspan(at, static_cast<size_t>(v.hidden))));
    }
    fmt::print("{}\n", json_text(line));
  }
}

int run_embed(const Args& args, const Common& common) {
  if (args.normalize && args.no_normalize)
    throw errorf("--normalize and --no-normalize contradict each other");
  if (args.pool == "none" && args.normalize)
    throw errorf("--normalize is for pooled vectors").hint("leave out --pool none");
  const BundleInfo info = BundleInfo::read(args.bundle);
  expect_kind(info, args.bundle, {BundleKind::embed, BundleKind::classify});
  const EncodingInput input = args.flags.read(args.bundle);
  const Vectors vectors = compute(args, input, info, common);
  if (args.output.empty()) {
    print_lines(vectors, input);
    return 0;
  }
  const Array array = array_of(vectors, input);
  write_npy(args.output, array);
  if (common.json)
    fmt::print("{}\n", json_text(Json{{"output", args.output},
                                      {"shape", array.shape()},
                                      {"texts", vectors.rows.size()},
                                      {"tokens", vectors.tokens},
                                      {"pooling", vectors.pooling},
                                      {"normalized", vectors.normalized}},
                                 2));
  else if (!common.quiet)
    fmt::print("{}: {}, {}{}\n", args.output, shape_text(array.shape()),
               vectors.pooled ? "pooled by " + vectors.pooling : "hidden states",
               vectors.normalized ? ", normalized" : "");
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone embed minilm \"The tide comes in.\" \"Low water\" -o vectors.npy\n"
    "  anemone embed e5 --lines questions.txt --prefix \"query: \" --normalize --json";

}  // namespace

extern const Command kEmbed{
    "embed", "Compute vectors of texts, or the hidden states of their tokens", kExamples,
    [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote, of an encoder").takes(kBundle);
      o.text("-o,--output", "FILE", args->output, "write .npy; without it a line of JSON for each text")
          .writes();
      o.text("--pool", "HOW", args->pool, "mean, cls (the first token) or none; as the bundle says")
          .one_of({"mean", "cls", "none"});
      o.flag("--normalize", args->normalize, "scale vectors to length 1");
      o.flag("--no-normalize", args->no_normalize, "do not, even if the bundle says so");
      args->flags.declare(o);
      return [args](const Common& common) { return run_embed(*args, common); };
    }};

}  // namespace anemone::cli
