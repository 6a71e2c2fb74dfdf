// `anemone classify`: classes of texts, or of each of their tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/encoding.h"
#include "cli/format.h"

namespace anemone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Args {
  std::string bundle;
  EncodingFlags flags;
};

// Softmax; of a single class, how likely it is at all.
std::vector<double> probabilities(std::span<const float> logits) {
  if (logits.size() == 1) return {1 / (1 + std::exp(-static_cast<double>(logits[0])))};
  const auto most = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> out;
  double sum = 0;
  for (const float v : logits) {
    out.push_back(std::exp(static_cast<double>(v) - most));
    sum += out.back();
  }
  for (double& p : out) p /= sum;
  return out;
}

struct Choice {
  std::string label;
  double probability = 0;
  std::vector<double> all;
};

Choice choose(std::span<const float> logits, const BundleInfo& info) {
  Choice out;
  out.all = probabilities(logits);
  const auto best = static_cast<size_t>(std::max_element(out.all.begin(), out.all.end()) - out.all.begin());
  out.label = info.labels.at(best);
  out.probability = out.all[best];
  return out;
}

double rounded(double p) { return std::round(p * 1e6) / 1e6; }

Json scores_json(const Choice& choice, const BundleInfo& info) {
  Json out;
  for (size_t i = 0; i < choice.all.size(); ++i) out[info.labels.at(i)] = rounded(choice.all[i]);
  return out;
}

std::string token_text(const EncodingInput& input, int32_t id) {
  if (!input.tokenizer) return fmt::format("{}", id);
  const std::string text = input.tokenizer->decode(std::span(&id, 1));
  return text.empty() ? std::string(input.tokenizer->piece(id)) : text;
}

// The ids that were computed: a cut leaves the last ones.
std::vector<int32_t> ids_seen(const EncodingInput& input, size_t text, const EncodedText& e) {
  std::vector<int32_t> ids = input.ids[text];
  const auto keep =
      static_cast<ptrdiff_t>(std::min<int64_t>(static_cast<int64_t>(input.keep_last), e.tokens));
  ids.erase(ids.end() - keep - static_cast<ptrdiff_t>(e.cut), ids.end() - keep);
  return ids;
}

void print_tokens(const EncodingInput& input, size_t text, const EncodedText& e, const BundleInfo& info,
                  bool json) {
  const std::vector<int32_t> ids = ids_seen(input, text, e);
  const size_t classes = e.classes.size() / ids.size();
  Json tokens = Json::array();
  for (size_t t = 0; t < ids.size(); ++t) {
    const Choice choice = choose(std::span(e.classes).subspan(t * classes, classes), info);
    const std::string word = token_text(input, ids[t]);
    if (json)
      tokens.push_back({{"id", ids[t]},
                        {"token", word},
                        {"label", choice.label},
                        {"probability", rounded(choice.probability)}});
    else if (!input.tokenizer || !input.tokenizer->is_special(ids[t]))
      fmt::print("{:<20} {:<12} {:.4f}\n", one_line(word, 20), choice.label, choice.probability);
  }
  if (!json) return;
  Json out;
  if (!input.texts.empty()) out["text"] = input.texts[text];
  out["tokens"] = std::move(tokens);
  fmt::print("{}\n", json_text(out));
}

void print_text(const EncodingInput& input, size_t text, const EncodedText& e, const BundleInfo& info,
                bool json) {
  const Choice choice = choose(e.classes, info);
  if (!json) {
    fmt::print("{:<12} {:.4f}  {}\n", choice.label, choice.probability,
               input.texts.empty() ? fmt::format("{} tokens", e.tokens) : one_line(input.texts[text], 70));
    return;
  }
  Json out;
  if (!input.texts.empty()) out["text"] = input.texts[text];
  out["label"] = choice.label;
  out["probability"] = rounded(choice.probability);
  out["scores"] = scores_json(choice, info);
  fmt::print("{}\n", json_text(out));
}

int run_classify(const Args& args, const Common& common) {
  const BundleInfo info = BundleInfo::read(args.bundle);
  expect_kind(info, args.bundle, {BundleKind::classify});
  const EncodingInput input = args.flags.read(args.bundle);
  std::vector<EncodedText> all(input.ids.size());
  encode_all(args.flags, input, args.bundle, {}, common, [&](size_t i, EncodedText e) {
    e.hidden.clear();
    all[i] = std::move(e);
  });
  for (size_t i = 0; i < all.size(); ++i) {
    if (i && !common.json && !info.pooling) fmt::print("\n");
    (info.pooling ? print_text : print_tokens)(input, i, all[i], info, common.json);
  }
  return 0;
}

constexpr std::string_view kExamples =
    "  anemone classify sentiment \"What a fine day.\" \"I want my money back.\"\n"
    "  anemone classify ner --lines letters.txt --json";

}  // namespace

extern const Command kClassify{
    "classify", "Classes of texts, or of each of their tokens", kExamples, [](Options& o) -> Action {
      auto args = std::make_shared<Args>();
      o.positional("BUNDLE", args->bundle, "what convert wrote, of a model with a classification head");
      args->flags.declare(o);
      return [args](const Common& common) { return run_classify(*args, common); };
    }};

}  // namespace anemone::cli
